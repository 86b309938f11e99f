// What a Producer counts of its sends: see ProducerMetrics. Any number of threads write and read it.
#pragma once

#include "queue/histogram_recorder.h"

#include <delayqueue/metrics.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace delayqueue {

struct SendCounters {
  std::atomic<std::uint64_t> sent{0}, failed{0};
  HistogramRecorder send_time;

  ProducerMetrics metrics(std::string queue, const ProducerStats& stats) const {
    return {std::move(queue), stats, sent, failed, send_time.read()};
  }
};

// One call that sends. Its messages count as failed, except those that succeeded.
class SendTimer {
 public:
  SendTimer(SendCounters& counters, std::size_t messages) : counters_(counters), failed_(messages) {}
  ~SendTimer() {
    counters_.send_time.record(Clock::now() - begin_);
    counters_.sent.fetch_add(sent_, std::memory_order_relaxed);
    counters_.failed.fetch_add(failed_, std::memory_order_relaxed);
  }
  SendTimer(const SendTimer&) = delete;
  SendTimer& operator=(const SendTimer&) = delete;

  void succeeded(std::size_t messages) {
    sent_ += messages;
    failed_ -= messages;
  }

 private:
  using Clock = std::chrono::steady_clock;

  SendCounters& counters_;
  std::size_t sent_ = 0, failed_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace delayqueue
