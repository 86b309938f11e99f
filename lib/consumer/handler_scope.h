// The delivery whose DeliveryHandler runs in this thread.
#pragma once

#include "consumer/in_flight_message.h"

#include <utility>

namespace delayqueue {

// A handler that throws destroys its Delivery before the exception can be caught. So a delivery that is dropped in the
// thread where its handler runs gets its verdict from the worker when the handler has ended: then the exception's text
// is the reason. Until then it has none, so processing_timeout applies to a handler that goes on.
class HandlerScope {
 public:
  explicit HandlerScope(const InFlightMessage& message) : message_(message), before_(std::exchange(current(), this)) {}
  ~HandlerScope() { current() = before_; }
  HandlerScope(const HandlerScope&) = delete;
  HandlerScope& operator=(const HandlerScope&) = delete;

  // Returns whether the handler of this delivery runs in this thread, and has dropped() return true then.
  static bool keep_dropped(const InFlightMessage& message) noexcept {
    HandlerScope* const scope = current();
    if (scope == nullptr || &scope->message_ != &message) return false;
    return scope->dropped_ = true;
  }

  bool dropped() const { return dropped_; }

 private:
  static HandlerScope*& current() {
    thread_local HandlerScope* scope = nullptr;
    return scope;
  }

  const InFlightMessage& message_;
  HandlerScope* const before_;
  bool dropped_ = false;
};

}  // namespace delayqueue
