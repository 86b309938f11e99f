// A call in another thread, so that a server that does not answer does not delay the consumer's loop.
#pragma once

#include "os/interrupt.h"
#include "os/resources.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <utility>

namespace delayqueue {

// The background calls of a consumer.
struct BackgroundCalls {
  static constexpr std::size_t kMost = 4;  // at the same time

  std::function<void()> wake{};         // called in the thread of a call when that has ended
  std::atomic<std::size_t> running{0};  // a call that has ended does not count, also before finish()
};

// Used by the consumer's thread only, except for the call itself. A call that is under way when the consumer stops is
// interrupted.
template <class Result>
class BackgroundCall {
 public:
  explicit BackgroundCall(BackgroundCalls& calls) : calls_(calls) {}
  ~BackgroundCall() { wait(); }
  BackgroundCall(const BackgroundCall&) = delete;
  BackgroundCall& operator=(const BackgroundCall&) = delete;

  // `most`: with this call, of all that run.
  bool may_start(std::size_t most = BackgroundCalls::kMost) const { return !is_started() && calls_.running < most; }

  // Throws SetupError.
  void start(std::function<Result()> call) {
    std::packaged_task<Result()> task([call = std::move(call), interrupt = Interrupt::current()] {
      std::optional<Interrupt::Scope> until;
      if (interrupt != nullptr) until.emplace(*interrupt);
      return call();
    });
    std::future<Result> result = task.get_future();
    thread_ = start_thread("a connection", [task = std::move(task), &calls = calls_]() mutable {
      task();
      --calls.running;
      calls.wake();
    });
    ++calls_.running;  // perhaps after its end; only this thread reads it
    result_ = std::move(result);
  }

  bool is_started() const { return result_.valid(); }
  bool has_ended() const {
    return is_started() && result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  // Whether a thread has to end first: that of this call; or any, if BackgroundCalls::kMost run.
  bool is_waiting() const { return is_started() ? !has_ended() : !may_start(); }

  // Waits for the end of the call. Returns its result, or throws what it threw.
  Result finish() {
    wait();
    return result_.get();
  }

  void wait() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  BackgroundCalls& calls_;
  std::thread thread_;
  std::future<Result> result_;
};

}  // namespace delayqueue
