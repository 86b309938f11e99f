// The pieces of a URL, cut at their marks, and what of a URL may be shown. Nothing is refused here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::redis {

bool is_alnum(char c);
bool is_control(char c);

// Digits only, no sign, from `least` to `most`.
std::optional<int> number(std::string_view text, int least, int most);
std::optional<int> port_number(std::string_view text);

// `text` up to the first of `marks`.
std::string_view until(std::string_view text, const char* marks);

// "redis" of "redis://..."; empty if there is no such thing.
std::string_view scheme_of(std::string_view url);

// "[user[:password]@]host[:port][,host[:port]...]"
struct Authority {
  std::optional<std::string_view> login;  // all before the last '@'
  std::vector<std::string_view> hosts;    // at least one, with their ports
};

Authority cut_authority(std::string_view text);

// "host[:port]"
struct Host {
  std::string_view name;  // v6 with its brackets
  std::optional<std::string_view> port;
};

Host cut_host(std::string_view text);

bool is_v6(std::string_view host);          // in its brackets
bool is_plain_host(std::string_view host);  // a name or v4 address, or empty

// All bytes but letters, digits and those to keep as %XX.
std::string encoded(const std::string& bytes, std::string_view keep);

// The URL without all that may be a password in it, or a piece of one.
std::string harmless(std::string_view url);

}  // namespace delayqueue::redis
