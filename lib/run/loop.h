// Loop: a thread that calls a function repeatedly.
#pragma once

#include "os/descriptor.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace delayqueue::run {

// From start() on the thread calls step() until stop(). step() returns the pause before its next call, and must not
// throw. wake() ends the current pause, unless that ignores it; during a step or such a pause it cancels the next one.
class Loop {
 public:
  // A pause: ends after `time`, or when one of `fds` is readable. stop() ends each pause. With `ignores_wakes` wake()
  // does not, and costs nothing: for a step that can do nothing before one of them is readable.
  struct Pause {
    template <class Rep, class Period>
    Pause(std::chrono::duration<Rep, Period> pause, int fd = -1, bool ignores = false)  // NOLINT(*-explicit-*)
        : time(std::chrono::duration_cast<std::chrono::nanoseconds>(pause)), ignores_wakes(ignores) {
      if (fd >= 0) fds.push_back(fd);  // -1: none
    }

    static Pause zero() { return std::chrono::nanoseconds(0); }

    std::chrono::nanoseconds time;
    std::vector<int> fds{};
    bool ignores_wakes;
  };

  // Throws SetupError if no pipe can be created.
  explicit Loop(std::function<Pause()> step);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void start();  // call it once; after a SetupError (no thread can be created) it may be called again
  void wake();   // any thread may call it at any time

  // Stops the thread and returns when the current step has ended. May be called again, by any thread except in a step.
  void stop();

 private:
  void run();
  void pause(const Pause& pause);
  void drain();

  const std::function<Pause()> step_;
  Descriptor read_end_, write_end_;  // of a pipe; wake() makes it readable
  std::atomic<bool> woken_{false};   // while it is true, wake() writes nothing
  bool ignores_wakes_ = false;       // the last pause did; woken_ has been true since
  std::atomic<bool> stopped_{false};
  std::mutex join_mutex_;  // guards thread_
  std::thread thread_;
};

}  // namespace delayqueue::run
