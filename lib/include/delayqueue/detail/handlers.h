// Makes a handler of a function. Internal.
#pragma once

#include <delayqueue/delivery.h>
#include <delayqueue/message.h>

#include <type_traits>
#include <utility>
#include <variant>

namespace delayqueue::internal {

// A function that can be no handler is one error with a sentence, and none of std::function and std::variant.
template <class Function>
std::variant<Handler, DeliveryHandler> handler_of(Function function) {
  constexpr bool kCopies = std::is_copy_constructible_v<Function>;
  constexpr bool kOfMessage = std::is_invocable_v<Function&, const Message&>;
  constexpr bool kOfDelivery = std::is_invocable_v<Function&, Delivery>;
  static_assert(kCopies, "handler: it must be copyable; hold what is not in a std::shared_ptr");
  if constexpr (!kCopies) {
    return {};
  } else if constexpr (std::is_invocable_r_v<Verdict, Function&, const Message&>) {
    return Handler(std::move(function));
  } else if constexpr (kOfDelivery && !std::is_invocable_v<Function&, const Delivery&>) {
    constexpr bool kReturnsNothing = std::is_void_v<std::invoke_result_t<Function&, Delivery>>;
    static_assert(kReturnsNothing,
                  "handler: of a Delivery it must return nothing, because a result would be lost: settle the Delivery");
    if constexpr (kReturnsNothing) return DeliveryHandler(std::move(function));
  } else {
    static_assert(!kOfMessage, "handler: it must return a Verdict, such as delayqueue::ack()");
    static_assert(kOfMessage || !kOfDelivery, "handler: it must take the Delivery by value, to settle it");
    static_assert(kOfMessage || kOfDelivery,
                  "handler: it must be a function of a const delayqueue::Message& that returns a Verdict, or of a "
                  "delayqueue::Delivery that returns nothing");
  }
  return {};
}

}  // namespace delayqueue::internal
