// The verdicts of deliveries, on their way from any thread to the consumer's thread.
#pragma once

#include "consumer/in_flight_message.h"

#include <delayqueue/detail/owned.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace delayqueue {

// A list whose nodes are the messages themselves, so that push() allocates nothing. Deliveries own it together with the
// consumer, and may outlive that. It refers to no handler and no queue.
class VerdictInbox {
 public:
  // Calls `wake` in a thread that makes the list non-empty, until close().
  explicit VerdictInbox(std::function<void()> wake) : wake_(std::move(wake)) {}
  ~VerdictInbox() { close(); }
  VerdictInbox(const VerdictInbox&) = delete;
  VerdictInbox& operator=(const VerdictInbox&) = delete;

  // Adds a message for which the caller's verdict counts. False after close(), and in a fork, where the mutex may stay locked.
  bool push(const InFlightPtr& message) noexcept {
    if (process_ != internal::this_process()) return false;
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    const bool first = last_ == nullptr;
    (first ? first_ : last_->next) = message;
    last_ = message.get();
    ++size_;
    if (first) wake_();
    return true;
  }

  // Removes all messages, and returns them in the order of push().
  std::vector<InFlightPtr> take() {
    std::vector<InFlightPtr> messages;
    InFlightPtr message;
    {
      const std::lock_guard lock(mutex_);
      messages.reserve(size_);  // first: it may throw
      message = std::exchange(first_, nullptr);
      last_ = nullptr;
      size_ = 0;
    }
    while (message != nullptr) {
      InFlightPtr next = std::exchange(message->next, nullptr);
      messages.push_back(std::move(message));
      message = std::move(next);
    }
    return messages;
  }

  // From now on push() accepts nothing. Drops what is left.
  void close() {
    InFlightPtr message;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      message = std::exchange(first_, nullptr);
      last_ = nullptr;
      size_ = 0;
    }
    while (message != nullptr) message = std::exchange(message->next, nullptr);  // one by one: no deep recursion
  }

 private:
  const std::function<void()> wake_;
  const long process_ = internal::this_process();
  std::mutex mutex_;  // guards all members below
  bool closed_ = false;
  InFlightPtr first_;
  InFlightMessage* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace delayqueue
