// Batches: a handler for several messages at once. Header-only, over Delivery.
#pragma once

#include <delayqueue/version.h>

#include <delayqueue/detail/batcher.h>
#include <delayqueue/handler.h>
#include <delayqueue/message.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

// The messages of one batch, in the order of their delivery: for (const Message& message : batch).
using MessageBatch = std::vector<std::reference_wrapper<const Message>>;

// Returns a verdict for each message, in their order. If it throws, or returns another number of verdicts, all messages
// are nacked with that as reason. It must neither destroy the consumer nor call its stop(): see Consumer::request_stop.
using BatchHandler = std::function<std::vector<Verdict>(const MessageBatch&)>;

struct BatchOptions {
  std::size_t size = 100;  // most messages of a batch; at least 1
  milliseconds wait{10};   // from the first message of a batch until it is handled, if it is not full; at least 0
};

// Returns a handler for a Consumer. It collects messages, and calls `handler` when `size` are there, or `wait` after
// the first of them:
//
//   ConsumerOptions options;
//   options.concurrency = 400;  // up to four batches of 100
//   Consumer worker(url, "orders", in_batches(insert_rows, {100, 10ms}), options);
//
// A message that waits for its batch takes one of the ConsumerOptions::concurrency places: with fewer places than
// `size` no batch gets full.
//
// Threads: full batches are handled in the threads of the consumer, several at the same time. Others are handled one
// after the other in one further thread, which this call starts and the end of the consumer joins.
// ConsumerOptions::middleware surrounds the arrival of each message, not the handler of its batch.
//
// stop() waits for the batches. If the consumer is destroyed while messages wait, they are delivered again when their
// leases end.
//
// Throws std::invalid_argument, and SetupError if the system refuses the thread.
template <class Function>
Handler in_batches(Function function, const BatchOptions& options = {}) {
  constexpr bool kHandles = std::is_constructible_v<BatchHandler, Function>;
  static_assert(kHandles,
                "handler: it must be a function of a const delayqueue::MessageBatch& that returns a "
                "std::vector<Verdict>, one for each message, and be copyable");
  BatchHandler handler;
  if constexpr (kHandles) handler = std::move(function);
  if (!handler) throw std::invalid_argument("handler: none; expected a function");
  if (options.size == 0) throw std::invalid_argument("size: 0; expected at least 1");
  if (options.wait < milliseconds(0) || options.wait > std::chrono::hours(24 * 365)) {
    throw std::invalid_argument("wait: " + std::to_string(options.wait.count()) + " ms; expected 0 ms to a year");
  }
  const auto batcher = std::make_shared<internal::Batcher>(std::move(handler), options.size, options.wait);
  return [batcher](Delivery delivery) { batcher->add(std::move(delivery)); };
}

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
