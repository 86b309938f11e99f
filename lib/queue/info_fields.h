// Queries for the state and settings of a server, by INFO, CONFIG GET and TIME. They do not use a Pipeline, which
// throws error replies: here an error reply is a result.
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

// Names and values from INFO and CONFIG GET; the values are escaped. A missing name has an empty value.
class InfoFields {
 public:
  void add(std::string_view name, std::string_view value) { fields_[std::string(name)] = redis::escaped(value); }

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

  bool has(const char* name) const { return fields_.count(name) > 0; }

  std::string operator[](const char* name) const {
    const auto found = fields_.find(name);
    return found == fields_.end() ? "" : found->second;
  }

  // Unset: missing, or not a number of this type.
  template <class Number>
  std::optional<Number> number(const char* name) const {
    const std::string text = (*this)[name];
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
  }

 private:
  std::map<std::string, std::string> fields_;
};

struct InfoQuery {
  const char* command;
  const char* first;
  const char* second;  // or null

  std::string text() const {
    return std::string(command) + ' ' + first + (second == nullptr ? "" : std::string(" ") + second);
  }
};

// Sends all queries. The caller must read one reply for each, also if one is an error.
template <std::size_t kCount>
void ask(redis::Connection& connection, const InfoQuery (&queries)[kCount]) {
  std::string requests;
  for (const InfoQuery& query : queries) {
    if (query.second == nullptr) {
      redis::append_command(requests, {query.command, query.first});
    } else {
      redis::append_command(requests, {query.command, query.first, query.second});
    }
  }
  connection.write(requests);
}

// Reads the reply to TIME, as time since 1970. Clamped to a time that every std::chrono clock can represent.
inline std::chrono::microseconds time_of(redis::Reply answer) {
  constexpr long long kLatest = 9'000'000'000;  // seconds; in the year 2255
  const long long seconds = std::clamp(answer[0].integer(), 0LL, kLatest);
  return std::chrono::microseconds(seconds * 1'000'000 + std::clamp(answer[1].integer(), 0LL, 999'999LL));
}

inline constexpr std::string_view kTime = "*1\r\n$4\r\nTIME\r\n";

}  // namespace delayqueue
