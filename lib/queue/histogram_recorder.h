// HistogramRecorder: counts durations in the buckets of a Histogram, from any number of threads at the same time. To
// record allocates nothing and takes no lock.
#pragma once

#include <delayqueue/metrics.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace delayqueue {

class HistogramRecorder {
 public:
  void record(std::chrono::steady_clock::duration span) {
    static constexpr auto kBounds = Histogram::bounds();
    const auto us = std::max(std::chrono::ceil<std::chrono::microseconds>(span), std::chrono::microseconds(0));
    const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), us) - kBounds.begin();
    counts_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
    sum_us_.fetch_add(us.count(), std::memory_order_relaxed);
  }

  // What is recorded meanwhile may be in the sum and not yet in the counts, or the other way round.
  Histogram read() const {
    Histogram histogram;
    for (std::size_t i = 0; i < counts_.size(); ++i) histogram.counts[i] = counts_[i].load(std::memory_order_relaxed);
    histogram.sum = std::chrono::microseconds(sum_us_.load(std::memory_order_relaxed));
    return histogram;
  }

 private:
  std::array<std::atomic<std::uint64_t>, Histogram::bounds().size() + 1> counts_{};
  std::atomic<std::int64_t> sum_us_{0};
};

}  // namespace delayqueue
