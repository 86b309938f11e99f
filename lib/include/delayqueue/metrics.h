// Metrics: what a consumer, a producer and the queues in Redis do, and the same as text for Prometheus.
// docs/metrics.md lists all names.
#pragma once

#include <delayqueue/inspector.h>
#include <delayqueue/message.h>
#include <delayqueue/version.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

// Counters of a Consumer since it was constructed.
struct ConsumerStats {
  std::uint64_t delivered = 0;      // passed to the worker threads; includes messages that stop() returned to the queue
  std::uint64_t acked = 0;          // settled as done
  std::uint64_t nacked = 0;         // settled as not done: nacks, exceptions and rejects
  std::uint64_t dead_lettered = 0;  // became dead letters: rejected, or out of retries after a nack or an ended lease
  std::uint64_t snoozed = 0;        // settled as snoozed
  std::uint64_t queue_pauses = 0;   // settled by pause_queue(); some of them found the queue paused already
  std::uint64_t stale = 0;          // verdicts that came too late: another consumer has the message, or it was removed
  std::uint64_t expired = 0;        // taken, but the payload was gone (TTL, eviction); not delivered
  std::uint64_t skipped = 0;        // occurrences of schedules that were left out: an earlier one was not finished
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

// Durations, counted in buckets. The buckets are those of the library's version: read `bounds`.
struct Histogram {
  std::vector<std::chrono::microseconds> bounds{};  // the upper bounds of the buckets, inclusive, ascending
  // Of each bucket alone, not cumulative; one more than bounds: the last bucket has all that is longer.
  std::vector<std::uint64_t> counts{};
  std::chrono::microseconds sum{0};  // of all durations

  std::uint64_t count() const {
    std::uint64_t all = 0;
    for (const std::uint64_t one : counts) all += one;
    return all;
  }
};

// Counters and durations of one queue of a Consumer since the consumer was constructed.
struct ConsumerQueueMetrics {
  std::string queue{};
  // With several queues `connects` and the errors of the connection are only in the sums.
  ConsumerStats stats{};
  // From the time at which a message was due until its handler began. At most one message of each take is measured: one
  // of which Redis has stored since when it has been due. While messages wait in ready this is a lower bound: see
  // docs/metrics.md. By Redis' clock up to the take, and at most a round trip too long.
  Histogram lateness{};
  // From the beginning of the handler to its verdict, by Verdict::Kind: ack, nack, reject, snooze, pause_queue. An
  // exception is a nack. With a handler of a Delivery: until the Delivery is settled or dropped.
  std::array<Histogram, 5> handler_time{};
  // How long the handler that began first has been running, or its Delivery has not been settled; 0: none. Those that
  // have lost their lease count, too. When it ends, the next one may be noticed up to ConsumerTuning::poll_interval
  // late.
  std::chrono::microseconds longest_running{0};
  std::uint64_t leases_lost = 0;  // deliveries that the consumer lost while their handlers ran, or before

  const Histogram& handler_time_of(Verdict::Kind kind) const { return handler_time[static_cast<std::size_t>(kind)]; }
};

struct ConsumerMetrics {
  // With several queues: the sums, and the last of the errors; `connected` is true if it is for each queue.
  ConsumerStats stats{};
  std::vector<ConsumerQueueMetrics> queues{};  // in the order in which the consumer was given them
};

// Counters and durations of a Producer since it was constructed.
struct ProducerMetrics {
  std::string queue{};
  std::uint64_t sent = 0;    // messages of calls that succeeded; includes those that existed already
  std::uint64_t failed = 0;  // messages of calls that threw an Error; some of them may be stored
  // Messages of a queue with partitions that were sent to another partition than the first choice, with a new id,
  // because its master was away or did not answer, its slot was moving, or the user lacks a right there. Nothing of
  // them had been stored before.
  std::uint64_t moved = 0;
  Histogram send_time{};  // of calls of send() and send_batch(), and of the batches of send_async(); failed ones too
};

// The counts of one queue in Redis. The program fills it from Inspector::counts(), for prometheus_text().
struct QueueMetrics {
  std::string queue{};
  std::optional<Counts> counts{};           // unset: it could not be read
  std::chrono::microseconds round_trip{0};  // the duration of the call
};

// Text in the exposition format 0.0.4 of Prometheus, with the content type "text/plain; version=0.0.4". It ends with a
// line break, and is empty without queues. Names of queues may have any bytes: control characters, those that are
// invisible or turn the direction of a line, and bytes that are not UTF-8, are written as \xNN.
//
// A page must not have two of these texts of the same kind, nor a queue twice: pass all producers and all queues of the
// page in one call. Texts of different kinds may follow each other.
[[nodiscard]] DELAYQUEUE_EXPORT std::string prometheus_text(const ConsumerMetrics& metrics);
[[nodiscard]] DELAYQUEUE_EXPORT std::string prometheus_text(const std::vector<ProducerMetrics>& metrics);
[[nodiscard]] DELAYQUEUE_EXPORT std::string prometheus_text(const std::vector<QueueMetrics>& metrics);

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
