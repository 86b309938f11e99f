#include "redis/url_parts.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace delayqueue::redis {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The hosts of an authority without a login, redacted from the first part on that is no valid host and port: the text
// may be a login whose "@host" is missing. `good`: whether nothing had to be redacted.
std::string shown_hosts(const std::vector<std::string_view>& hosts, bool& good) {
  std::string shown;
  good = false;
  for (const auto& text : hosts) {
    const auto host = cut_host(text);
    if (!shown.empty()) shown += ',';
    if (host.name.substr(0, 1) == "[" && !is_v6(host.name)) return shown + "[***";
    if (hosts.size() > 1 && host.name.substr(0, 1) != "[" && !is_plain_host(host.name)) return shown + "***";
    if (host.port && (!port_number(*host.port) || (hosts.size() > 1 && host.name.empty()))) {
      return shown + std::string(host.name) + ":***";
    }
    shown += text;
  }
  good = true;
  return shown;
}

// The part of a URL after "scheme:", redacted. A password that contains an unencoded '/', '?' or '@', or that has no
// "@host" after it, must not appear in the result.
std::string without_secrets(std::string_view rest) {
  const std::string slashes(rest.substr(0, 2) == "//" ? "//" : "");
  rest.remove_prefix(slashes.size());
  const auto authority = until(rest, "/?#");
  const auto ats = std::count(rest.begin(), rest.end(), '@');
  const auto parts = cut_authority(authority);
  if (ats > 1 || (ats == 1 && !parts.login)) return slashes + "***";
  std::string shown = slashes;
  if (parts.login) {
    shown += "***" + std::string(rest.substr(parts.login->size()));
  } else {
    bool good = false;
    shown += shown_hosts(parts.hosts, good);
    if (!good) return shown;
    shown += rest.substr(authority.size());
  }
  const auto mark = shown.find_first_of("?#");
  return mark == shown.npos ? shown : shown.substr(0, mark + 1) + "***";
}

}  // namespace

bool is_alnum(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::optional<int> number(std::string_view text, int least, int most) {
  int value = 0;
  const auto end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || !is_digit(text[0]) || error != std::errc() || stop != end) return std::nullopt;
  if (value < least || value > most) return std::nullopt;
  return value;
}

std::optional<int> port_number(std::string_view text) { return number(text, 1, 65535); }

std::string_view until(std::string_view text, const char* marks) { return text.substr(0, text.find_first_of(marks)); }

std::string_view scheme_of(std::string_view url) {
  const auto scheme = until(url, ":");
  const bool good =
      std::all_of(scheme.begin(), scheme.end(), [](char c) { return is_alnum(c) || c == '+' || c == '-' || c == '.'; });
  return good && scheme.size() < url.size() ? scheme : std::string_view();
}

Authority cut_authority(std::string_view text) {
  Authority parts;
  if (const auto at = text.rfind('@'); at != text.npos) {
    parts.login = text.substr(0, at);
    text.remove_prefix(at + 1);
  }
  for (;;) {
    parts.hosts.push_back(until(text, ","));
    if (parts.hosts.back().size() == text.size()) return parts;
    text.remove_prefix(parts.hosts.back().size() + 1);
  }
}

Host cut_host(std::string_view text) {
  const auto bracket = text.substr(0, 1) == "[" ? text.find(']') : 0;
  const auto colon = text.find(':', bracket == text.npos ? 0 : bracket);
  Host host;
  host.name = text.substr(0, colon);
  if (colon != text.npos) host.port = text.substr(colon + 1);
  return host;
}

bool is_v6(std::string_view host) {
  in6_addr unused{};
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return bracketed && inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &unused) == 1;
}

bool is_plain_host(std::string_view host) {
  return std::all_of(host.begin(), host.end(), [](char c) { return is_alnum(c) || c == '-' || c == '.' || c == '_'; });
}

std::string encoded(const std::string& bytes, std::string_view keep) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : bytes) {
    if (is_alnum(c) || keep.find(c) != keep.npos) {
      text += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      text += {'%', kHex[byte / 16], kHex[byte % 16]};
    }
  }
  return text;
}

std::string redacted(std::string_view url) {
  const auto scheme = scheme_of(url);
  if (scheme.empty()) return without_secrets(url);
  const auto rest = url.substr(scheme.size() + 1);
  const bool bare = rest.substr(0, 2) != "//" && scheme != "unix" && scheme != "embedded";  // may be user:password
  return std::string(scheme) + ':' + (bare ? "***" : without_secrets(rest));
}

}  // namespace delayqueue::redis
