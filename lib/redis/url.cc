#include "redis/url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace delayqueue::redis {
namespace {

constexpr const char* kExpected = "expected redis://, rediss:// or unix:// and a server, or embedded:";
constexpr std::size_t kLongestShown = 200;
constexpr std::string_view kInLogin = "-._~";  // what text() leaves as it is, beside letters and digits
constexpr std::string_view kInPath = "-._~/:@+,=";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alnum(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Digits only, no sign, from `least` to `most`.
std::optional<int> number(std::string_view text, int least, int most) {
  int value = 0;
  const auto end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || !is_digit(text[0]) || error != std::errc() || stop != end) return std::nullopt;
  if (value < least || value > most) return std::nullopt;
  return value;
}

std::optional<int> port_number(std::string_view text) { return number(text, 1, 65535); }

// "[user[:password]@]host[:port]" cut at its marks; no part is checked.
struct Authority {
  std::optional<std::string_view> login;
  std::string_view host;                 // v6 with its brackets
  std::optional<std::string_view> port;  // what follows the host
};

Authority cut_authority(std::string_view text) {
  Authority parts;
  if (const auto at = text.rfind('@'); at != text.npos) {
    parts.login = text.substr(0, at);
    text.remove_prefix(at + 1);
  }
  const auto bracket = text.substr(0, 1) == "[" ? text.find(']') : 0;
  const auto colon = text.find(':', bracket == text.npos ? 0 : bracket);
  parts.host = text.substr(0, colon);
  if (colon != text.npos) parts.port = text.substr(colon + 1);
  return parts;
}

bool is_v6(std::string_view host) {
  in6_addr unused{};
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return bracketed && inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &unused) == 1;
}

std::string_view until(std::string_view text, const char* marks) { return text.substr(0, text.find_first_of(marks)); }

// "redis" of "redis://..."; empty if there is no such thing.
std::string_view scheme_of(std::string_view url) {
  const auto scheme = until(url, ":");
  const bool good =
      std::all_of(scheme.begin(), scheme.end(), [](char c) { return is_alnum(c) || c == '+' || c == '-' || c == '.'; });
  return good && scheme.size() < url.size() ? scheme : std::string_view();
}

// What is left of the part after "scheme:" when all that may be a password in it, or a piece of one, is gone. A stray
// '/', '?' or '@' in a password, or a forgotten "@host", must not show any of it.
std::string without_secrets(std::string_view rest) {
  const std::string slashes(rest.substr(0, 2) == "//" ? "//" : "");
  rest.remove_prefix(slashes.size());
  const auto authority = until(rest, "/?#");
  const auto ats = std::count(rest.begin(), rest.end(), '@');
  const bool login = authority.find('@') != authority.npos;
  if (ats > 1 || (ats == 1 && !login)) return slashes + "***";
  const auto parts = cut_authority(authority);
  if (!login && parts.host.substr(0, 1) == "[" && !is_v6(parts.host)) return slashes + "[***";
  if (!login && parts.port && !port_number(*parts.port)) return slashes + std::string(parts.host) + ":***";
  std::string shown = slashes + (login ? "***" + std::string(rest.substr(parts.login->size())) : std::string(rest));
  const auto mark = shown.find_first_of("?#");
  return mark == shown.npos ? shown : shown.substr(0, mark + 1) + "***";
}

std::string harmless(std::string_view url) {
  const auto scheme = scheme_of(url);
  if (scheme.empty()) return without_secrets(url);
  const auto rest = url.substr(scheme.size() + 1);
  const bool bare = rest.substr(0, 2) != "//" && scheme != "unix" && scheme != "embedded";  // user:password?
  return std::string(scheme) + ':' + (bare ? "***" : without_secrets(rest));
}

[[noreturn]] void refuse(std::string_view url, const std::string& why) {
  std::string shown = harmless(url);
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  if (shown.size() > kLongestShown) shown = shown.substr(0, kLongestShown) + "...";
  throw std::invalid_argument("url: '" + shown + "': " + why);
}

// One parse: the whole URL is kept for error texts.
class Parser {
 public:
  explicit Parser(std::string_view url) : url_(url) {}
  Url parse();

 private:
  [[noreturn]] void refuse(const std::string& why) const { redis::refuse(url_, why); }
  void check_characters() const;
  void check_scheme(std::string_view scheme) const;
  void server(std::string_view rest, bool tls);
  void unix_socket(std::string_view rest);
  void embedded(std::string_view rest);
  void login(std::string_view text);
  void host(std::string_view text, Address& address) const;
  void query(std::string_view text);
  void db(std::string_view text);
  std::string decoded(std::string_view text, const char* what) const;

  const std::string_view url_;
  Url result_;
  bool has_db_ = false;
};

Url Parser::parse() {
  check_characters();
  const auto scheme = scheme_of(url_);
  check_scheme(scheme);
  auto rest = url_.substr(scheme.size() + 1);
  if (scheme == "embedded") {
    embedded(rest);
    return result_;
  }
  const auto mark = std::min(rest.find('?'), rest.size());
  const auto parameters = rest.substr(mark);
  if (parameters.find('@') != rest.npos) refuse("an '@' after a '?'; write '?' in a user or password as %3F");
  rest = rest.substr(0, mark);
  if (scheme == "unix") {
    unix_socket(rest);
  } else {
    server(rest, scheme == "rediss");
  }
  if (!parameters.empty()) query(parameters.substr(1));
  return result_;
}

void Parser::check_characters() const {
  if (std::any_of(url_.begin(), url_.end(), is_control)) refuse("control characters do not belong in a URL");
  if (url_.find(' ') != url_.npos) refuse("spaces do not belong in a URL; write %20");
  if (url_.find('#') != url_.npos) refuse("'#' does not belong in it; write %23");
}

void Parser::check_scheme(std::string_view scheme) const {
  if (scheme.empty()) refuse(std::string("no scheme; ") + kExpected);
  const auto kind = until(scheme, "+");
  const auto topology = scheme.substr(kind.size());
  if ((kind == "redis" || kind == "rediss") && (topology == "+sentinel" || topology == "+cluster")) {
    refuse("the scheme '" + std::string(scheme) + "' is not supported by this version; " + kExpected);
  }
  if (scheme != "redis" && scheme != "rediss" && scheme != "unix" && scheme != "embedded") {
    refuse("unknown scheme '" + std::string(scheme) + "'; " + kExpected);
  }
}

// //[user[:password]@][host][:port][/db]
void Parser::server(std::string_view rest, bool tls) {
  if (rest.substr(0, 2) != "//") refuse("expected // after the scheme");
  rest.remove_prefix(2);
  const auto authority = until(rest, "/");
  rest.remove_prefix(authority.size());
  if (rest.find('@') != rest.npos) refuse("an '@' after the host; write '/' in a user or password as %2F");
  Address address;
  address.tls = tls;
  const auto parts = cut_authority(authority);
  if (parts.login) login(*parts.login);
  host(parts.host, address);
  if (parts.port) {
    const auto port = port_number(*parts.port);
    if (!port && parts.login) refuse("the port '" + std::string(*parts.port) + "' is no number from 1 to 65535");
    if (!port) refuse("what follows ':' is no port from 1 to 65535; if it is a password, '@' and a host must follow");
    address.port = *port;
  }
  if (rest.size() > 1) db(rest.substr(1));
  result_.addresses = {address};
}

// ///path, //[user[:password]@]/path or /path
void Parser::unix_socket(std::string_view rest) {
  if (rest.substr(0, 2) == "//") {
    rest.remove_prefix(2);
    const auto authority = until(rest, "/");
    rest.remove_prefix(authority.size());
    if (!authority.empty()) {
      if (authority.back() != '@') refuse("expected unix:///path or unix://user:password@/path");
      login(authority.substr(0, authority.size() - 1));
    }
  }
  Address address;
  address.path = decoded(rest, "path");
  if (address.path.empty()) refuse("no path; expected unix:///path/to/socket");
  if (address.path.front() != '/') refuse("the path must start with '/'; expected unix:///path/to/socket");
  result_.addresses = {address};
}

void Parser::embedded(std::string_view rest) {
  if (rest.substr(0, 2) == "//") refuse("no // after embedded:; expected embedded:/folder");
  if (rest.find('?') != rest.npos) refuse("embedded: takes no parameters; write a '?' in the folder's name as %3F");
  result_.kind = Url::Kind::embedded;
  result_.folder = decoded(rest, "folder");
}

void Parser::login(std::string_view text) {
  if (text.find('@') != text.npos) refuse("more than one '@'; write those in a user or password as %40");
  const auto user = until(text, ":");
  result_.user = decoded(user, "user");
  if (user.size() < text.size()) result_.password = decoded(text.substr(user.size() + 1), "password");
}

void Parser::host(std::string_view text, Address& address) const {
  if (text.substr(0, 1) == "[") {
    if (!is_v6(text)) refuse("expected an IPv6 address in the brackets, like [::1]");
    address.host = text.substr(1, text.size() - 2);
    return;
  }
  address.host = text.empty() ? "127.0.0.1" : text;
  const auto good = [](char c) { return is_alnum(c) || c == '-' || c == '.' || c == '_'; };
  if (!std::all_of(text.begin(), text.end(), good)) {
    refuse("the host may hold letters, digits, '-', '.' and '_'; an IPv6 address stands in brackets");
  }
}

void Parser::query(std::string_view text) {
  for (;;) {
    const auto one = until(text, "&");
    const auto name = until(one, "=");
    if (name != "db") {
      refuse("unknown parameter '" + std::string(name) + "'; only db is known, the rest is set in ConnectionOptions");
    }
    db(one.substr(std::min(one.size(), name.size() + 1)));
    if (one.size() == text.size()) return;
    text.remove_prefix(one.size() + 1);
  }
}

void Parser::db(std::string_view text) {
  if (has_db_) refuse("the db is given twice");
  const auto value = number(text, 0, std::numeric_limits<int>::max());
  if (!value) refuse("the db '" + std::string(text) + "' is no number from 0");
  result_.db = *value;
  has_db_ = true;
}

std::string Parser::decoded(std::string_view text, const char* what) const {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i];
      continue;
    }
    unsigned char byte = 0;
    const auto digits = text.substr(i + 1, 2);
    const auto stop = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16).ptr;
    if (digits.size() != 2 || stop != digits.data() + 2) {
      refuse(std::string("in the ") + what + " two hex digits must follow each '%'; write a '%' itself as %25");
    }
    if (byte == 0) refuse(std::string("%00 in the ") + what);
    bytes += static_cast<char>(byte);
    i += 2;
  }
  return bytes;
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

}  // namespace

Url parse_url(const std::string& url) { return Parser(url).parse(); }

std::string Url::text() const {
  if (kind == Kind::embedded) return "embedded:" + encoded(folder, kInPath);
  const Address server = addresses.empty() ? Address{} : addresses.front();
  const bool unix_socket = server.host.empty();
  std::string text = unix_socket ? "unix://" : server.tls ? "rediss://" : "redis://";
  // redis-cli takes redis://x@host for a password, so a lone user may be meant as one.
  if (!password.empty())
    text += encoded(user, kInLogin) + ":***@";
  else if (!user.empty())
    text += "***@";
  text += unix_socket ? encoded(server.path, kInPath) : server.text();
  if (db != 0) text += (unix_socket ? "?db=" : "/") + std::to_string(db);
  return text;
}

}  // namespace delayqueue::redis
