// The thread behind AsioProducer. Internal.
#pragma once

#include <delayqueue/error.h>
#include <delayqueue/types.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace delayqueue::internal {

// Waits for the results of sends, and passes each on. Any thread may add one.
class SendResults {
 public:
  using Callback = std::function<void(std::exception_ptr, const Sent&)>;

  // Throws SetupError if the system refuses the thread.
  SendResults() {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& e) {
      throw SetupError(std::string("cannot start a thread for the results of sends: ") + e.what());
    }
  }
  // Waits for the results of all sends, and passes them on.
  ~SendResults() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  SendResults(const SendResults&) = delete;
  SendResults& operator=(const SendResults&) = delete;

  // `complete` is called with the result, or the error, in the thread of this object. It must not throw.
  void add(std::future<Sent> result, Callback complete) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(result), std::move(complete)});
    changed_.notify_one();
  }

 private:
  struct Waiting {
    std::future<Sent> result;
    Callback complete;
  };

  // The results arrive in the order of the sends, as far as one thread sends.
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      Waiting first = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      pass_on(first);
      lock.lock();
    }
  }

  static void pass_on(Waiting& waiting) {
    std::exception_ptr error;
    Sent sent;
    try {
      sent = waiting.result.get();
    } catch (...) {
      error = std::current_exception();
    }
    waiting.complete(error, sent);
  }

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace delayqueue::internal
