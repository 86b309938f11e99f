// What a server tells of itself, by INFO and CONFIG GET. These are asked without a Pipeline: it would make exceptions of
// answers that are errors; here those are answers, too.
#pragma once

#include "redis/connection.h"
#include "redis/escaped.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace delayqueue {

// Names and values of INFO or of CONFIG GET; the values are escaped. A name that is not there reads as empty.
class InfoFields {
 public:
  void add(std::string_view name, std::string_view value) { facts_[std::string(name)] = redis::escaped(value); }

  void add_info(std::string_view text) {
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      const auto colon = line.find(':');
      if (colon == line.npos) continue;
      const std::string_view value = line.substr(colon + 1);
      add(line.substr(0, colon), value.substr(0, value.find('\r')));
    }
  }

  bool has(const char* name) const { return facts_.count(name) > 0; }

  std::string operator[](const char* name) const {
    const auto found = facts_.find(name);
    return found == facts_.end() ? "" : found->second;
  }

  // Unset: it is not there, or no such number.
  template <class Number>
  std::optional<Number> number(const char* name) const {
    const std::string text = (*this)[name];
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
  }

 private:
  std::map<std::string, std::string> facts_;
};

struct InfoQuery {
  const char* command;
  const char* first;
  const char* second;  // or null

  std::string text() const {
    return std::string(command) + ' ' + first + (second == nullptr ? "" : std::string(" ") + second);
  }
};

// Sends all of them. As many answers are to be read, whatever they are.
template <std::size_t kCount>
void ask(redis::Connection& connection, const InfoQuery (&questions)[kCount]) {
  std::string requests;
  for (const InfoQuery& question : questions) {
    if (question.second == nullptr) {
      redis::append_command(requests, {question.command, question.first});
    } else {
      redis::append_command(requests, {question.command, question.first, question.second});
    }
  }
  connection.write(requests);
}

// The answer to TIME, since 1970. A time that no clock of ours can hold is the latest that all of them can.
inline std::chrono::microseconds time_of(redis::Reply answer) {
  constexpr long long kLatest = 9'000'000'000;  // seconds; in the year 2255
  const long long seconds = std::clamp(answer[0].integer(), 0LL, kLatest);
  return std::chrono::microseconds(seconds * 1'000'000 + std::clamp(answer[1].integer(), 0LL, 999'999LL));
}

inline constexpr std::string_view kTime = "*1\r\n$4\r\nTIME\r\n";

}  // namespace delayqueue
