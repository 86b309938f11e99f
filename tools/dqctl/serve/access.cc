#include "serve/access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "exit.h"
#include "fd.h"
#include "own_file.h"

namespace dqctl {
namespace {

constexpr std::size_t kShortestToken = 32;
constexpr std::size_t kLongestUser = 256;
constexpr std::string_view kBearer = "bearer ";

std::string without_scheme(const std::string& origin) {
  const std::size_t end = origin.find("://");
  return end == std::string::npos ? origin : origin.substr(end + 3);
}

bool is_json(const std::string& type) {
  const std::string name = type.substr(0, type.find(';'));
  return name == "application/json" || name == "application/json ";
}

}  // namespace

void Access::check(const HttpRequest& request, bool open) const {
  const std::string host = parse_host(request.host);
  const auto& own = options_.hosts;
  const bool is_own = host == "localhost" || host == "127.0.0.1" || host == "::1" ||
                      std::find(own.begin(), own.end(), host) != own.end();
  if (!is_own) {
    const std::string shown = host.find(':') == std::string::npos ? host : '[' + host + ']';
    throw HttpError(421, "cannot serve the host " + shown + "; use another name, or start dqctl with --host " + shown);
  }
  if (open || options_.token.empty()) return;
  const std::string& given = request.authorization;
  // The name of a scheme is the same in capitals, and any number of spaces follows it.
  if (in_lower_case(std::string_view(given).substr(0, kBearer.size())) != kBearer) {
    throw HttpError(401, "a token is needed; send Authorization: Bearer with the token of --token-file");
  }
  const std::size_t begin = std::min(given.find_first_not_of(' ', kBearer.size()), given.size());
  if (!equals_secret(given.substr(begin), options_.token)) {
    throw HttpError(401, "the token is wrong; send that of --token-file");
  }
}

void Access::check_change(const HttpRequest& request) const {
  if (!options_.allow_changes) {
    throw HttpError(403, "changes are not allowed here; start dqctl serve with --allow-changes, or use dqctl itself");
  }
  if (!is_json(request.content_type)) {
    throw HttpError(415, "cannot read a body of another type; expected Content-Type: application/json");
  }
  if (request.action != "1") {
    throw HttpError(403, "the header X-Delayqueue-Action: 1 is missing: a page of another site cannot send it");
  }
  const std::string& site = request.fetch_site;
  const bool is_foreign_site = !site.empty() && site != "same-origin" && site != "none";
  const bool is_foreign_origin = !request.origin.empty() && without_scheme(request.origin) != request.host;
  if (is_foreign_site || is_foreign_origin) {
    throw HttpError(403, "changes from a page of another site are refused; open the page of this server");
  }
  if (!options_.user_field.empty() && user_of(request).empty()) {
    throw HttpError(403, "cannot change anything: the proxy has named no user in " + options_.user_field +
                             "; log in there, or check its configuration");
  }
}

std::string Access::user_of(const HttpRequest& request) const {
  std::string user;
  bool found = false;
  for (const auto& [name, value] : request.other_fields) {
    if (options_.user_field.empty() || name != options_.user_field) continue;
    if (found) throw HttpError(400, "cannot read the request: it has " + name + " twice; the proxy must replace it");
    found = true;
    user = value;
  }
  if (user.size() > kLongestUser) throw HttpError(400, "cannot read the request: the user has over 256 bytes");
  return user;
}

bool equals_secret(const std::string& given, const std::string& secret) {
  volatile unsigned char difference = given.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const char other = i < given.size() ? given[i] : '\0';
    difference = static_cast<unsigned char>(difference | (secret[i] ^ other));
  }
  return difference == 0;
}

std::string read_token(const std::string& file) {
  const std::string expected = "; expected one made by: (umask 077; openssl rand -hex 32 >FILE)";
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat found {};
  if (!fd.open() || ::fstat(fd.get(), &found) != 0) {
    throw Usage("--token-file: the file cannot be read: " + std::generic_category().message(errno) + expected);
  }
  if (!S_ISREG(found.st_mode)) throw Usage("--token-file: the file is not a regular file" + expected);
  if (found.st_uid != ::geteuid() && found.st_uid != 0) {
    throw Usage("--token-file: the file belongs to another user; expected one of this user");
  }
  // A file of root may be readable by a group: so Kubernetes mounts a secret for a user who is not root.
  const bool is_of_root = found.st_uid == 0 && ::geteuid() != 0;
  const mode_t refused = (is_of_root ? S_IWGRP | S_IXGRP : S_IRWXG) | S_IRWXO;
  if ((found.st_mode & refused) != 0) {
    throw Usage("--token-file: other users may read or write the file; chmod 600");
  }
  std::string token = found.st_size == 0 ? "" : secret_in_file("--token-file", fd);
  const bool is_plain = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (token.size() < kShortestToken || !is_plain) {
    throw Usage(
        "--token-file: the first line of the file is no token; expected at least 32 visible ASCII characters without "
        "spaces, such as the output of: openssl rand -hex 32");
  }
  return token;
}

}  // namespace dqctl
