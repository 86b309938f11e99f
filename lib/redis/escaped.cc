#include "redis/escaped.h"

namespace delayqueue::redis {

std::string escaped(std::string_view text) {
  constexpr std::size_t kMost = 1024;
  constexpr char kHex[] = "0123456789abcdef";
  std::string result;
  for (const char c : text) {
    if (result.size() >= kMost) return result + "...";
    if (c >= ' ' && c <= '~') {
      result += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    result += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
  return result;
}

}  // namespace delayqueue::redis
