// Idle consumers wait for wake-ups in partition 0 only. So a marker that a send leaves in another partition, for a
// message which is due earlier than all others there, is forwarded to partition 0.
#pragma once

#include "producer/circuit_breaker.h"
#include "queue/shared_connection.h"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

// Any number of threads may use it.
class MarkerForwarder {
 public:
  // `home`: of partition 0. Both must outlive this object.
  MarkerForwarder(SharedConnection& home, CircuitBreaker& breaker) : home_(home), breaker_(breaker) {}

  // A marker was taken out of this partition, which is not 0. `due`: when its message is due, as a score.
  void add(unsigned partition, std::string due);

  // Forwards what was added, or leaves that to a thread which forwards already. Throws nothing. A marker that is lost
  // makes its message as late as the next poll.
  void forward();

 private:
  void send(const std::vector<std::pair<unsigned, std::string>>& markers);

  SharedConnection& home_;
  CircuitBreaker& breaker_;
  std::mutex mutex_;                                       // guards the next two
  std::vector<std::pair<unsigned, std::string>> markers_;  // to be forwarded, with their partitions
  bool is_forwarding_ = false;
};

}  // namespace delayqueue
