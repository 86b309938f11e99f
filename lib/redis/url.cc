#include "redis/url.h"

#include "redis/url_parts.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace delayqueue::redis {
namespace {

using Kind = Url::Kind;

constexpr const char* kExpected =
    "expected redis://, rediss://, redis+sentinel://, rediss+sentinel://, redis+cluster://, rediss+cluster:// or "
    "unix:// and a host or path, or embedded:, or the same with valkey for redis";
constexpr std::size_t kLongestShown = 200;
constexpr std::string_view kInLogin = "-._~";  // text() does not percent-encode these, letters and digits
constexpr std::string_view kInPath = "-._~/:@+,=";

struct Scheme {
  std::string_view name;
  Kind kind;
  bool tls;
};

constexpr Scheme kSchemes[] = {
    {"redis", Kind::server, false},
    {"rediss", Kind::server, true},
    {"redis+sentinel", Kind::sentinel, false},
    {"rediss+sentinel", Kind::sentinel, true},
    {"redis+cluster", Kind::cluster, false},
    {"rediss+cluster", Kind::cluster, true},
    {"unix", Kind::server, false},
    {"embedded", Kind::embedded, false},
    // text() writes them as those above.
    {"valkey", Kind::server, false},
    {"valkeys", Kind::server, true},
    {"valkey+sentinel", Kind::sentinel, false},
    {"valkeys+sentinel", Kind::sentinel, true},
    {"valkey+cluster", Kind::cluster, false},
    {"valkeys+cluster", Kind::cluster, true},
};

std::string_view scheme_name(Kind kind, bool tls) {
  return std::find_if(std::begin(kSchemes), std::end(kSchemes),
                      [&](const Scheme& scheme) { return scheme.kind == kind && scheme.tls == tls; })
      ->name;
}

[[noreturn]] void refuse(std::string_view url, const std::string& why) {
  std::string shown = redacted(url);
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  if (shown.size() > kLongestShown) shown = shown.substr(0, kLongestShown) + "...";
  throw std::invalid_argument("url: '" + shown + "': " + why);
}

// Parses one URL; keeps all of it for error texts.
class Parser {
 public:
  explicit Parser(std::string_view url) : url_(url) {}
  Url parse();

 private:
  [[noreturn]] void refuse(const std::string& why) const { redis::refuse(url_, why); }
  void check_characters() const;
  Scheme known_scheme() const;
  void servers(std::string_view rest, bool tls);
  void unix_socket(std::string_view rest);
  void embedded(std::string_view rest);
  void login(std::string_view text);
  void add_address(std::string_view text, bool tls);
  int port(std::string_view text) const;
  std::string host(std::string_view text) const;
  std::string_view master(std::string_view path);
  void query(std::string_view text);
  void db(std::string_view text);
  std::string decoded(std::string_view text, const char* what) const;

  const std::string_view url_;
  Url result_;
  bool has_login_ = false;
  bool has_db_ = false;
};

Url Parser::parse() {
  check_characters();
  const Scheme scheme = known_scheme();
  result_.kind = scheme.kind;
  auto rest = url_.substr(scheme.name.size() + 1);
  if (scheme.kind == Kind::embedded) {
    embedded(rest);
    return result_;
  }
  const auto mark = std::min(rest.find('?'), rest.size());
  const auto parameters = rest.substr(mark);
  if (parameters.find('@') != rest.npos) refuse("an '@' after a '?'; write '?' in a user or password as %3F");
  rest = rest.substr(0, mark);
  if (scheme.name == "unix") {
    unix_socket(rest);
  } else {
    servers(rest, scheme.tls);
  }
  if (!parameters.empty()) query(parameters.substr(1));
  return result_;
}

void Parser::check_characters() const {
  constexpr std::string_view kBom = "\xef\xbb\xbf";
  if (url_.substr(0, kBom.size()) == kBom) refuse("it begins with a byte order mark; save its file without one");
  for (const char end : {url_.empty() ? '-' : url_.front(), url_.empty() ? '-' : url_.back()}) {
    if (end == '"' || end == '\'') {
      refuse(
          "it has a quotation mark at its begin or end, as files of variables keep them that are read without a "
          "shell; remove it");
    }
    if (end == ' ' || is_control(end)) refuse("it has a blank or a line break at its begin or end; remove it");
  }
  if (std::any_of(url_.begin(), url_.end(), is_control)) refuse("control characters are not allowed in a URL");
  if (url_.find(' ') != url_.npos) refuse("spaces are not allowed in a URL; write %20");
  if (url_.find('#') != url_.npos) refuse("'#' is not allowed in a URL; write %23");
}

Scheme Parser::known_scheme() const {
  const auto name = scheme_of(url_);
  if (name.empty()) refuse(std::string("no scheme; ") + kExpected);
  for (const Scheme& scheme : kSchemes) {
    if (scheme.name == name) return scheme;
  }
  refuse("unknown scheme '" + std::string(name) + "'; " + kExpected);
}

// //[user[:password]@]hosts[/master][/db]
void Parser::servers(std::string_view rest, bool tls) {
  if (rest.substr(0, 2) != "//") refuse("expected // after the scheme");
  rest.remove_prefix(2);
  const auto authority = until(rest, "/");
  rest.remove_prefix(authority.size());
  if (rest.find('@') != rest.npos) {
    refuse("an '@' after the host; write '/' in a user or password as %2F, and '@' in a name as %40");
  }
  const auto parts = cut_authority(authority);
  if (parts.login) login(*parts.login);
  for (const auto& host : parts.hosts) add_address(host, tls);
  if (result_.kind == Kind::sentinel) rest = master(rest);
  if (rest.size() > 1) db(rest.substr(1));
}

void Parser::add_address(std::string_view text, bool tls) {
  const bool one_only = result_.kind == Kind::server;
  if (one_only && !result_.addresses.empty()) {
    refuse(
        "a ',' after the host, but one server has one host; expected redis+sentinel://host,host/master or "
        "redis+cluster://host,host");
  }
  const auto parts = cut_host(text);
  Address address;
  address.tls = tls;
  address.port = result_.kind == Kind::sentinel ? 26379 : 6379;
  address.host = host(parts.name);
  if (parts.port) address.port = port(*parts.port);
  if (address.host.empty() && !one_only) refuse("a host is missing; expected host[:port], with ',' between several");
  if (address.host.empty()) address.host = "127.0.0.1";
  for (const Address& other : result_.addresses) {
    if (other.text() == address.text()) refuse("the host " + address.text() + " is given twice");
  }
  result_.addresses.push_back(address);
}

int Parser::port(std::string_view text) const {
  const auto port = port_number(text);
  if (!port && has_login_) refuse("the port '" + std::string(text) + "' is not a number from 1 to 65535");
  if (!port)
    refuse("the text after ':' is not a port from 1 to 65535; if it is a password, '@' and a host must follow");
  return *port;
}

std::string Parser::host(std::string_view text) const {
  if (text.substr(0, 1) == "[") {
    if (!is_v6(text)) refuse("expected an IPv6 address in the brackets, like [::1]");
    return std::string(text.substr(1, text.size() - 2));
  }
  if (!is_plain_host(text)) {
    refuse("the host may hold letters, digits, '-', '.' and '_'; write an IPv6 address in brackets");
  }
  return std::string(text);
}

// Reads the master's name from "/master[/db]" and returns the rest.
std::string_view Parser::master(std::string_view path) {
  if (path.size() < 2 || path[1] == '/') {
    refuse(
        "the master's name is missing; expected the one that the Sentinels monitor, as in "
        "redis+sentinel://host,host/mymaster");
  }
  const auto name = until(path.substr(1), "/");
  result_.master = decoded(name, "master's name");
  return path.substr(1 + name.size());
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
  // The same folder with one '/', because text() must give a URL that parses.
  while (result_.folder.substr(0, 2) == "//") result_.folder.erase(0, 1);
}

void Parser::login(std::string_view text) {
  has_login_ = true;
  if (text.find('@') != text.npos) {
    refuse("more than one '@'; write '@' in a user or password as %40, and the login once, before the first host");
  }
  const auto user = until(text, ":");
  result_.user = decoded(user, "user");
  if (user.size() < text.size()) result_.password = decoded(text.substr(user.size() + 1), "password");
}

void Parser::query(std::string_view text) {
  for (;;) {
    const auto one = until(text, "&");
    const auto name = until(one, "=");
    if (name != "db") {
      refuse("unknown parameter '" + std::string(name) + "'; the only parameter is db, use ClientOptions for others");
    }
    db(one.substr(std::min(one.size(), name.size() + 1)));
    if (one.size() == text.size()) return;
    text.remove_prefix(one.size() + 1);
  }
}

void Parser::db(std::string_view text) {
  if (has_db_) refuse("the db is given twice");
  const auto value = number(text, 0, std::numeric_limits<int>::max());
  if (!value) refuse("the db '" + std::string(text) + "' is not a number of 0 or more");
  if (*value != 0 && result_.kind == Kind::cluster) {
    refuse("the db '" + std::string(text) + "' cannot be used; a Cluster has only db 0");
  }
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

}  // namespace

Url parse_url(const std::string& url) { return Parser(url).parse(); }

std::string Url::text() const {
  if (kind == Kind::embedded) return "embedded:" + encoded(folder, kInPath);
  const Address first = addresses.empty() ? Address{} : addresses.front();
  const bool unix_socket = first.host.empty();
  std::string text(unix_socket ? "unix" : scheme_name(kind, first.tls));
  text += "://";
  // A user without a password may be a password: redis-cli reads redis://x@host that way.
  if (!password.empty())
    text += encoded(user, kInLogin) + ":***@";
  else if (!user.empty())
    text += "***@";
  text += unix_socket ? encoded(first.path, kInPath) : first.text();
  for (std::size_t i = 1; i < addresses.size(); ++i) text += ',' + addresses[i].text();
  if (kind == Kind::sentinel) text += '/' + encoded(master, kInLogin);
  if (db != 0) text += (unix_socket ? "?db=" : "/") + std::to_string(db);
  return text;
}

}  // namespace delayqueue::redis
