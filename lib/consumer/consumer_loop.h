// The loop of a consumer: step by step, moves what is due, takes messages, passes them to the handlers, and settles
// their verdicts.
#pragma once

#include "consumer/handlers.h"
#include "consumer/intake.h"
#include "consumer/lane.h"
#include "consumer/link.h"
#include "consumer/plan.h"
#include "consumer/report.h"
#include "consumer/served_queue.h"
#include "consumer/servers.h"
#include "consumer/wakeups.h"
#include "os/interrupt.h"
#include "run/loop.h"
#include "run/turns.h"

#include <delayqueue/consumer.h>
#include <delayqueue/metrics.h>

#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

// The way of a message: one round trip takes it, the next one fetches its body, a worker thread runs the handler, and a
// further round trip settles it.
//
// A round trip has one of two purposes: to take (bodies of messages taken before, moves of what is due, the take), or
// to settle (verdicts, lease renewals, upkeep). At most one that settles is under way, and up to three that take: Redis
// works on one while the loop works on the answers of another. The two purposes are independent but for the order: the
// consumer's leases are renewed before ended ones are taken back. After a failure, and while the consumer stops, only
// one round trip is under way at a time.
//
// Each partition of a queue is a Lane. All lanes of a server add their requests to the same round trips, so a step is
// one write for each server, with any number of queues. They share the workers, and a bound of the messages that the
// consumer holds. In each step plan() says what all of them take, and the loop carries it out. The rest after a step
// ends when bytes arrive, when a handler returns whose verdict may be sent, or at the deadline of an answer.
//
// One thread at a time uses it: that of start() or the first connection, then the loop's, then that of stop(). Any
// thread may call metrics(), stop_taking() and is_stopping() at any time.
class ConsumerLoop {
 public:
  struct Callbacks {
    const void* scope = nullptr;    // see CallbackScope
    std::function<void()> wake;     // called in any thread: step() has something to do
    std::function<void()> drained;  // after stop_taking(): nothing is left to settle; may be called repeatedly
  };

  // Connects to nothing yet. Throws std::invalid_argument.
  ConsumerLoop(const Client& client, std::vector<Subscription> subscriptions, ConsumerOptions options,
               Callbacks callbacks);

  // Connects, and checks that the keys of the queues have their types. Throws what the library's calls throw. If Redis
  // refuses some of several queues, that is logged; it throws if it refuses all.
  void connect_first();

  // Makes the worker threads. Throws SetupError; then it has made none.
  void on_started();  // of the consumer, for metrics()
  void start_workers() { handlers_.start(options_.tuning.threads, options_.concurrency); }

  // One step of the Loop: connects if needed, makes the plan, sends round trips, and reads those that were answered.
  // Returns the pause before the next step, and what ends it.
  run::Loop::Pause step();

  // Reports the failure of a step, or of the first connection. Returns the pause before the next attempt.
  run::Loop::Pause on_failure(const redis::Failure& failure);

  // From now on no more messages are taken and no handler begins. Messages whose handler has not begun are released.
  void stop_taking() {
    stopping_ = true;
    stop_began_.raise();
  }
  bool is_stopping() const { return stopping_; }

  // After the last step: no verdict of a Delivery is accepted any more.
  void refuse_verdicts() { handlers_.refuse_verdicts(); }
  void disconnect();

  // Waits until all handlers have returned.
  void join_handlers() { handlers_.close(); }

  ConsumerMetrics metrics() const;

 private:
  void add_lane(ServedQueue& queue, unsigned partition);
  void add_missing_lanes();
  template <class Act>
  void for_each_server(Act act);
  void prepare(LaneServer& server);
  planning::Snapshot read_snapshot();
  void make_plan();
  void do_round_trips(LaneServer& server);
  bool has_connection(LaneServer& server);
  bool holds_nothing(const LaneServer& server) const;
  bool needs_no_connection(const LaneServer& server) const;
  void begin_stop();
  bool has_begun_stop() const { return wakeup_listeners_.has_left(); }
  run::Loop::Pause plan_pause();
  bool plan_idle(LaneServer& server, Lane::Clock::time_point& next);

  // Round trips.
  void start_round_trips(LaneServer& server);
  void send(LaneServer& server, Purpose purpose);

  Reporter& common_reporter();
  void collect_done();
  void release_unstarted(const LaneServer& server);
  void report_connected();
  void report_if_drained();

  const ConsumerOptions options_;
  const std::string id_;  // of this consumer, among all consumers
  const std::function<void()> drained_;
  std::atomic<bool> stopping_{false};
  Interrupt stop_began_;  // ends attempts to connect that a consumer that stops does not need

  std::optional<Reporter> own_reporter_;  // with several queues: for what concerns all of them
  PoisonRuns poison_runs_;
  Handlers handlers_;
  BackgroundCalls calls_;
  BackgroundCalls fetches_;  // of payloads that are fetched alone
  std::deque<ServedQueue> queues_;
  std::deque<Lane> lanes_;
  WakeupListeners wakeup_listeners_;
  std::vector<std::vector<InFlightPtr>> unstarted_;  // while stopping, of each lane: to be released
  LaneServers servers_;                              // after the lanes, which their round trips refer to
  run::Turns turns_;                                 // of the queues, by the messages that they have taken
  planning::Plan plan_;                              // of this step
};

}  // namespace delayqueue
