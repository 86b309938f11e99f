// PartitionTurns: which partition gets the next messages of a Producer.
//
// All threads send to the same partition, until it has been given 200 messages or a round trip to it has ended, and
// then to the next one. So threads that send at the same time share round trips, as in a queue without partitions.
#pragma once

#include "producer/circuit_breaker.h"

#include <cstddef>
#include <mutex>

namespace delayqueue {

// Any number of threads may use one PartitionTurns.
class PartitionTurns {
 public:
  // Leaves out the partitions that the breaker does not allow.
  explicit PartitionTurns(const CircuitBreaker& breaker) : breaker_(breaker) {}

  // The one of `count` partitions that gets so many messages. If the breaker allows none, it is the next one: sends to
  // it fail unless it is back.
  unsigned choose(std::size_t messages, unsigned count);

  // A round trip to the partition has ended.
  void go_on_from(unsigned partition, unsigned count);

 private:
  void go_on(unsigned count);

  const CircuitBreaker& breaker_;
  std::mutex mutex_;  // guards the rest
  bool has_begun_ = false;
  unsigned current_ = 0;
  std::size_t given_ = 0;  // messages that it has been given
};

}  // namespace delayqueue
