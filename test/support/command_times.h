// Execution times of a command, from the server's own statistics.
#pragma once

#include "support/server.h"

namespace test {

struct CommandTimes {
  long long calls = 0;
  double mean_us = 0;
  // 99.9th percentile, as the upper bound of its bucket (bounds double); 0: no histograms (before Redis 7).
  long long p999_us = 0;

  // True if the time of a call does not depend on the number of messages: a call that reads a million takes more than
  // 100 ms. The mean and the 99.9th percentile tolerate a few calls that a busy machine slowed down: up to the bucket
  // of 16.9 ms.
  bool bounded() const { return calls > 0 && mean_us < 2000 && p999_us < 17'000; }
};

// Reads the statistics of all calls since the last CONFIG RESETSTAT.
CommandTimes command_times(Redis& client, const std::string& command = "evalsha");

std::ostream& operator<<(std::ostream& out, const CommandTimes& times);

}  // namespace test
