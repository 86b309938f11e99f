// Runs handlers in worker threads.
#pragma once

#include "consumer/counters.h"
#include "consumer/in_flight_message.h"
#include "consumer/prefetcher.h"
#include "queue/event_sink.h"
#include "run/worker_pool.h"

#include <delayqueue/consumer.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace delayqueue {

// Used by the consumer's thread only. handle() and call_handler() run in the workers.
class HandlerRunner {
 public:
  // `scope`: the value of CallbackScope::current() while a handler runs. Calls `wake` in a worker's thread when
  // take_done() becomes non-empty. Once `stopping` is true, no handler begins.
  HandlerRunner(Handler handler, const void* scope, std::function<void()> wake, const std::atomic<bool>& stopping,
                Counters& counters)
      : handler_(std::move(handler)), scope_(scope), wake_(std::move(wake)), stopping_(stopping), counters_(counters) {}

  // Makes the worker threads. Throws SetupError; then it has made none.
  void start(std::size_t workers);

  void run(Prefetcher::Fetched fetched);
  bool empty() const { return given_ == 0; }
  run::WorkerLoad load() const { return workers_->load(); }

  // While on, one worker runs redelivered messages only.
  void keep_one_free(bool on);

  // Deliveries whose handlers have returned since the last call.
  std::vector<InFlightPtr> take_done();

  // Removes the deliveries whose handlers have not begun, and returns them.
  std::vector<InFlightPtr> take_back();

  // Adds a worker in place of one whose handler goes on without its lease, so that other deliveries do not wait for it.
  void replace_worker(InFlightMessage& delivery, const EventSink& log);

  // Waits until all running handlers have returned, and ends the threads.
  void close() { workers_.reset(); }

 private:
  using Workers = run::WorkerPool<InFlightPtr>;

  bool handle(InFlightMessage& delivery) const;
  Verdict call_handler(const Message& message) const;

  const Handler handler_;
  const void* const scope_;
  const std::function<void()> wake_;
  const std::atomic<bool>& stopping_;
  Counters& counters_;
  std::size_t given_ = 0;  // to the workers, and not returned yet
  bool keeps_one_free_ = false;
  std::unique_ptr<Workers> workers_;
};

}  // namespace delayqueue
