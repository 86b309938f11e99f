// Helpers of the tests of the transports.
#pragma once

#include <chrono>
#include <string>

#include "redis/socket.h"

namespace delayqueue::redis {

inline Deadline in(std::chrono::milliseconds time) { return Clock::now() + time; }

// Sends a question, and reads until the answer ends with "\r\n".
inline std::string ask(Transport& link, const std::string& question) {
  constexpr std::chrono::seconds kLimit{5};
  link.write(question, in(kLimit));
  std::string answer;
  while (answer.size() < 2 || answer.substr(answer.size() - 2) != "\r\n") {
    char bytes[7];
    answer.append(bytes, link.read(bytes, sizeof bytes, in(kLimit)));
  }
  return answer;
}

}  // namespace delayqueue::redis
