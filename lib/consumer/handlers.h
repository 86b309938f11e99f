// Runs handlers in worker threads, and collects their verdicts.
#pragma once

#include "consumer/intake.h"
#include "consumer/report.h"
#include "queue/event_sink.h"
#include "run/worker_pool.h"

#include <delayqueue/consumer.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

inline namespace DELAYQUEUE_ABI {
namespace internal {

// In the WorkerPool the deliveries of each queue wait in a queue of their own. Used by the consumer's thread only.
// handle() and what it calls run in the workers.
class Handlers {
 public:
  struct Done {
    std::vector<InFlightPtr> deliveries{};  // they have their verdict
    std::vector<std::size_t> returned{};    // of each lane: number of handlers that have returned
  };

  // `scope`: the value of CallbackScope::current() while a handler runs. Calls `wake` in any thread when there is
  // something for take_done(), and when a callback has ended. Once `stopping` is true, no handler begins. `strict`: see
  // run::Turns. `middleware`: may be empty.
  Handlers(const void* scope, std::function<void()> wake, const std::atomic<bool>& stopping, bool strict,
           Middleware middleware);

  // Adds a queue, and returns its number: 0, 1 ... Call it before start().
  std::size_t add_queue(Handler handler, Counters& counters, const run::WorkerQueue& queue);

  // Makes the worker threads. At most `places` deliveries are outstanding. Throws SetupError; then it has made none.
  void start(std::size_t threads, std::size_t places);

  // Runs the handlers of the first and of the redelivered messages. Throws std::bad_alloc: then those that are still in
  // `fetched` were not passed on, and no worker has them.
  void run(BodyFetcher::Fetched& fetched, std::size_t queue);
  bool empty() const { return given_ == 0 && (workers_ == nullptr || !workers_->has_calls()); }
  void read_loads(std::vector<run::WorkerLoad>& loads) const;
  // Handlers that run; of queues whose handler settles later: deliveries that are outstanding.
  std::size_t running() const;

  // While on, one worker runs redelivered messages only, unless the queue may run no more.
  void keep_one_free(bool on, std::size_t queue);

  // Returns the handlers and deliveries that have ended since the last call.
  Done take_done();

  // Removes the deliveries whose handlers have not begun, and returns them.
  std::vector<InFlightPtr> dequeue_all();
  // The same for those of one lane of this queue. After a verdict that pauses the queue its handlers begin no more
  // until this call: the deliveries are released instead.
  std::vector<InFlightPtr> dequeue(std::size_t queue, std::size_t lane);

  // Lets another delivery begin in place of one that goes on without its lease, or whose handler hangs, so that others
  // do not wait for it: frees its place, and adds a worker if its handler still runs. A queue whose handler settles
  // later has no room while more such deliveries of it are outstanding than it may have.
  void lose_place(InFlightMessage& delivery, const EventSink& log);

  // Returns deliveries of this lane that have a verdict, and whose handlers have been running for longer than `most`:
  // each once. The LeaseKeeper does not hold them any more.
  std::vector<InFlightPtr> take_hanging(std::size_t lane, milliseconds most);

  // Whether take_hanging() may return some later.
  bool may_hang() const { return !settled_first_.empty(); }

  // Calls the delivery's callback in a worker, if it has one.
  void call_back(InFlightMessage& delivery, Settlement settlement);

  struct Warning {
    std::size_t queue;  // its number
    std::string text;
    std::string message_id;
  };

  // Warnings since the last call, about exceptions of handlers and callbacks that are not the reason of a nack.
  std::vector<Warning> warnings();

  // From now on no verdict is accepted. Call neither run() nor take_done() after it.
  void refuse_verdicts();

  // Waits until all running handlers and callbacks have returned, and ends the threads.
  void close() { workers_.reset(); }

 private:
  using Workers = run::WorkerPool<InFlightPtr>;

  struct Queue {
    Queue(Handler of, Counters& counts, std::size_t limit) : handler(std::move(of)), counters(&counts), most(limit) {}

    Handler handler;
    Counters* counters;
    std::size_t most;      // deliveries that are outstanding
    std::size_t lost = 0;  // deliveries that have not ended, and whose places were freed: see lose_place()
    bool keeps_one_free = false;
    std::atomic<bool> holds_off{false};  // until dequeue()
    // The deliveries whose handlers have begun, and that have not ended, in this order: a list through begun_after.
    InFlightMessage* first_begun = nullptr;
    InFlightMessage* last_begun = nullptr;

    bool settles_later() const { return handler.settles_later(); }
  };

  run::WorkResult handle(const InFlightPtr& delivery);
  void push_begun(InFlightMessage& delivery);
  // What it returns is set: optional, because handle() moves it on as it is.
  std::optional<Verdict> verdict_of(const Handler& handler, const Message& message) const;
  StageChange pass_delivery(const Handler& handler, const InFlightPtr& delivery);
  template <class MakeWarning>
  void warn(const MakeWarning& make);
  void ended(InFlightMessage& delivery);
  void list_begun();
  void unlist_begun(InFlightMessage& delivery);
  void measure_longest();

  const void* const scope_;
  const std::function<void()> wake_;
  const std::atomic<bool>& stopping_;
  const bool strict_;
  const Middleware middleware_;
  const std::shared_ptr<VerdictInbox> inbox_;
  std::deque<Queue> queues_;
  std::vector<run::WorkerQueue> worker_queues_;
  std::atomic<InFlightMessage*> begun_{nullptr};  // since list_begun(), the last one first: through begun_before
  std::size_t given_ = 0;                         // to the workers, and not ended yet
  std::set<InFlightPtr> settled_first_;  // with a verdict, but their handlers have not returned, nor been replaced
  std::mutex warnings_mutex_;            // guards warnings_
  std::vector<Warning> warnings_;
  std::unique_ptr<Workers> workers_;  // last: its threads use the members above
};

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
using internal::Handlers;

}  // namespace delayqueue
