#include "support/regex.h"

#include <regex>

namespace test {
namespace {

std::regex compiled(const std::string& pattern) {
  return std::regex(pattern, std::regex::ECMAScript | std::regex::multiline);
}

}  // namespace

std::vector<std::vector<std::string>> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex = compiled(pattern);
  std::vector<std::vector<std::string>> all;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    all.emplace_back(it->begin(), it->end());
  }
  return all;
}

std::string replaced(const std::string& text, const std::string& pattern, const std::string& with) {
  return std::regex_replace(text, compiled(pattern), with);
}

}  // namespace test
