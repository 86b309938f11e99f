// One queue of a consumer, and one partition of it: what is known of them, where they are, and how often they are
// polled. Used by the consumer's thread only, except for the counters.
#pragma once

#include "consumer/handlers.h"
#include "consumer/intake.h"
#include "consumer/link.h"
#include "consumer/report.h"
#include "queue/endpoint.h"
#include "queue/layout_keeper.h"
#include "run/worker_pool.h"
#include "store/limits.h"
#include "store/moves.h"
#include "store/pause.h"
#include "store/registry.h"

#include <delayqueue/client.h>
#include <delayqueue/consumer.h>
#include <delayqueue/log.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

class Lane;

// ---- How often a queue is polled ------------------------------------------------------------------------------------

// So many queues are polled every poll_interval. With more and with wake-ups, each is polled less often, so that the
// number of requests stays the same, up to the factor kSlowestPoll.
inline constexpr int kPolledOften = 10;
inline constexpr double kSlowestPoll = 10;
inline constexpr std::size_t kMostPolled = 100;  // the partitions above 0 are polled as if there were so many queues

// How much less often than with one queue each of so many is polled.
inline milliseconds stretched(milliseconds interval, std::size_t queues) {
  const auto factor = static_cast<double>(queues) / kPolledOften;
  return milliseconds(std::llround(static_cast<double>(interval.count()) * std::clamp(factor, 1.0, kSlowestPoll)));
}

// ---- What was read of it --------------------------------------------------------------------------------------------

// The layout of the queue, as far as its copies were read.
//
// The lanes read the copy of their partition, and that of partition 1 if it is on the same server. In a Cluster another
// thread reads that one while partition 1 has no lane: partition 0 may have lost its copy, or be away.
class QueueLayout {
 public:
  // `endpoint`: of partition 0.
  explicit QueueLayout(Endpoint& endpoint);

  // Whether the queue may have more partitions than one.
  bool may_have_partitions() const { return !endpoint_.key_options().bodies_under_dp; }

  // All that was read so far.
  store::Layout known() const { return keeper_.known(); }
  LayoutKeeper& keeper() { return keeper_; }

  // In a Cluster: begins to read the copy of partition 1 in another thread, if that is due. `queues`: how many the
  // consumer has.
  void read_elsewhere(BackgroundCalls& calls, std::size_t queues);
  void read_elsewhere_soon() { due_ = {}; }

  // Waits for that thread.
  void wait();

 private:
  Endpoint& endpoint_;
  LayoutKeeper keeper_;
  std::optional<BackgroundCall<void>> reading_;
  std::chrono::steady_clock::time_point due_;
};

// Whether the queue is paused, as far as its copies were read, if it has several partitions: the state of the highest
// generation.
class QueuePause {
 public:
  std::int64_t generation() const { return known_.generation; }

  void learn(const store::PauseState& copy) {
    if (copy.generation <= known_.generation) return;
    known_ = copy;
    if (known_.left) ends_ = std::chrono::steady_clock::now() + *known_.left;
  }

  // As it is now.
  store::PauseState now() const {
    store::PauseState now = known_;
    if (!known_.left) return now;
    now.left = std::chrono::ceil<milliseconds>(ends_ - std::chrono::steady_clock::now());
    now.paused = now.paused && now.left->count() > 0;
    return now;
  }

 private:
  store::PauseState known_{};
  std::chrono::steady_clock::time_point ends_{};
};

// ---- ServedQueue ----------------------------------------------------------------------------------------------------

// What the lanes of a queue have in common.
struct ServedQueue {
  // `own`: the options of this queue. `consumer_id`: of the consumer, among all consumers. Throws
  // std::invalid_argument.
  ServedQueue(const Client& client, Subscription subscription, const ConsumerOptions& own,
              const std::string& consumer_id, Handlers& handlers)
      : name(subscription.queue.str()),
        options(own),
        consumer(consumer_id),
        endpoint(client, name),
        reporter(name, consumer, options, client.keys()),
        number(handlers.add_queue(std::move(subscription.handler), reporter.counters(),
                                  {subscription.options.weight, options.concurrency})) {}
  ServedQueue(const ServedQueue&) = delete;
  ServedQueue& operator=(const ServedQueue&) = delete;

  const std::string name;
  const ConsumerOptions options;
  const std::string consumer;
  Endpoint endpoint;  // of partition 0
  Reporter reporter;
  const std::size_t number;        // among the queues of the consumer
  std::vector<Lane*> lanes{};      // by partition
  store::ConsumerEntry profile{};  // of the consumer, for the registry; the same for all its queues
  std::uint64_t turns = 0;         // that its lanes have used; the lane whose last one has the lowest number is next

  // Handlers of the consumer that have returned since a message of this queue was taken from retry.
  std::size_t handled_since_retry = 0;

  std::size_t taken = 0;                             // messages, since the last plan
  std::chrono::steady_clock::time_point taken_at{};  // when it last had a message

  LargeBodies large_bodies{};

  QueueLayout layout{endpoint};
  QueuePause pause{};
  store::Limits limits{};  // of several partitions: those of the latest generation that was read

  // Markers for other partitions than 0, to be written into `wakes`: the partition, and when its message is due.
  std::map<unsigned, std::string> markers{};
  bool clears_wakes = false;  // another program wrote into `wakes`

  // Of several markers for a partition one remains, so that they need no more memory while partition 0 is away. It is
  // that for a message in ready then, which makes its receiver look at both lists and at pending.
  void add_marker(unsigned partition, const std::string& due) {
    const auto marker = markers.try_emplace(partition, due).first;
    if (marker->second != due) marker->second = "0";
  }
};

// ---- ServedPartition ------------------------------------------------------------------------------------------------

// Where a partition of a queue is, and its keys.
struct ServedPartition {
  // Throws std::invalid_argument if the queue can have no such partition.
  ServedPartition(ServedQueue& served, unsigned partition)
      : queue(served),
        number(partition),
        own_endpoint(partition == 0 ? nullptr : std::make_unique<Endpoint>(served.endpoint, partition)),
        endpoint(partition == 0 ? served.endpoint : *own_endpoint),
        moves(endpoint.keys(), {served.options.dead_retention.count() > 0, 0}) {}
  ServedPartition(const ServedPartition&) = delete;
  ServedPartition& operator=(const ServedPartition&) = delete;

  const store::Keys& keys() const { return moves.keys(); }

  void log(Severity severity, const std::string& text, const LogFields& about = {}) const {
    queue.reporter.log(severity, named(text), about);
  }
  std::string named(const std::string& text) const {
    return number == 0 ? text : "partition " + std::to_string(number) + ": " + text;
  }

  ServedQueue& queue;
  const unsigned number;
  const std::unique_ptr<Endpoint> own_endpoint;  // of a partition above 0
  Endpoint& endpoint;
  const store::Moves moves;
};

}  // namespace delayqueue
