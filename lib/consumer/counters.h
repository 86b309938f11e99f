// Counters of a consumer, or of one of its queues: see ConsumerStats and ConsumerQueueMetrics. Its thread and its
// workers write them; any thread may read them.
#pragma once

#include "queue/histogram_recorder.h"

#include <delayqueue/consumer.h>
#include <delayqueue/metrics.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

struct Counters {
  std::atomic<std::uint64_t> delivered{0}, acked{0}, nacked{0}, dead_lettered{0}, snoozed{0}, stale{0}, expired{0},
      foreign{0}, unconfirmed{0}, connects{0}, errors{0};
  std::atomic<std::uint64_t> running{0}, prefetched{0};  // current values; those above only grow
  std::atomic<bool> connected{false};
  std::atomic<std::uint64_t> leases_lost{0};
  std::atomic<std::chrono::steady_clock::rep> running_since{0};  // the begin of the oldest handler; 0: none runs
  HistogramRecorder lateness;
  std::array<HistogramRecorder, 4> handler_time;  // by Verdict::Kind

  void record(Verdict::Kind kind, std::chrono::steady_clock::duration time) {
    handler_time[static_cast<std::size_t>(kind)].record(time);
  }

  void started() {
    const std::lock_guard lock(mutex_);
    started_ = true;
  }

  void failed(std::string text) {
    ++errors;
    connected = false;
    const std::lock_guard lock(mutex_);
    last_error_ = std::move(text);
    last_failure_ = std::chrono::steady_clock::now();
  }

  ConsumerStats stats() const {
    const std::lock_guard lock(mutex_);
    const std::string error = last_error_.empty() && !started_ ? "not started: call start() or run()" : last_error_;
    // In the order of ConsumerStats.
    return {delivered,   acked,    nacked, dead_lettered, snoozed,    stale,     expired, foreign,
            unconfirmed, connects, errors, running,       prefetched, connected, error};
  }

  ConsumerQueueMetrics metrics(const std::string& queue) const {
    using Clock = std::chrono::steady_clock;
    ConsumerQueueMetrics metrics{queue, stats(), lateness.read(), {}, {}, leases_lost};
    for (std::size_t i = 0; i < handler_time.size(); ++i) metrics.handler_time[i] = handler_time[i].read();
    const Clock::duration since(running_since);
    if (since.count() != 0) {
      metrics.longest_running =
          std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch() - since);
    }
    return metrics;
  }

  // The time of the last error; the beginning of the clock: none.
  std::chrono::steady_clock::time_point last_failure() const {
    const std::lock_guard lock(mutex_);
    return last_failure_;
  }

 private:
  mutable std::mutex mutex_;  // guards the rest
  bool started_ = false;
  std::string last_error_;
  std::chrono::steady_clock::time_point last_failure_;
};

// The sums of the counters of a consumer's queues and of `common`, what is not counted for a queue; the last of their
// errors. `connected` is true if it is for each queue.
inline ConsumerStats sum_of(const std::vector<const Counters*>& queues, const Counters& common) {
  std::vector<const Counters*> all = queues;
  all.push_back(&common);
  ConsumerStats sum;
  sum.connected = true;
  std::chrono::steady_clock::time_point last;
  for (const Counters* one : all) {
    const ConsumerStats stats = one->stats();
    sum.delivered += stats.delivered;
    sum.acked += stats.acked;
    sum.nacked += stats.nacked;
    sum.dead_lettered += stats.dead_lettered;
    sum.snoozed += stats.snoozed;
    sum.stale += stats.stale;
    sum.expired += stats.expired;
    sum.foreign += stats.foreign;
    sum.unconfirmed += stats.unconfirmed;
    sum.connects += stats.connects;
    sum.errors += stats.errors;
    sum.running += stats.running;
    sum.prefetched += stats.prefetched;
    sum.connected = sum.connected && (stats.connected || one == &common);
    if (one->last_failure() >= last) {
      last = one->last_failure();
      sum.last_error = stats.last_error;
    }
  }
  return sum;
}

}  // namespace delayqueue
