// The loop of a consumer: tick by tick, moves what is due, takes messages, passes them to the handlers, and settles
// their verdicts.
#pragma once

#include "consumer/consumer_connection.h"
#include "consumer/handler_runner.h"
#include "consumer/lease_keeper.h"
#include "consumer/maintenance.h"
#include "consumer/poison_guard.h"
#include "consumer/prefetcher.h"
#include "consumer/reporter.h"
#include "consumer/round_trip.h"
#include "consumer/settler.h"
#include "consumer/shared_capacity.h"
#include "consumer/timers.h"
#include "consumer/verdict_durability.h"
#include "consumer/wakeups.h"
#include "queue/endpoint.h"
#include "run/loop.h"
#include "store/moves.h"

#include <delayqueue/consumer.h>

#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace delayqueue {

// The way of a message: one round trip takes it, the next one fetches its body, a worker thread runs the handler, and a
// further round trip settles it. Under load two round trips are under way: Redis works on one while the loop works on
// the answers of the other.
//
// One thread at a time uses it: that of start() or the first connection, then the loop's, then that of stop(). Any
// thread may call stats(), stop_taking() and is_stopping() at any time.
class ConsumerLoop {
 public:
  struct Callbacks {
    const void* scope = nullptr;    // see CallbackScope
    std::function<void()> wake;     // called in any thread: step() has something to do
    std::function<void()> drained;  // after stop_taking(): nothing is left to settle; may be called repeatedly
  };

  // Connects to nothing yet. Throws std::invalid_argument.
  ConsumerLoop(const std::string& url, const std::string& queue, AnyHandler handler, ConsumerOptions options,
               Callbacks callbacks);

  // Connects, and checks that the keys of the queue have their types. Throws what the library's calls throw.
  void connect_first();

  // Makes the worker threads. Throws SetupError; then it has made none.
  void start_workers() { handlers_.start(options_.threads, options_.concurrency); }

  // One step of the Loop: connects if needed, then does one tick. Returns the pause before the next step, and what ends
  // it.
  run::Loop::Pause step();

  // Reports the failure of a tick, or of the first connection. Returns the pause before the next attempt.
  run::Loop::Pause on_failure(const std::exception& e);

  // From now on no more messages are taken and no handler begins. Messages whose handler has not begun are given back.
  void stop_taking() { stopping_ = true; }
  bool is_stopping() const { return stopping_; }

  // After the last step: no verdict of a Delivery is accepted any more.
  void refuse_verdicts() { handlers_.refuse_verdicts(); }
  void disconnect();

  // Waits until all handlers have returned.
  void join_handlers() { handlers_.close(); }

  ConsumerStats stats() const { return reporter_.counters().stats(); }

 private:
  void connect();
  run::Loop::Pause tick();
  // Returns the pause before the next step. Begins to listen for a wake-up if there is room.
  run::Loop::Pause plan_pause(bool finished);

  // Round trips.
  bool is_one_at_a_time() const;
  bool may_start(bool Purpose::*purpose) const;
  void start_round_trips();
  void send(Purpose purpose);
  bool finish_round_trip();

  // The requests of a round trip.
  std::size_t add_settling(RoundTrip& round_trip);
  void add_taking(RoundTrip& round_trip);
  bool add_reclaim(RoundTrip& round_trip);
  void add_promote(RoundTrip& round_trip, const WorkerShare& share);

  // What is done with their answers.
  void on_settled(const Settler::Outcome& outcome);
  void on_lost(const std::vector<InFlightPtr>& lost);
  void on_reclaimed(const store::Reclaimed& reclaimed);
  void on_promoted(const store::Promoted& promoted);
  void on_taken(const Prefetcher::Taken& taken);
  void on_fetched(Prefetcher::Fetched fetched);

  WorkerShare share();
  void collect_done();
  void expire_overrunning();
  bool give_back_unstarted();
  void report_if_drained();

  const ConsumerOptions options_;
  const std::string id_;  // of this consumer, among all consumers
  const std::function<void()> drained_;
  Endpoint endpoint_;
  const store::Store store_;
  std::atomic<bool> stopping_{false};

  Reporter reporter_;
  VerdictDurability verdict_durability_;
  ConsumerConnection connection_;
  Timers timers_;
  Wakeups wakeups_;
  LeaseKeeper lease_keeper_;
  Settler settler_;
  PoisonRuns poison_runs_;
  Prefetcher prefetcher_;
  SharedCapacity capacity_;
  Maintenance maintenance_;
  HandlerRunner handlers_;
  RoundTrips round_trips_;  // last: what they drop goes to the members above
};

}  // namespace delayqueue
