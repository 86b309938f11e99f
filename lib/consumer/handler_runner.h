// Runs handlers in worker threads, and collects their verdicts.
#pragma once

#include "consumer/counters.h"
#include "consumer/in_flight_message.h"
#include "consumer/prefetcher.h"
#include "consumer/verdict_inbox.h"
#include "queue/event_sink.h"
#include "run/worker_pool.h"

#include <delayqueue/consumer.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace delayqueue {

// Returns its verdict, or owns a Delivery that is settled later.
using AnyHandler = std::variant<Handler, DeliveryHandler>;

// Used by the consumer's thread only. handle() and what it calls run in the workers.
class HandlerRunner {
 public:
  struct Done {
    std::vector<InFlightPtr> deliveries{};  // they have their verdict
    std::size_t returned = 0;               // number of handlers that have returned
  };

  // `scope`: the value of CallbackScope::current() while a handler runs. Calls `wake` in any thread when there is
  // something for take_done(), and when a callback has ended. Once `stopping` is true, no handler begins.
  HandlerRunner(AnyHandler handler, const void* scope, std::function<void()> wake, const std::atomic<bool>& stopping,
                Counters& counters);

  // Makes the worker threads. At most `places` deliveries are outstanding. Throws SetupError; then it has made none.
  void start(std::size_t threads, std::size_t places);

  void run(Prefetcher::Fetched fetched);
  bool empty() const { return given_ == 0 && (workers_ == nullptr || !workers_->has_calls()); }
  run::WorkerLoad load() const;

  // While on, one worker runs redelivered messages only.
  void keep_one_free(bool on);

  // Returns the handlers and deliveries that have ended since the last call.
  Done take_done();

  // Removes the deliveries whose handlers have not begun, and returns them.
  std::vector<InFlightPtr> take_back();

  // Lets another delivery begin in place of one that goes on without its lease, so that others do not wait for it:
  // frees its place, and adds a worker if its handler still runs. With a DeliveryHandler load() has no room while more
  // such deliveries are outstanding than there are places.
  void refill(InFlightMessage& delivery, const EventSink& log);

  // Calls the delivery's callback in a worker, if it has one.
  void call_back(InFlightMessage& delivery, Settlement settlement);

  // Warnings since the last call, about exceptions of handlers and callbacks that are not the reason of a nack.
  std::vector<std::string> warnings();

  // From now on no verdict is accepted.
  void refuse_verdicts() { inbox_->close(); }

  // Waits until all running handlers and callbacks have returned, and ends the threads.
  void close() { workers_.reset(); }

 private:
  using Workers = run::WorkerPool<InFlightPtr>;

  run::WorkResult handle(const InFlightPtr& delivery);
  Verdict call(const Handler& handler, const Message& message) const;
  void call(const DeliveryHandler& handler, const InFlightPtr& delivery);
  void warn(std::string line);
  void ended(const InFlightMessage& delivery);

  const AnyHandler handler_;
  const bool settles_later_;
  const void* const scope_;
  const std::function<void()> wake_;
  const std::atomic<bool>& stopping_;
  Counters& counters_;
  const std::shared_ptr<VerdictInbox> inbox_;
  std::size_t most_lost_ = 0;
  std::size_t lost_ = 0;   // outstanding deliveries whose places were freed because they lost their leases
  std::size_t given_ = 0;  // to the workers, and not ended yet
  bool keeps_one_free_ = false;
  std::mutex warnings_mutex_;  // guards warnings_
  std::vector<std::string> warnings_;
  std::unique_ptr<Workers> workers_;  // last: its threads use the members above
};

}  // namespace delayqueue
