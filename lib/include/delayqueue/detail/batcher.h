// The thread and the waiting messages behind in_batches(). Internal.
#pragma once

#include <delayqueue/version.h>

#include <delayqueue/error.h>
#include <delayqueue/handler.h>
#include <delayqueue/message.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace internal {

// Collects deliveries. A full batch is handled in the thread that has added its last delivery, others in a thread of
// the batcher.
class Batcher {
 public:
  using Messages = std::vector<std::reference_wrapper<const Message>>;
  using Handler = std::function<std::vector<Verdict>(const Messages&)>;

  Batcher(Handler handler, std::size_t size, milliseconds wait)
      : handler_(std::move(handler)), size_(size), wait_(wait) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& e) {
      throw SetupError(std::string("cannot start a thread for batches: ") + e.what());
    }
  }
  ~Batcher() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  void add(Delivery delivery) {
    std::vector<Delivery> full;
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(delivery));
      if (waiting_.size() == size_) {
        full.swap(waiting_);
      } else if (waiting_.size() == 1) {
        due_ = std::chrono::steady_clock::now() + wait_;
        changed_.notify_one();
      }
    }
    if (!full.empty()) handle(std::move(full));
  }

 private:
  // Handles the batches that did not get full in time.
  void run() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      if (waiting_.empty()) {
        changed_.wait(lock);
      } else if (std::chrono::steady_clock::now() < due_) {
        changed_.wait_until(lock, std::chrono::steady_clock::time_point(due_));  // a copy: add() may change it
      } else {
        std::vector<Delivery> batch = std::exchange(waiting_, {});
        lock.unlock();
        handle(std::move(batch));
        lock.lock();
      }
    }
  }

  void handle(std::vector<Delivery> batch) const {
    std::vector<Verdict> verdicts;
    std::optional<std::string> failure;
    try {
      verdicts = handler_(messages_of(batch));
      if (verdicts.size() != batch.size()) {
        failure = "the handler returned " + std::to_string(verdicts.size()) + " instead of " +
                  std::to_string(batch.size()) + " verdicts";
      }
    } catch (...) {
      failure = current_exception_text();
    }
    for (std::size_t i = 0; i < batch.size(); ++i) {
      static_cast<void>(std::move(batch[i]).settle(failure ? nack(*failure) : std::move(verdicts[i])));
    }
  }

  static Messages messages_of(const std::vector<Delivery>& batch) {
    Messages messages;
    messages.reserve(batch.size());
    for (const Delivery& delivery : batch) messages.emplace_back(delivery.message());
    return messages;
  }

  const Handler handler_;
  const std::size_t size_;
  const milliseconds wait_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<Delivery> waiting_;
  std::chrono::steady_clock::time_point due_;  // of waiting_
  bool ended_ = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
