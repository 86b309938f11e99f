// How long the calls of a command held a server, by its own count.
#pragma once

#include <ostream>
#include <string>

#include "support/server.h"

namespace test {

struct CommandTimes {
  long long calls = 0;
  double mean_us = 0;
  long long p999_us = 0;  // the upper end of its bucket, and buckets double; 0: Redis 6.2 has no histograms

  // Steps of one size, whatever there is: one that went over a million would take over 100 ms. The few slow ones among
  // them show how busy the machine is.
  bool bounded() const { return calls > 0 && mean_us < 2000 && p999_us < 17'000; }
};

// Since the last CONFIG RESETSTAT.
CommandTimes command_times(Redis& client, const std::string& command = "evalsha");

std::ostream& operator<<(std::ostream& out, const CommandTimes& times);

}  // namespace test
