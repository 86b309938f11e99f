// A mutex whose waiters get it in the order in which they came: one thread that takes it over and over does not keep
// it from the others.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

namespace delayqueue {

class FairMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    if (!held_) {
      held_ = true;
      return;
    }
    Waiter me;
    waiters_.push_back(&me);
    me.wake.wait(lock, [&] { return me.its_turn; });
  }

  void unlock() {
    const std::lock_guard lock(mutex_);
    held_ = !waiters_.empty();
    if (!held_) return;
    Waiter& next = *waiters_.front();
    waiters_.pop_front();
    next.its_turn = true;
    next.wake.notify_one();  // with the lock held: it may be gone as soon as it is told
  }

  bool is_wanted() {
    const std::lock_guard lock(mutex_);
    return !waiters_.empty();
  }

 private:
  struct Waiter {
    std::condition_variable wake;
    bool its_turn = false;
  };

  std::mutex mutex_;  // guards all below
  bool held_ = false;
  std::deque<Waiter*> waiters_;
};

}  // namespace delayqueue
