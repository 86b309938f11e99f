// Counters of a Consumer and of a Producer, for metrics and health checks.
#pragma once

#include <delayqueue/export.h>

#include <cstdint>
#include <string>

namespace delayqueue {

// Since the consumer was constructed.
struct ConsumerStats {
  std::uint64_t delivered = 0;      // passed to the worker threads; includes messages that stop() returned to the queue
  std::uint64_t acked = 0;          // settled as done
  std::uint64_t nacked = 0;         // settled as not done: nacks, exceptions and rejects
  std::uint64_t dead_lettered = 0;  // became dead letters: rejected, or out of retries after a nack or an ended lease
  std::uint64_t snoozed = 0;        // settled as snoozed
  std::uint64_t stale = 0;          // verdicts that came too late: another consumer has the message, or it was removed
  std::uint64_t expired = 0;        // taken, but the payload was gone (TTL, eviction); not delivered
  std::uint64_t foreign = 0;      // taken, but the id is not a UUID (another program wrote it); removed, not delivered
  std::uint64_t unconfirmed = 0;  // settled, but not in time as durably as ConsumerOptions::durability requires
  std::uint64_t connects = 0;     // connections made
  std::uint64_t errors = 0;       // connections lost or refused, and error replies
  std::uint64_t running = 0;      // handlers that run now; with a handler of a Delivery: until settled and returned
  std::uint64_t prefetched = 0;   // messages that the consumer holds now, and whose handler has not begun
  bool connected = false;         // started, and Redis answered the last request without an error
  // The text of the last error counted in `errors`, with advice; it stays after recovery. Before start() it says that
  // the consumer is not started.
  std::string last_error{};
};

// Since the producer was constructed.
struct ProducerStats {
  // Messages of a queue with partitions that were sent to another partition than the first choice, with a new id,
  // because its master was away or did not answer, its slot was moving, or the user lacks a right there. Nothing of
  // them had been stored before.
  std::uint64_t moved = 0;
};

}  // namespace delayqueue
