// How many messages, calls and repetitions a run has.
#pragma once

#include "support/standard.h"

namespace bench {

using std::chrono::milliseconds;

// The defaults are those of the full run.
struct Scale {
  std::string name = "full";

  // The rounds of send and receive, alternating with the limits.
  int rounds = 5;
  std::size_t messages = 200'000;  // in each round

  // The following parts are repeated this often. Other libraries get the same number of messages and repetitions.
  int repetitions = 3;
  std::size_t compared = 50'000;       // messages of sends and receives
  std::size_t late_messages = 10'000;  // one due each millisecond
  milliseconds idle{10'000};

  std::size_t round_trips = 20'000;  // of PING, and of the trivial script
  std::size_t wakes = 1'000;
  milliseconds ahead{500};  // from the start of the sends to the first due time, in addition to the expected duration

  // Messages of each payload: as many as fit, but at most the second.
  std::size_t payload_bytes = 128 * 1024 * 1024;
  std::size_t payload_messages = 100'000;
  std::size_t big_sends = 300;  // single sends of 1 MiB

  // Messages of each size and form of `border`: as many as fit, but at most the second.
  std::size_t border_bytes = 64 * 1024 * 1024;
  std::size_t border_messages = 10'000;

  std::size_t batch_groups = 250;  // deliveries of so many messages at a time
  std::size_t linked = 100'000;    // messages over each link
  std::size_t load_backlog = 100'000;
  milliseconds load{1'500};  // at each load

  std::size_t crowd = 100;  // idle consumers
  milliseconds crowd_calm{3'000};
  milliseconds many_queues_calm{15'000};  // each is polled every 10 s
  milliseconds crowd_idle{5'000};
  std::size_t crowd_messages = 400;  // one due every 10 ms
  std::size_t burst = 100'000;       // messages due at the same time
  milliseconds sleepers{3'000};      // the ideal duration
  std::size_t variant = 100'000;     // messages with each setting of the server, transport and number of processes
  std::size_t partitioned = 50'000;  // messages for each master
  milliseconds rss{600'000};

  int herds = 5;
  std::size_t herd_consumers = 50;
  milliseconds herd_half{500};    // half of the time during which a delayed message is observed
  milliseconds herd_calm{2'500};  // wait after their start until all of them are idle

  // The part with many messages.
  int millions = 3;
  std::size_t million = 1'000'000;
  std::size_t calls = 1'050;    // of each script; the p99.9 leaves out one of them
  milliseconds until{690'000};  // since the start of the run; a drain ends then
};

// A run of at most 60 s.
Scale quick();

// Shows only that the program works.
Scale tiny();

}  // namespace bench
