// A fair mutex: waiting threads get it in the order of their calls, so a thread that locks it repeatedly does not
// starve the others.
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
    Waiter waiter;
    waiters_.push_back(&waiter);
    waiter.wake.wait(lock, [&] { return waiter.granted; });
  }

  void unlock() {
    const std::lock_guard lock(mutex_);
    held_ = !waiters_.empty();
    if (!held_) return;
    Waiter& next = *waiters_.front();
    waiters_.pop_front();
    next.granted = true;
    next.wake.notify_one();  // with mutex_ locked: the other thread destroys `next` when it can lock it
  }

  // Whether a thread waits for the mutex.
  bool is_wanted() {
    const std::lock_guard lock(mutex_);
    return !waiters_.empty();
  }

 private:
  struct Waiter {
    std::condition_variable wake;
    bool granted = false;
  };

  std::mutex mutex_;  // guards all members below
  bool held_ = false;
  std::deque<Waiter*> waiters_;
};

}  // namespace delayqueue
