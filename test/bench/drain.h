// A consumer with an empty or a sleeping handler that handles all messages of a queue, or of several.
#pragma once

#include "bench/part.h"

namespace bench {

class Drain {
 public:
  // Starts the consumer. `marks`: the numbers of handled messages at which the time is recorded. `handler_time`: how
  // long each handler sleeps.
  Drain(const std::string& url, const std::vector<std::string>& queues, std::size_t concurrency,
        std::vector<std::size_t> marks = {}, const delayqueue::ClientOptions& connection = {},
        milliseconds handler_time = milliseconds(0));

  // Waits until `settled` messages are settled. Returns false if the deadline passes before.
  bool reaches(std::size_t settled, Clock::time_point deadline, Progress& progress);
  double took() const { return seconds(reached_ - start_); }

  std::size_t handled() const { return handled_; }
  double mark(std::size_t i) const;  // seconds since the start; 0: not reached
  double now() const { return since(start_); }
  double cpu_us() const { return cpu_us_; }  // of this process, from start to end of reaches()

  void stop();

 private:
  std::vector<delayqueue::Subscription> subscriptions(const std::vector<std::string>& queues);
  delayqueue::Verdict handle();

  const std::vector<std::size_t> marks_;
  const milliseconds handler_time_;
  std::vector<std::atomic<double>> times_;
  std::atomic<std::size_t> handled_{0};
  const double cpu_start_ = cpu_time();
  const Clock::time_point start_ = Clock::now();
  Clock::time_point reached_{};
  double cpu_us_ = 0;
  delayqueue::Consumer consumer_;  // last: its handler uses the other members
};

}  // namespace bench
