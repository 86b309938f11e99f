// Report: what a consumer shows of itself: counters, events and log lines.
#pragma once

#include "consumer/holdings.h"
#include "consumer/intake.h"
#include "queue/event_sink.h"
#include "queue/failure_log.h"
#include "queue/histogram_recorder.h"
#include "store/moves.h"

#include <delayqueue/consumer.h>
#include <delayqueue/metrics.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

// ---- Counters -------------------------------------------------------------------------------------------------------

// Counters of a consumer, or of one of its queues: see ConsumerStats and ConsumerQueueMetrics. Its thread and its
// workers write them; any thread may read them.
struct Counters {
  std::atomic<std::uint64_t> delivered{0}, acked{0}, nacked{0}, dead_lettered{0}, snoozed{0}, queue_pauses{0}, stale{0},
      expired{0}, skipped{0}, foreign{0}, unconfirmed{0}, connects{0}, errors{0};
  std::atomic<std::uint64_t> running{0}, prefetched{0};  // current values; those above only grow
  std::atomic<bool> connected{false};
  std::atomic<std::uint64_t> leases_lost{0};
  std::atomic<std::chrono::steady_clock::rep> running_since{0};  // the begin of the oldest handler; 0: none runs
  HistogramRecorder lateness;
  std::array<HistogramRecorder, 5> handler_time;  // by Verdict::Kind

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
    return {delivered, acked,       nacked,   dead_lettered, snoozed, queue_pauses, stale,     expired, skipped,
            foreign,   unconfirmed, connects, errors,        running, prefetched,   connected, error};
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
    sum.queue_pauses += stats.queue_pauses;
    sum.stale += stats.stale;
    sum.expired += stats.expired;
    sum.skipped += stats.skipped;
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

// ---- Reporter -------------------------------------------------------------------------------------------------------

// Reports what a consumer does: counters, events and log lines. Used by the consumer's thread only, except for stats()
// and the counters.
class Reporter {
 public:
  // For one queue of a consumer. `consumer`: its id. Log lines name the queue and the end of the id.
  Reporter(const std::string& queue, const std::string& consumer, const ConsumerOptions& options,
           const KeyOptions& keys);

  // For what concerns several queues of a consumer. Log lines name the end of the id only.
  Reporter(const std::string& consumer, const ConsumerOptions& options);

  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }
  EventSink& sink() { return sink_; }
  const EventSink& sink() const { return sink_; }
  void log(Severity severity, const std::string& text, const LogFields& about = {}) const {
    sink_.log(severity, text, about);
  }

  // Uses the FailureLog of another one, so that what concerns several queues floods no log.
  void share_failures(const Reporter& other) { failures_ = other.failures_; }

  // Logs a failure of a source: as a warning, or for debugging. `is_new`: see FailureLog.
  void failed(FailureLog::Source source, const std::string& text, bool is_new, const LogFields& about) const;
  // Logs that it is in order again, if its failure was a warning.
  void recovered(FailureLog::Source source, const std::string& text, const LogFields& about) const;

  // The steps of a message, in their order.
  void promoted(const store::Promoted& promoted);
  void retried(const store::Reclaimed& reclaimed);
  void taken(const Taker::Taken& taken);
  void fetched(const BodyFetcher::Fetched& fetched);
  void returned(std::size_t unstarted) { counters_.prefetched -= unstarted; }
  void settled(const Settler::Outcome& outcome);

  // Warnings and notices.
  void lost(const InFlightMessage& delivery);
  void overrunning(const InFlightMessage& delivery, milliseconds processing_timeout);
  void hanging(const InFlightMessage& delivery, milliseconds processing_timeout) const;
  void trimmed(std::size_t dead_letters) const;
  void paused_queue(const InFlightMessage& delivery) const;

 private:
  void warn_of_message(const std::string& kind, const std::string& id, const std::string& text) const;
  void warn_expired(const std::string& id);
  void warn_foreign(const std::string& id);
  void warn_damaged(const std::string& id);
  void event(EventKind kind, const std::vector<std::string>& ids);
  void event(EventKind kind, const std::vector<InFlightPtr>& deliveries);

  EventSink sink_;
  std::shared_ptr<FailureLog> failures_ = std::make_shared<FailureLog>();
  const bool has_own_prefix_ = false;  // bodies_under_dp makes a difference
  Counters counters_;
  bool foreign_warned_ = false;
  std::chrono::steady_clock::time_point expired_warning_due_, damaged_warning_due_;
};

}  // namespace delayqueue
