// UTF-8: the characters of texts from users and from Redis.
#pragma once

#include <cstddef>
#include <string_view>

namespace delayqueue {

struct Character {
  std::size_t length = 0;  // in bytes; 0: the text begins with no character, but with a byte that is not UTF-8
  unsigned code = 0;
};

// The first character of a text that is not empty. Overlong forms, surrogates, and what is beyond the last character
// are none.
inline Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto is_within = [](unsigned value, unsigned least, unsigned most) { return value >= least && value <= most; };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, first};
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  const std::size_t length = is_within(first, 0xc2, 0xdf)   ? 2
                             : is_within(first, 0xe0, 0xef) ? 3
                             : is_within(first, 0xf0, 0xf4) ? 4
                                                            : 0;
  if (length == 0 || !is_within(byte(1), least, most)) return {};
  unsigned code = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_within(byte(i), 0x80, 0xbf)) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  return {length, code};
}

inline bool is_control(unsigned code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

}  // namespace delayqueue
