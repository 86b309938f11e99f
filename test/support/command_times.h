// Execution times of a command, from the server's own statistics.
#pragma once

#include <ostream>
#include <string>

#include "support/server.h"

namespace test {

struct CommandTimes {
  long long calls = 0;
  double mean_us = 0;
  long long p999_us = 0;  // upper bound of its bucket (buckets double); 0: no histograms (Redis 6.2)

  // True if no call depends on the number of messages: a call that walks over a million takes more than 100 ms. The
  // mean and the 99.9th percentile tolerate a few calls that a busy machine slowed down.
  bool bounded() const { return calls > 0 && mean_us < 2000 && p999_us < 17'000; }
};

// Counts the calls since the last CONFIG RESETSTAT.
CommandTimes command_times(Redis& client, const std::string& command = "evalsha");

std::ostream& operator<<(std::ostream& out, const CommandTimes& times);

}  // namespace test
