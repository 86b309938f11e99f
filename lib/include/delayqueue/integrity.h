// The integrity check of a queue: what QueueAdmin::check finds and repairs.
#pragma once

#include <delayqueue/export.h>
#include <delayqueue/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace delayqueue {

// The kinds of problems. The last four (expired, garbage, orphaned_metadata, orphaned_headers) are no damage: consumers
// remove them in time, and a repair removes them at once.
enum class Problem {
  stranded,           // has payload and retries, but is in no state: it would never be delivered
  orphaned_body,      // a payload without state and retries (or one that TryIntercept of a Go worker left)
  no_retries,         // pending, but no retries are recorded: it would be removed when it is due
  no_body,            // pending, but its payload is missing before any TTL can have ended
  two_states,         // in two of the states pending, unack and dead
  no_holder,          // in unack with an end that no lease or backoff can have: no consumer holds it
  orphaned_retries,   // retries are recorded for a message that does not exist, or for a dead letter
  invalid_time,       // the due time, or the time it became a dead letter, is not from 1970 to 2199
  foreign,            // an id that is not a UUID: another program wrote it
  invalid_total,      // a statistic with an invalid value or an unknown name; no call fails because of it
  invalid_setting,    // a layout or pause with a value that no client writes: it counts as absent
  lost_layout,        // partitions 0 and 1 have lost the layout: clients that start now leave out other partitions
  lost_partition,     // messages in a partition that no copy of the layout names. No repair adds it
  wrong_type,         // a key of the queue has another type: another program uses it
  invalid_headers,    // headers that cannot be read: the message is delivered without. No repair removes them
  expired,            // the payload is missing, as after the end of a TTL: the message cannot be delivered
  garbage,            // a finished message that is not deleted yet
  orphaned_metadata,  // a number of deliveries, or a reason, of a message that does not exist
  orphaned_headers,   // headers of a message that does not exist, such as one that a Go worker has acknowledged
};

// The name of the problem: "stranded", "orphaned_body" ...
DELAYQUEUE_EXPORT const char* to_string(Problem problem);

// One problem of one message or key.
struct Finding {
  Problem problem{};
  std::string id{};           // the message; for wrong_type and lost_layout the key; for lost_partition its base
  std::string description{};  // what is wrong, in words
  std::string repair{};       // what a repair does, or what an operator should do
  bool repaired = false;
  unsigned partition = 0;  // of the message: see partitions.h
};

struct DELAYQUEUE_EXPORT CheckReport {
  std::uint64_t examined = 0;  // ids; most are examined several times
  std::uint64_t repaired = 0;
  std::map<Problem, std::uint64_t> counts{};  // number of findings of each problem
  std::vector<Finding> findings{};            // a sample of each problem
  std::map<unsigned, std::string> errors{};   // partitions that could not be examined as a whole, and why

  // True: every partition was examined, and nothing was found (repaired or not) except expired, garbage,
  // orphaned_metadata and orphaned_headers.
  bool clean() const;
};

struct CheckOptions {
  bool repair = false;
  // The wait before a possible problem is examined a second time. It is reported only if it still exists then: a Go
  // worker sends in three steps, and may have been between two of them.
  milliseconds recheck_after{2000};
  std::size_t sample = 20;  // findings of each problem to describe
  int retries = 3;          // what a repair records for messages that have none
  // Called at intervals, also during the wait, with the number of steps done and an estimate of their total. An
  // exception ends the check.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
};

}  // namespace delayqueue
