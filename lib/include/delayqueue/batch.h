// Batches: a handler for several messages at once. A layer over Delivery, of this header only.
#pragma once

#include <delayqueue/delivery.h>
#include <delayqueue/error.h>
#include <delayqueue/types.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace delayqueue {

// The messages of one batch, in the order in which they were delivered: for (const Message& message : batch).
using MessageBatch = std::vector<std::reference_wrapper<const Message>>;

// Returns a verdict for each message, in their order. If it throws, or returns another number of verdicts, each message
// is nacked with that reason. It must neither destroy the consumer nor call its stop(): see Consumer::request_stop.
using BatchHandler = std::function<std::vector<Verdict>(const MessageBatch&)>;

struct BatchOptions {
  std::size_t size = 100;  // most messages of a batch; at least 1
  milliseconds wait{10};   // a batch that is not full is handled so long after its first message; at least 0
};

namespace internal {

// Collects deliveries. A full batch is handled in the thread that has added its last delivery, others in a thread of
// the batcher.
class Batcher {
 public:
  Batcher(BatchHandler handler, const BatchOptions& options) : handler_(std::move(handler)), options_(options) {
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
      if (waiting_.size() == options_.size) {
        full.swap(waiting_);
      } else if (waiting_.size() == 1) {
        due_ = std::chrono::steady_clock::now() + options_.wait;
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
    } catch (const std::exception& e) {
      failure = e.what();
    } catch (...) {
      failure = "the handler threw something that is no std::exception";
    }
    for (std::size_t i = 0; i < batch.size(); ++i) {
      static_cast<void>(std::move(batch[i]).settle(failure ? nack(*failure) : std::move(verdicts[i])));
    }
  }

  static MessageBatch messages_of(const std::vector<Delivery>& batch) {
    MessageBatch messages;
    messages.reserve(batch.size());
    for (const Delivery& delivery : batch) messages.emplace_back(delivery.message());
    return messages;
  }

  const BatchHandler handler_;
  const BatchOptions options_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<Delivery> waiting_;
  std::chrono::steady_clock::time_point due_;  // of waiting_
  bool ended_ = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace internal

// Returns a handler for a Consumer. It collects messages, and calls `handler` when `size` are there, or `wait` after
// the first of them:
//
//   ConsumerOptions options;
//   options.concurrency = 400;  // up to four batches of 100
//   Consumer worker(url, "orders", in_batches(insert_rows, {100, 10ms}), options);
//
// A message that waits for its batch takes one of the ConsumerOptions::concurrency places: with fewer places than
// `size` no batch gets full. Full batches are handled in the threads of the consumer, several at the same time. Others
// are handled one after the other in one further thread, which this call starts and the end of the consumer joins.
// stop() waits for the batches. If the consumer is destroyed while messages wait, they are delivered again when their
// leases end. ConsumerOptions::around surrounds the arrival of each message, not the handler of its batch.
//
// Throws std::invalid_argument, and SetupError if the system refuses the thread.
inline DeliveryHandler in_batches(BatchHandler handler, const BatchOptions& options = {}) {
  if (!handler) throw std::invalid_argument("handler: none; expected a function");
  if (options.size == 0) throw std::invalid_argument("size: 0; expected at least 1");
  if (options.wait < milliseconds(0) || options.wait > std::chrono::hours(24 * 365)) {
    throw std::invalid_argument("wait: " + std::to_string(options.wait.count()) + " ms; expected 0 ms to a year");
  }
  const auto batcher = std::make_shared<internal::Batcher>(std::move(handler), options);
  return [batcher](Delivery delivery) { batcher->add(std::move(delivery)); };
}

}  // namespace delayqueue
