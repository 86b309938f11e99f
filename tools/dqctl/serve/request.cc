#include "serve/request.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

#include "output/text.h"
#include "parse.h"

namespace dqctl {
namespace {

constexpr std::size_t kMostFields = 64;
constexpr std::size_t kShownValue = 60;  // columns of a value in an error

struct ReadField {
  std::string_view name;
  std::string HttpRequest::*value;
};
constexpr std::array<ReadField, 6> kReadFields = {{{"host", &HttpRequest::host},
                                                   {"authorization", &HttpRequest::authorization},
                                                   {"content-type", &HttpRequest::content_type},
                                                   {"origin", &HttpRequest::origin},
                                                   {"sec-fetch-site", &HttpRequest::fetch_site},
                                                   {"x-delayqueue-action", &HttpRequest::action}}};

std::string shown(std::string_view value) { return cut(in_quotes(value), kShownValue); }

[[noreturn]] void bad_head(const std::string& what) { throw HttpError(400, "cannot read the request: " + what); }

char lower_of(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_letter_or_digit(char c) {
  const char lower = lower_of(c);
  return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
}

bool is_field_name(std::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_'; });
}

bool is_visible(char c) { return c > ' ' && c < 0x7F; }

std::string_view without_blanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Removes the first line, which must end with CR LF, and returns it.
std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find("\r\n");
  if (end == std::string_view::npos) bad_head("a line has no end; expected CR LF");
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 2);
  const bool is_text =
      std::all_of(line.begin(), line.end(), [](char c) { return is_visible(c) || c == ' ' || c == '\t'; });
  if (!is_text) bad_head("it has a byte that is no visible ASCII character; encode it with %");
  return line;
}

void read_request_line(std::string_view line, HttpRequest& request) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (line.find('\t') != std::string_view::npos || first == std::string_view::npos || first == last ||
      line.find(' ', first + 1) != last) {
    bad_head("its first line is " + shown(line) + "; expected METHOD PATH HTTP/1.1");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    bad_head("its version is " + shown(version) + "; expected HTTP/1.1");
  if (method != "GET" && method != "HEAD" && method != "POST") {
    throw HttpError(405, "cannot serve the method " + shown(method) + "; expected GET, HEAD or POST");
  }
  if (target.find('#') != std::string_view::npos) bad_head("its path has a #; send none, or %23");
  request.method = method;
  request.target = parse_target(target);
}

int hex_value(char c) {
  const char lower = lower_of(c);
  if (c >= '0' && c <= '9') return c - '0';
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0)
      throw HttpError(400, "cannot read the path: " + shown(text) + " has a % without two hex digits");
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

// Calls `each` with the parts between separators.
template <class Each>
void split(std::string_view text, char separator, const Each& each) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    each(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), lower_of);
  return lower;
}

bool is_other_field(const std::string& name) {
  const bool is_read =
      std::any_of(kReadFields.begin(), kReadFields.end(), [&](const ReadField& field) { return field.name == name; });
  return is_field_name(name) && !is_read && name != "content-length";
}

CheckedHead check_head(std::string_view bytes) {
  if (bytes.size() > kMostHead) throw HttpError(431, "cannot read the request: its head is longer than 8 KiB");
  CheckedHead head;
  std::string_view rest = bytes;
  HttpRequest& request = head.request;
  read_request_line(take_line(rest), request);
  std::vector<std::string> seen;
  bool has_length = false;
  for (std::string_view line = take_line(rest); !line.empty(); line = take_line(rest)) {
    const std::size_t colon = std::min(line.find(':'), line.size());
    const std::string name = in_lower_case(line.substr(0, colon));
    if (colon == line.size() || !is_field_name(name))
      bad_head("it has the field " + shown(line) + "; expected NAME: VALUE");
    if (seen.size() == kMostFields) throw HttpError(431, "cannot read the request: it has more than 64 fields");
    const std::string_view value = without_blanks(line.substr(colon + 1));
    const bool repeated = std::find(seen.begin(), seen.end(), name) != seen.end();
    seen.push_back(name);
    if (name == "transfer-encoding" || name == "content-encoding") {
      bad_head("it has " + name + "; send a plain body with Content-Length");
    }
    const bool is_length = name == "content-length";
    const auto found = std::find_if(kReadFields.begin(), kReadFields.end(),
                                    [&](const ReadField& field) { return field.name == name; });
    const bool is_read = found != kReadFields.end();
    if (repeated && (is_length || is_read)) bad_head("it has " + name + " twice");
    if (is_read) request.*(found->value) = value;
    if (!is_read && !is_length) request.other_fields.emplace_back(name, value);
    if (!is_length) continue;
    const bool is_number =
        !value.empty() && std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number) bad_head("its Content-Length is " + shown(value) + "; expected a number");
    if (value.size() > 6 || parse_number("Content-Length", value, 0, 999'999) > kMostBody) {
      throw HttpError(413, "cannot read the request: its body is longer than 64 KiB");
    }
    head.body = static_cast<std::size_t>(parse_number("Content-Length", value, 0, kMostBody));
    has_length = true;
  }
  if (!rest.empty()) bad_head("bytes follow its head");
  if (std::find(seen.begin(), seen.end(), "host") == seen.end()) bad_head("it has no Host");
  const bool is_post = request.method == "POST";
  if (is_post && !has_length) bad_head("it has no Content-Length");
  if (!is_post && head.body > 0) bad_head("it has a body; only POST may have one");
  return head;
}

Target parse_target(std::string_view target) {
  if (target.empty() || target.front() != '/')
    bad_head("its path is " + shown(target) + "; expected one that begins with /");
  const std::size_t mark = std::min(target.find('?'), target.size());
  Target parsed;
  if (mark > 1) {
    split(target.substr(1, mark - 1), '/', [&](std::string_view part) { parsed.path.push_back(decoded(part)); });
  }
  if (mark + 1 >= target.size()) return parsed;
  split(target.substr(mark + 1), '&', [&](std::string_view part) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string name = decoded(part.substr(0, equals));
    if (equals == part.size()) throw HttpError(400, "cannot read the query: " + shown(part) + "; expected NAME=VALUE");
    std::string value(part.substr(equals + 1));
    std::replace(value.begin(), value.end(), '+', ' ');  // as forms and URLSearchParams write a space
    if (!parsed.query.emplace(name, decoded(value)).second) {
      throw HttpError(400, "cannot read the query: " + shown(name) + " is there twice");
    }
  });
  return parsed;
}

std::string parse_host(std::string_view host) {
  const auto wrong = [&]() {
    return HttpError(421, "cannot serve the host " + shown(host) + "; expected NAME or NAME:PORT");
  };
  std::string_view name = host;
  std::string_view port;
  if (!host.empty() && host.front() == '[') {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) throw wrong();
    name = host.substr(1, end - 1);
    port = host.substr(end + 1);
  } else if (const std::size_t colon = host.find(':'); colon != std::string_view::npos) {
    name = host.substr(0, colon);
    port = host.substr(colon);
  }
  const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_' || c == ':';
  });
  const bool is_port =
      port.empty() || (port.front() == ':' && port.size() >= 2 && port.size() <= 6 &&
                       std::all_of(port.begin() + 1, port.end(), [](char c) { return c >= '0' && c <= '9'; }));
  if (!is_name || !is_port) throw wrong();
  std::string lower = in_lower_case(name);
  in6_addr address{};
  std::array<char, INET6_ADDRSTRLEN> shortest{};
  if (::inet_pton(AF_INET6, lower.c_str(), &address) != 1) return lower;
  return ::inet_ntop(AF_INET6, &address, shortest.data(), shortest.size());
}

Query::Query(const Target& target, std::initializer_list<const char*> known) : target_(target) {
  for (const auto& [name, value] : target.query) {
    const bool is_known =
        std::any_of(known.begin(), known.end(), [&name = name](const char* one) { return name == one; });
    if (is_known) continue;
    std::string names;
    for (const char* one : known) names += (names.empty() ? "" : ", ") + std::string(one);
    throw HttpError(
        400, "there is no parameter " + shown(name) + (names.empty() ? "; expected none" : "; expected " + names));
  }
}

std::optional<std::string> Query::text(const std::string& name, std::size_t most) const {
  const auto found = target_.query.find(name);
  if (found == target_.query.end()) return std::nullopt;
  if (found->second.size() <= most) return found->second;
  throw HttpError(400, name + ": " + counted(found->second.size(), "byte") + "; expected at most " + count_text(most));
}

std::uint64_t Query::number(const std::string& name, std::uint64_t least, std::uint64_t most,
                            std::uint64_t otherwise) const {
  const auto found = target_.query.find(name);
  return found == target_.query.end() ? otherwise : parse_number(name, found->second, least, most);
}

}  // namespace dqctl
