// Texts: what is in an error or a log line.
#pragma once

#include <ostream>
#include <string>

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

}  // namespace test
