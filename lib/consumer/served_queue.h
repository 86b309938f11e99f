// One queue of a consumer: what its lanes have in common. Used by the consumer's thread only, except for the counters.
#pragma once

#include "consumer/handler_runner.h"
#include "consumer/intake.h"
#include "consumer/queue_layout.h"
#include "consumer/queue_pause.h"
#include "consumer/report.h"
#include "queue/endpoint.h"
#include "run/worker_pool.h"
#include "store/registry.h"

#include <delayqueue/consumer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

class Lane;

struct ServedQueue {
  // `own`: the options of this queue. `consumer_id`: of the consumer, among all consumers. Throws
  // std::invalid_argument.
  ServedQueue(const std::string& url, Subscription subscription, const ConsumerOptions& own,
              const std::string& consumer_id, HandlerRunner& handlers)
      : name(subscription.queue),
        options(own),
        consumer(consumer_id),
        endpoint(url, name, options.connection, options.queue),
        reporter(name, consumer, options),
        line(handlers.add_line(std::move(subscription.handler), reporter.counters(),
                               {subscription.options.weight, options.concurrency})) {}
  ServedQueue(const ServedQueue&) = delete;
  ServedQueue& operator=(const ServedQueue&) = delete;

  const std::string name;
  const ConsumerOptions options;
  const std::string consumer;
  Endpoint endpoint;  // of partition 0
  Reporter reporter;
  const std::size_t line;          // in HandlerRunner, and its number among the queues
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

}  // namespace delayqueue
