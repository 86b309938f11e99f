// Subscription: one queue of a Consumer that serves several.
#pragma once

#include <delayqueue/backoff.h>
#include <delayqueue/delivery.h>
#include <delayqueue/detail/braces.h>
#include <delayqueue/detail/handlers.h>
#include <delayqueue/message.h>
#include <delayqueue/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

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

// A Handler, which returns its verdict, or a DeliveryHandler, which owns a Delivery that is settled later. Made from
// any function that can be one of them; one that can be both is a Handler.
class AnyHandler : public std::variant<Handler, DeliveryHandler> {
 public:
  AnyHandler() = default;
  AnyHandler(std::nullptr_t) {}
  template <class Function, class = std::enable_if_t<!std::is_base_of_v<AnyHandler, Function>>>
  AnyHandler(Function function) : variant(internal::handler_of(std::move(function))) {}
};

struct Subscription {
  internal::Name queue;  // a std::string
  AnyHandler handler;
  SubscriptionOptions options{};
};

}  // namespace delayqueue
