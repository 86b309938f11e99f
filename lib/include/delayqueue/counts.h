// How many messages a queue has, and what has passed through it.
#pragma once

#include <delayqueue/export.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace delayqueue {

// Totals since the first message of the queue, or since forget(). Sends and deliveries of Go workers are not counted.
struct Totals {
  std::uint64_t sent = 0;  // includes restored messages
  std::uint64_t delivered = 0, acked = 0, nacked = 0, retried = 0;
  std::uint64_t dead_lettered = 0;  // became dead letters
  std::uint64_t expired = 0;        // removed because the payload was missing
  std::uint64_t cancelled = 0, redriven = 0, purged = 0;
  std::uint64_t foreign = 0;  // ids that are not UUIDs (another program wrote them); removed, not delivered
};

// The number of messages in each state, read at one moment; several partitions are read at a moment each. ready and
// retry are upper bounds: ids of cancelled or rescheduled messages stay in those lists until a consumer removes them.
struct Counts {
  std::uint64_t pending = 0, ready = 0, unack = 0, retry = 0, dead = 0;
  std::uint64_t garbage = 0;                                            // finished messages that are not deleted yet
  std::uint64_t due = 0;                                                // of pending: due, but not moved to ready yet
  std::uint64_t overdue = 0;                                            // of unack: lease or backoff has ended
  std::optional<std::chrono::system_clock::time_point> oldest_due{};    // the earliest due time in pending
  std::optional<std::chrono::system_clock::time_point> oldest_lease{};  // the earliest end of a lease or backoff
  // Since when one of the oldest messages in ready has been due: the oldest one has been due at least as long. Unset:
  // ready is empty, or this is not known (see docs/metrics.md).
  std::optional<std::chrono::system_clock::time_point> oldest_ready{};
  std::chrono::system_clock::time_point now;  // Redis' clock
  bool paused = false;
  std::optional<std::chrono::system_clock::time_point> paused_until{};  // unset: not paused, or until resume()
  bool known = true;  // false: nothing is stored of the queue, and it is not in Inspector::queues(): a wrong name?
  unsigned partitions = 1;  // how many were counted
  Totals totals;
};

}  // namespace delayqueue
