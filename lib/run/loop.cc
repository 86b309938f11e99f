#include "run/loop.h"

namespace delayqueue::run {

void Loop::start() {
  const std::lock_guard lock(joining_);
  thread_ = std::thread([this] { run(); });
}

void Loop::wake() {
  {
    const std::lock_guard lock(mutex_);
    if (woken_) return;
    woken_ = true;
  }
  changed_.notify_one();
}

void Loop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  const std::lock_guard lock(joining_);
  if (thread_.joinable()) thread_.join();
}

void Loop::run() {
  for (;;) {
    const Rest rest = step_();
    std::unique_lock lock(mutex_);
    if (rest > Rest::zero()) {
      // wait_until on the steady clock: a wall clock that is set must not stretch a rest.
      changed_.wait_until(lock, std::chrono::steady_clock::now() + rest, [this] { return woken_ || stopped_; });
    }
    if (stopped_) return;
    woken_ = false;
  }
}

}  // namespace delayqueue::run
