// The parts of a consumer, and which thread does what.
#pragma once

#include "consumer/callback_scope.h"
#include "consumer/clock_monitor.h"
#include "consumer/lease_keeper.h"
#include "consumer/maintenance.h"
#include "consumer/prefetcher.h"
#include "consumer/reconnect_backoff.h"
#include "consumer/round_trip.h"
#include "consumer/settler.h"
#include "consumer/wakeup_listener.h"
#include "os/interrupt.h"
#include "queue/endpoint.h"
#include "queue/event_sink.h"
#include "queue/server_risks.h"
#include "queue/write_concern.h"
#include "run/loop.h"
#include "run/worker_pool.h"
#include "store/moves.h"

#include <delayqueue/consumer.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace delayqueue {

// A message's way through here: one trip to Redis takes it, the next brings its body, and it is put into a worker's line;
// handle() runs the handler in that worker's thread; another trip settles it. Everything but handle() runs in the loop's thread.
class Consumer::Impl {
 public:
  Impl(const std::string& url, const std::string& queue, Handler handler, ConsumerOptions options);
  ~Impl();

  void start();
  void run();
  bool stop(milliseconds deadline);
  ConsumerStats stats() const;

  // Whether its handler or callback runs in this thread. In a fork made there, no thread is the consumer's.
  bool is_in_callback() const { return CallbackScope::current() == this && process_ == internal::this_process(); }

 private:
  using Workers = run::WorkerPool<DeliveryPtr>;
  class Turn;

  // ---- Of start() ----
  void connect_first();
  void read_first();

  // ---- In the loop's thread ----
  run::Loop::Rest step();
  void connect();
  run::Loop::Rest tick();
  void start_round_trips(bool stopping);
  void send(Purpose purpose);
  void add_settling(RoundTrip& round_trip);
  void add_taking(RoundTrip& round_trip);
  void add_the_rest(RoundTrip& round_trip);
  void finish_round_trip();
  void read(const RoundTrip& round_trip);
  void collect_done();
  void expire_overrunning();
  Prefetcher::Load worker_load() const;
  void read_settled();
  void read_durable(const RoundTrip& round_trip);
  void read_renewals();
  void read_reclaimed(const store::Reclaimed& reclaimed);
  void read_promoted(const store::Promoted& promoted);
  void read_taken();
  void read_fetched();
  void warn_expired(const std::string& id);
  void warn_foreign(const std::string& id);
  bool give_back_unstarted();
  bool must_wake_another(bool found);
  run::Loop::Rest rest();
  void on_recovered();
  run::Loop::Rest on_failure(const std::exception& e);
  ReconnectBackoff::Pauses pauses_after(const std::exception& e) const;
  void note_drained();
  void replace_worker(Delivery& delivery);
  void event(EventKind kind, const std::vector<std::string>& ids);
  void event(EventKind kind, const std::vector<DeliveryPtr>& deliveries);

  // ---- In a worker's thread ----
  bool handle(Delivery& delivery);
  Verdict call_handler(const Message& message);

  const long process_ = internal::this_process();
  const ConsumerOptions options_;
  const Handler handler_;
  const std::string id_;  // of this consumer, among all consumers
  Endpoint endpoint_;
  const store::Store store_;
  const WriteConcern write_concern_;
  EventSink event_sink_;

  // Of the loop's thread.
  std::unique_ptr<redis::Connection> connection_;
  RoundTrips round_trips_;  // over connection_
  WakeupListener wakeup_listener_;
  LeaseKeeper lease_keeper_;
  Settler settler_;
  Prefetcher prefetcher_;
  Maintenance maintenance_;
  RiskWatch risk_watch_;
  ClockMonitor clock_monitor_;
  std::size_t with_workers_ = 0;         // given to hands_, not yet back
  std::vector<std::string> to_persist_;  // given up; their bodies' TTL is to be taken off
  LeaseKeeper::Clock::time_point promote_due_, reclaim_due_, reclaim_from_, expired_warning_due_;
  ReconnectBackoff reconnect_backoff_;
  bool below_durability_ = false;    // verdicts are not as durable as asked for
  bool overflow_signalled_ = false;  // others know that there is too much for us
  bool wake_another_ = false;        // another consumer, with the next trip
  bool clear_wake_ = false;          // another program wrote into it
  bool foreign_warned_ = false;
  bool is_watcher_ = false;    // for what is due next: others rely on us
  bool keeping_free_ = false;  // a worker is kept free for retry

  std::atomic<std::uint64_t> delivered_{0}, acked_{0}, nacked_{0}, snoozed_{0}, stale_{0}, expired_{0}, foreign_{0},
      unconfirmed_{0}, connects_{0}, errors_{0};
  std::atomic<bool> connected_{false};
  mutable std::mutex error_mutex_;  // guards last_error_
  std::string last_error_;
  std::atomic<bool> stopping_{false};

  std::mutex state_mutex_;  // guards turn_taken_, drained_, asked_to_stop_, stopped_
  std::condition_variable state_changed_;
  bool turn_taken_ = false;     // by a start() or stop()
  bool drained_ = false;        // stopping, and nothing is left to settle
  bool asked_to_stop_ = false;  // by a handler
  bool stopped_ = false;
  bool clean_ = true;     // what stop() answered
  bool started_ = false;  // of the one that has the turn, as is workers_
  std::unique_ptr<Workers> workers_;
  Interrupt interrupt_;       // raised when stop() waits no longer
  std::thread first_thread_;  // the first attempt to connect; what it uses is the loop's once it was joined
  std::future<void> first_;   // what became of it
  run::Loop loop_;            // last: its thread uses all above
};

}  // namespace delayqueue
