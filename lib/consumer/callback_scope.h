// Whose code runs in this thread: a consumer cannot wait for its own handler or callback.
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
