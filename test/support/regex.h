// Regular expressions (ECMAScript; ^ and $ match at each line), compiled once for all tests: <regex> costs each file
// that uses it seconds.
#pragma once

#include "support/standard.h"

namespace test {

// All matches, each with the texts of its groups; the first one is the whole match.
std::vector<std::vector<std::string>> matches(const std::string& text, const std::string& pattern);

inline bool is_found(const std::string& text, const std::string& pattern) { return !matches(text, pattern).empty(); }

// The text with each match replaced.
std::string replaced(const std::string& text, const std::string& pattern, const std::string& with);

}  // namespace test
