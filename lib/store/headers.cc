#include "store/headers.h"

#include "redis/escaped.h"

#include <algorithm>
#include <stdexcept>

namespace delayqueue {
namespace {

constexpr std::size_t kLongestName = 127;  // its length is one byte
constexpr std::size_t kSevenBits = 128;

bool is_name(std::string_view name) {
  const auto is_allowed = [](char c) { return c > ' ' && c <= '~' && c != '='; };
  return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), is_allowed);
}

std::size_t packed_size(std::string_view text) { return text.size() + (text.size() < kSevenBits ? 1 : 2); }

// Whether the name begins with "dq-", in upper or lower case.
bool is_reserved(std::string_view name) {
  return name.size() > 2 && (name[0] == 'd' || name[0] == 'D') && (name[1] == 'q' || name[1] == 'Q') && name[2] == '-';
}

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw std::invalid_argument("header \"" + redis::escaped(name) + "\": " + what);
}

void check_not_reserved(const std::string& name) {
  if (is_reserved(name)) refuse(name, "names that begin with \"dq-\" are reserved; use another name");
}

}  // namespace

Headers::Headers(std::initializer_list<std::pair<internal::Name, internal::Name>> pairs) {
  for (const auto& [name, value] : pairs) set(name, value);
}

void Headers::set(internal::Name name, internal::Name value) {
  check_not_reserved(name);
  add(std::move(name), std::move(value));
}

void Headers::set_stored(internal::Name name, internal::Name value) { add(std::move(name), std::move(value)); }

void Headers::add(std::string name, std::string value) {
  if (!is_name(name)) {
    refuse(name, "expected a name of 1 to " + std::to_string(kLongestName) +
                     " characters of printable ASCII, without spaces and '='");
  }
  const auto same =
      std::find_if(pairs_.begin(), pairs_.end(), [&](const value_type& pair) { return pair.first == name; });
  if (same == pairs_.end() && pairs_.size() == kMost) {
    refuse(name, "there are " + std::to_string(kMost) + " headers; a message has no more");
  }
  // The length of a value that is too long by itself is not added up.
  std::size_t bytes = packed_size(name) + std::min(packed_size(value), kMostBytes + 1);
  for (const value_type& pair : pairs_) {
    if (pair.first != name) bytes += packed_size(pair.first) + packed_size(pair.second);
  }
  if (bytes > kMostBytes) {
    refuse(name, "a value of " + std::to_string(value.size()) + " bytes; the headers of a message have at most " +
                     std::to_string(kMostBytes) + " bytes in all");
  }
  if (same != pairs_.end()) {
    same->second = std::move(value);
  } else {
    pairs_.emplace_back(std::move(name), std::move(value));
  }
}

bool Headers::erase(std::string_view name) {
  const auto same =
      std::find_if(pairs_.begin(), pairs_.end(), [&](const value_type& pair) { return pair.first == name; });
  if (same == pairs_.end()) return false;
  pairs_.erase(same);
  return true;
}

const std::string* Headers::find(std::string_view name) const {
  const auto same =
      std::find_if(pairs_.begin(), pairs_.end(), [&](const value_type& pair) { return pair.first == name; });
  return same == pairs_.end() ? nullptr : &same->second;
}

inline namespace DELAYQUEUE_ABI {
namespace internal {

// A later version may have stored names that set() refuses.
struct StoredHeaders {
  static void add(Headers& headers, std::string name, std::string value) {
    headers.add(std::move(name), std::move(value));
  }
};

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
using internal::StoredHeaders;

namespace store {
namespace {

void append(std::string& bytes, std::string_view text) {
  std::size_t length = text.size();
  for (; length >= kSevenBits; length /= kSevenBits) bytes += static_cast<char>(length % kSevenBits + kSevenBits);
  bytes += static_cast<char>(length);
  bytes += text;
}

// Removes a length from the front. Unset: there is none in its shortest form. No text is so long that it needs a third
// byte.
std::optional<std::size_t> take_length(std::string_view& bytes) {
  if (bytes.empty()) return std::nullopt;
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first < kSevenBits) {
    bytes.remove_prefix(1);
    return first;
  }
  const auto second = bytes.size() < 2 ? std::size_t{0} : static_cast<unsigned char>(bytes[1]);
  if (second == 0 || second >= kSevenBits) return std::nullopt;
  bytes.remove_prefix(2);
  return first - kSevenBits + second * kSevenBits;
}

// Removes a length and the text of this length from the front.
std::optional<std::string> take_text(std::string_view& bytes) {
  const auto length = take_length(bytes);
  if (!length || *length > bytes.size()) return std::nullopt;
  std::string text(bytes.substr(0, *length));
  bytes.remove_prefix(*length);
  return text;
}

template <class Pairs>
std::string packed_pairs(const Pairs& pairs) {
  std::string bytes;
  for (const auto& [name, value] : pairs) {
    append(bytes, name);
    append(bytes, value);
  }
  return bytes;
}

}  // namespace

std::string packed(const Headers& headers) { return packed_pairs(headers); }

std::string packed_own(const std::vector<std::pair<std::string, std::string>>& own) { return packed_pairs(own); }

void check_not_reserved(const Headers& headers) {
  for (const auto& [name, value] : headers) delayqueue::check_not_reserved(name);
}

std::optional<Headers> unpacked(std::string_view bytes) {
  if (bytes.size() > Headers::kMostBytes) return std::nullopt;
  Headers headers;
  while (!bytes.empty()) {
    std::optional<std::string> name = take_text(bytes);
    std::optional<std::string> value = name ? take_text(bytes) : std::nullopt;
    if (!value || !is_name(*name) || headers.find(*name) != nullptr || headers.size() == Headers::kMost) {
      return std::nullopt;
    }
    StoredHeaders::add(headers, std::move(*name), std::move(*value));
  }
  return headers;
}

}  // namespace store
}  // namespace delayqueue
