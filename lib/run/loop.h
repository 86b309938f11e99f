// A thread that does one thing again and again.
#pragma once

#include "os/descriptor.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace delayqueue::run {

// From start() on calls step() until it is stopped. step() says how long to rest before the next call; wake() cuts the
// rest short, also one that is about to begin: a wake during a step makes the next one follow at once. step() must not
// throw.
class Loop {
 public:
  struct Rest {
    template <class Rep, class Period>
    Rest(std::chrono::duration<Rep, Period> rest, int ends_with = -1)  // NOLINT(google-explicit-constructor)
        : time(std::chrono::duration_cast<std::chrono::nanoseconds>(rest)), fd(ends_with) {}

    static Rest zero() { return std::chrono::nanoseconds(0); }

    std::chrono::nanoseconds time;
    int fd;  // the rest ends when this has something to read; -1: none
  };

  // Throws std::system_error when there is no pipe to be had.
  explicit Loop(std::function<Rest()> step);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void start();  // once
  void wake();   // at any time, from any thread

  // Returns when a step under way has ended and none will follow. May be called again, and from any thread but a step.
  void stop();

 private:
  void run();
  void rest(const Rest& rest);

  const std::function<Rest()> step_;
  Descriptor reading_, writing_;  // of a pipe that becomes readable with a wake
  std::atomic<bool> woken_{false};
  std::atomic<bool> stopped_{false};
  std::mutex joining_;  // guards thread_
  std::thread thread_;
};

}  // namespace delayqueue::run
