// How many messages, calls and repetitions a run has.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace bench {

using std::chrono::milliseconds;

// The defaults are those of the full run.
struct Scale {
  std::string name = "full";

  // The rounds of send and receive, alternating with the limits.
  int rounds = 5;
  std::size_t messages = 200'000;  // in each round

  // The following parts are repeated this often.
  int repetitions = 3;
  milliseconds sending{3'000};          // by one thread, and by eight threads
  std::size_t lone_messages = 100'000;  // through a consumer with concurrency 1
  std::size_t end_to_end = 200'000;     // messages
  std::size_t late_messages = 10'000;   // one due each millisecond
  std::size_t wakes = 1'000;
  milliseconds ahead{500};  // from the start of the sends to the first due time, in addition to the expected duration
  milliseconds idle{10'000};

  int herds = 5;
  std::size_t herd_consumers = 50;
  milliseconds herd_half{500};    // half of the time during which a delayed message is observed
  milliseconds herd_calm{2'500};  // wait after their start until all of them are idle

  // The part with many messages.
  int millions = 3;
  std::size_t million = 1'000'000;
  std::size_t calls = 1'050;      // of each script; the p99.9 leaves out one of them
  milliseconds until{3'600'000};  // since the start of the run; a drain ends then
};

// A run of at most 50 s.
Scale quick();

// Shows only that the program works.
Scale tiny();

}  // namespace bench
