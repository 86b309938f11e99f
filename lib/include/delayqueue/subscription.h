// Subscription: one queue of a Consumer that serves several.
#pragma once

#include <delayqueue/backoff.h>
#include <delayqueue/handler.h>
#include <delayqueue/queue_name.h>
#include <delayqueue/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace delayqueue {

// The options of one queue. A member that is unset has the value in ConsumerOptions.
struct SubscriptionOptions {
  // The share of the queue while several queues have messages: 1 to 1,000. Of two queues with the weights 6 and 3 the
  // first gets two of three deliveries. A queue gets all workers while no other queue has messages. With
  // ConsumerOptions::strict_priority a queue is served only while no queue of a higher weight has messages for a
  // worker.
  unsigned weight = 1;
  std::optional<std::size_t> concurrency{};  // at most that of the consumer
  std::optional<milliseconds> lease{};
  std::optional<Backoff> backoff{};
  std::optional<milliseconds> processing_timeout{};
  std::optional<milliseconds> dead_retention{};
  std::optional<std::uint64_t> dead_limit{};
};

struct Subscription {
  QueueName queue;
  Handler handler;
  SubscriptionOptions options{};
};

}  // namespace delayqueue
