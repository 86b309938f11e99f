// Texts: what is in an error, a log line or a file.
#pragma once

#include "support/standard.h"

namespace test {

// The result of has(). CHECK(has(error, "timed out")) prints the error if it fails.
struct TextSearch {
  bool found;
  std::string part;
  std::string text;

  operator bool() const { return found; }

  friend std::ostream& operator<<(std::ostream& out, const TextSearch& result) {
    return out << "'" << result.part << (result.found ? "' is in: " : "' is not in: ") << result.text;
  }
};

inline TextSearch has(const std::string& text, const std::string& part) {
  return {text.find(part) != std::string::npos, part, text};
}

inline std::string content_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<std::string> text_lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

}  // namespace test
