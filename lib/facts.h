// What a server tells of itself, by INFO and CONFIG GET. These are asked without a Pipeline: it would make exceptions of
// answers that are errors; here those are answers, too.
#pragma once

#include "redis/connection.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace delayqueue {

// Names and values of INFO or of CONFIG GET. A name that is not there reads as empty.
class Facts {
 public:
  void add(std::string_view name, std::string_view value) { facts_[std::string(name)] = value; }

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

 private:
  std::map<std::string, std::string> facts_;
};

struct Question {
  const char* command;
  const char* first;
  const char* second;  // or null

  std::string text() const {
    return std::string(command) + ' ' + first + (second == nullptr ? "" : std::string(" ") + second);
  }
};

// Sends all of them. As many answers are to be read, whatever they are.
template <std::size_t kCount>
void ask(redis::Connection& connection, const Question (&questions)[kCount]) {
  std::string requests;
  for (const Question& question : questions) {
    if (question.second == nullptr) {
      redis::append_command(requests, {question.command, question.first});
    } else {
      redis::append_command(requests, {question.command, question.first, question.second});
    }
  }
  connection.write(requests);
}

inline constexpr std::string_view kTime = "*1\r\n$4\r\nTIME\r\n";

}  // namespace delayqueue
