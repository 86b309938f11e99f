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
  // The bounds of the buckets, from 1 ms to 30 minutes.
  static constexpr std::array<std::chrono::microseconds, 17> kBounds{
      {std::chrono::microseconds(1'000), std::chrono::microseconds(2'500), std::chrono::microseconds(5'000),
       std::chrono::milliseconds(10), std::chrono::milliseconds(25), std::chrono::milliseconds(50),
       std::chrono::milliseconds(100), std::chrono::milliseconds(250), std::chrono::milliseconds(500),
       std::chrono::milliseconds(1'000), std::chrono::milliseconds(2'500), std::chrono::seconds(5),
       std::chrono::seconds(10), std::chrono::seconds(30), std::chrono::minutes(1), std::chrono::minutes(5),
       std::chrono::minutes(30)}};

  void record(std::chrono::steady_clock::duration span) {
    const auto us = std::max(std::chrono::ceil<std::chrono::microseconds>(span), std::chrono::microseconds(0));
    const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), us) - kBounds.begin();
    counts_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
    sum_us_.fetch_add(us.count(), std::memory_order_relaxed);
  }

  // What is recorded meanwhile may be in the sum and not yet in the counts, or the other way round.
  Histogram read() const {
    Histogram histogram;
    histogram.bounds.assign(kBounds.begin(), kBounds.end());
    histogram.counts.reserve(counts_.size());
    for (const auto& count : counts_) histogram.counts.push_back(count.load(std::memory_order_relaxed));
    histogram.sum = std::chrono::microseconds(sum_us_.load(std::memory_order_relaxed));
    return histogram;
  }

 private:
  std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> counts_{};
  std::atomic<std::int64_t> sum_us_{0};
};

}  // namespace delayqueue
