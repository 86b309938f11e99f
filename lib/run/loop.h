// A thread that does one thing again and again.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace delayqueue::run {

// From start() on calls step() until it is stopped. step() says how long to rest before the next call; wake() cuts the rest short, also
// one that is about to begin: a wake during a step makes the next one follow at once. step() must not throw.
class Loop {
 public:
  using Rest = std::chrono::microseconds;

  explicit Loop(std::function<Rest()> step) : step_(std::move(step)) {}
  ~Loop() { stop(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void start();  // once
  void wake();   // at any time, from any thread

  // Returns when a step under way has ended and none will follow. May be called again, and from any thread but a step.
  void stop();

 private:
  void run();

  const std::function<Rest()> step_;
  std::mutex mutex_;  // guards woken_ and stopped_
  std::condition_variable changed_;
  bool woken_ = false;
  bool stopped_ = false;
  std::mutex joining_;  // guards thread_
  std::thread thread_;
};

}  // namespace delayqueue::run
