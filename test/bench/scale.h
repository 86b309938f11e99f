// How much of everything one run does.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace bench {

using std::chrono::milliseconds;

// As they stand: the full run.
struct Scale {
  std::string name = "full";

  // Send and receive, beside the limit.
  int rounds = 5;
  std::size_t messages = 200'000;  // of a round

  // The parts that follow are repeated so often.
  int repetitions = 3;
  milliseconds sending{3'000};          // by one thread, and by eight
  std::size_t lone_messages = 100'000;  // through one worker
  std::size_t end_to_end = 200'000;     // messages
  std::size_t late_messages = 10'000;   // one a millisecond
  std::size_t wakes = 1'000;
  milliseconds idle{10'000};

  int herds = 5;
  std::size_t herd_consumers = 50;
  milliseconds herd_half{500};    // half of the time in which a delayed message is watched
  milliseconds herd_calm{2'500};  // after their start: all have found out that there is nothing to do

  // Of many messages.
  int millions = 3;
  std::size_t million = 1'000'000;
  std::size_t calls = 1'050;      // of each script: the p99.9 leaves one out
  milliseconds until{3'600'000};  // since the start of the run: a drain is cut short then
};

// Ends within 50 s.
Scale quick();

// Shows only that the program works.
Scale tiny();

}  // namespace bench
