// Splitting of a URL into its parts, and redaction of its secrets. These functions do not validate the URL.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::redis {

bool is_alnum(char c);
bool is_control(char c);

// Parses digits without a sign; nullopt if the value is not in `least` to `most`.
std::optional<int> number(std::string_view text, int least, int most);
std::optional<int> port_number(std::string_view text);

// `text` up to the first of `marks`.
std::string_view until(std::string_view text, const char* marks);

// "redis" of "redis://..."; empty if the URL has no scheme.
std::string_view scheme_of(std::string_view url);

// "[user[:password]@]host[:port][,host[:port]...]"
struct Authority {
  std::optional<std::string_view> login;  // the text before the last '@'
  std::vector<std::string_view> hosts;    // at least one; with ports
};

Authority cut_authority(std::string_view text);

// "host[:port]"
struct Host {
  std::string_view name;  // v6 with its brackets
  std::optional<std::string_view> port;
};

Host cut_host(std::string_view text);

bool is_v6(std::string_view host);          // an IPv6 address in brackets
bool is_plain_host(std::string_view host);  // a name or v4 address, or empty

// Percent-encoding: every byte except letters, digits and those in `keep` becomes %XX.
std::string encoded(const std::string& bytes, std::string_view keep);

// The URL for error texts: everything that may be a password, or part of one, is replaced by ***.
std::string redacted(std::string_view url);

}  // namespace delayqueue::redis
