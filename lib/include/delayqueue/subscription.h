// Subscription: one queue of a Consumer of several queues.
#pragma once

#include <delayqueue/backoff.h>
#include <delayqueue/delivery.h>
#include <delayqueue/message.h>
#include <delayqueue/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace delayqueue {

// What a consumer of several queues does for one of them. What is unset is as in ConsumerOptions.
struct SubscriptionOptions {
  // The share of the queue while several have messages: of two queues with the weights 6 and 3 the first has two of
  // three deliveries. 1 to 1,000. The only queue that has messages has all workers. With strict_priority a queue is
  // served only while no queue of a higher weight has messages for a worker.
  unsigned weight = 1;
  // As in ConsumerOptions, but for this queue; at most as many as the consumer has.
  std::optional<std::size_t> concurrency{};
  std::optional<milliseconds> lease{};
  std::optional<Backoff> backoff{};
  std::optional<milliseconds> processing_timeout{};
  std::optional<milliseconds> dead_retention{};
  std::optional<std::uint64_t> dead_limit{};
};

// Returns its verdict, or owns a Delivery that is settled later.
using AnyHandler = std::variant<Handler, DeliveryHandler>;

// One queue of a consumer.
struct Subscription {
  std::string queue;
  AnyHandler handler;
  SubscriptionOptions options{};
};

}  // namespace delayqueue
