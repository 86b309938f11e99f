// Messages that are due at known times, and how late their handlers start. The due time is also the payload; Redis and
// the handlers use the clock of this machine.
#pragma once

#include "bench/part.h"

namespace bench {

struct Schedule {
  std::size_t messages = 0;
  double group = 1;     // messages that are due at the same time; a fraction is the mean
  milliseconds gap{1};  // between the due times of two groups
};

struct DueTimes {
  std::chrono::system_clock::time_point first, last;
};

// Sends all messages before the first of them is due. Throws std::runtime_error if that takes longer.
DueTimes send_schedule(Bench& bench, const Schedule& schedule);

// Waits until the consumer has settled so many messages. Throws std::runtime_error 20 s after `last`.
void await_acks(const delayqueue::Consumer& consumer, std::size_t messages, std::chrono::system_clock::time_point last);

// Collects the lateness of messages of a schedule.
class LatenessLog {
 public:
  explicit LatenessLog(std::size_t messages) : late_ms_(messages) {}

  // The handler. Called by any thread.
  delayqueue::Verdict record(const delayqueue::Message& message);

  std::size_t recorded() const { return recorded_; }

  // In ms. Valid once all messages are recorded.
  const std::vector<double>& late_ms() const { return late_ms_; }

 private:
  std::vector<double> late_ms_;
  std::atomic<std::size_t> recorded_{0};
};

}  // namespace bench
