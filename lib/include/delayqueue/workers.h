// The registry of consumers: the processes that serve a queue, and the messages that their handlers have been working
// on for longest. See Inspector::workers().
#pragma once

#include <delayqueue/export.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

// A message whose handler runs, or whose Delivery is not settled; or whose payload is still arriving, because it is
// large and the link is slow.
struct RunningMessage {
  std::string id{};
  std::chrono::system_clock::time_point since{};  // by Redis' clock, to a few milliseconds
  // The bytes of the payload that is fetched, 0: not known; its handler has not begun. Unset: its handler runs.
  std::optional<std::uint64_t> fetching{};
};

// The entry of a consumer in the registry of a queue. A consumer writes it every 10 s, or every poll_interval if that
// is longer, and less often with more than ten queues. A consumer that has died is listed until three such times and 30
// s have passed: by default for a minute. Any program that may write to the queue can write an entry, and names may
// have any bytes: escape them before you show them.
struct Worker {
  std::string consumer{};             // its id: each Consumer object has another one
  std::string name{};                 // ConsumerOptions::name
  std::string host{};                 // the name of the machine or container
  std::uint64_t pid = 0;              // the process there
  std::string version{};              // of the library
  std::vector<std::string> queues{};  // of the consumer, at most 20
  std::uint64_t queue_count = 0;      // of the consumer
  std::uint64_t busy = 0;         // handlers that run; with a handler of a Delivery: deliveries that are not settled;
                                  // of all its queues
  std::uint64_t concurrency = 0;  // the most that `busy` may be, without those that have lost their leases
  std::uint64_t in_flight = 0;    // messages of this queue that it holds, also those whose handler has not begun
  std::vector<RunningMessage> longest{};         // of this queue: at most 5, the longest running first
  std::chrono::system_clock::time_point seen{};  // when it wrote this, by Redis' clock
  // True: a consumer that lives would have written this again, by default within 22 s. It has died, is frozen, or is
  // cut off from Redis, and the figures above may no longer hold.
  bool overdue = false;
  // True: the entry cannot be read, because another program has written it. Then only `consumer` is set, to at most 100
  // bytes of its name.
  bool damaged = false;
};

}  // namespace delayqueue
