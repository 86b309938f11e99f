// Encoding of requests in RESP2: length headers ("*3", "$5") and bulk strings.
#pragma once

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

namespace delayqueue::redis {

inline void append_head(std::string& out, char kind, std::size_t number) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out += kind;
  out.append(digits, static_cast<std::size_t>(end - digits));
  out += "\r\n";
}

inline void append_word(std::string& out, std::string_view word) {
  append_head(out, '$', word.size());
  out.append(word).append("\r\n");
}

}  // namespace delayqueue::redis
