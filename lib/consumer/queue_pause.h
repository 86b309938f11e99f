// Whether one queue of a consumer is paused, as far as its copies were read, if it has several partitions. Used by the
// consumer's thread only.
#pragma once

#include "store/pause.h"

#include <delayqueue/options.h>

#include <chrono>
#include <cstdint>

namespace delayqueue {

// The state of the highest generation that was read.
class QueuePause {
 public:
  std::int64_t generation() const { return known_.generation; }

  void learn(const store::PauseState& copy) {
    if (copy.generation <= known_.generation) return;
    known_ = copy;
    if (known_.left) ends_ = std::chrono::steady_clock::now() + *known_.left;
  }

  // As it is now.
  store::PauseState now() const {
    store::PauseState now = known_;
    if (!known_.left) return now;
    now.left = std::chrono::ceil<milliseconds>(ends_ - std::chrono::steady_clock::now());
    now.paused = now.paused && now.left->count() > 0;
    return now;
  }

 private:
  store::PauseState known_{};
  std::chrono::steady_clock::time_point ends_{};
};

}  // namespace delayqueue
