// Marks the threads that run a handler or callback of a consumer: such a thread cannot wait for that code to end.
#pragma once

#include <utility>

namespace delayqueue {

class CallbackScope {
 public:
  explicit CallbackScope(const void* consumer) : before_(std::exchange(current(), consumer)) {}
  ~CallbackScope() { current() = before_; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

  // The consumer whose handler or callback runs in this thread, or null.
  static const void*& current() {
    thread_local const void* consumer = nullptr;
    return consumer;
  }

 private:
  const void* const before_;
};

}  // namespace delayqueue
