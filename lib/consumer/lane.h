// A lane: one complete set of the keys of a queue, as one consumer works on it: those of one partition. Used by the
// consumer's thread only.
#pragma once

#include "consumer/clock_monitor.h"
#include "consumer/handlers.h"
#include "consumer/holdings.h"
#include "consumer/intake.h"
#include "consumer/link.h"
#include "consumer/plan.h"
#include "consumer/recurring.h"
#include "consumer/report.h"
#include "consumer/served_queue.h"
#include "consumer/upkeep.h"
#include "consumer/wakeups.h"
#include "queue/endpoint.h"
#include "queue/health.h"
#include "store/moves.h"

#include <delayqueue/client.h>
#include <delayqueue/consumer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

// ---- LaneHealth -----------------------------------------------------------------------------------------------------

// Whether the requests of a lane succeed, and when it tries again after Redis refused one.
//
// A lane joins a connection with its first requests there. When one of its requests is refused, the lane pauses, and no
// other does.
class LaneHealth {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LaneHealth(const ServedPartition& partition) : partition_(partition) {}

  LaneRequests& requests() { return requests_; }

  // Whether it uses the connection of its server.
  bool has_joined() const { return health_.state() != Health::away; }
  // Its first requests there succeeded.
  void join() { health_.join(); }
  // The connection was lost, or replaced.
  void leave();

  // Whether its requests have succeeded since the last failure.
  bool works() const { return health_.works(); }

  // The time until the next attempt; not positive: now.
  Clock::duration pause() const { return health_.pause(); }
  void retry_now() { health_.retry_now(); }

  // What the lane may add to a round trip with this purpose. After a failure it has requests in one round trip at a
  // time, until one succeeds.
  Purpose purpose_in(Purpose round_trip, bool stopping) const;

  // Reports that the server `where` refused a request. `lease`: of the messages that the lane holds; unset: there are
  // none.
  void fail(const redis::Failure& failure, const std::string& where, std::optional<milliseconds> lease);

  // To be called when round trips have finished, and none of its requests was refused: reports that it works again.
  // `holds_back`: there are refused verdicts that wait, so that a success does not show that Redis accepts them.
  void read_success(const std::string& where, bool holds_back);

 private:
  const ServedPartition& partition_;
  HealthMonitor health_;
  LaneRequests requests_;
};

// ---- Lane -----------------------------------------------------------------------------------------------------------

// Everything that a consumer keeps for one partition of a queue. The lanes of a consumer share its workers, its bound
// of messages and the connection to their server; each adds its requests to the round trips of that connection. When
// Redis refuses a request of a lane, this lane pauses, and no other does.
class Lane {
 public:
  using Clock = std::chrono::steady_clock;

  // `number`: of the lane, among those of the consumer. `entry_interval`: see RegistryEntry. `fetches`: for payloads
  // that are fetched alone. Throws std::invalid_argument if the queue can have no such partition.
  Lane(ServedQueue& queue, unsigned partition, std::size_t number, const Maintenance::Rules& upkeep,
       milliseconds entry_interval, Handlers& handlers, PoisonRuns& poison_runs, BackgroundCalls& fetches);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  ServedQueue& queue() const { return partition_.queue; }
  unsigned partition() const { return partition_.number; }
  std::size_t number() const { return number_; }

  Endpoint& endpoint() { return partition_.endpoint; }
  const std::string& wake_key() const { return partition_.keys().wake; }
  const std::string& wakes_key() const { return partition_.keys().wakes; }  // of partition 0
  const std::string& stats_key() const { return partition_.keys().stats; }

  // ---- The connection and its failures.

  // Whether it uses the connection of its server. The first requests on a connection check the queue, and renew the
  // leases that are held: their answer decides which receipts are valid. The lane adds others after that.
  bool has_joined() const { return health_.has_joined(); }
  // Adds these first requests. `checks_types`: and one that fails if a key has a wrong type.
  void add_join(RoundTrip& round_trip, bool checks_types);
  // Whether its requests have succeeded since the last failure.
  bool works() const { return health_.works(); }
  // Whether it uses a connection, does not pause after a failure, and may take messages.
  bool may_take() const { return has_joined() && pause().count() <= 0 && copies_.may_take() && !holds_takes(); }

  // The connection was lost, or replaced.
  void leave();

  // Reports that a request of this lane was refused. The lane adds nothing until pause() is over.
  void failed(const redis::Failure& failure, const std::string& where);

  // The time until the next attempt; not positive: now.
  Clock::duration pause() const { return health_.pause(); }
  void retry_now() { health_.retry_now(); }

  // To be called when round trips have finished: reports that the lane failed, or that it works again. Returns whether
  // it failed.
  bool read_results(const std::string& where);

  // ---- The requests of a round trip.

  // What the lane may add to a round trip with this purpose.
  Purpose purpose_in(Purpose round_trip, bool stopping) const { return health_.purpose_in(round_trip, stopping); }
  LaneRequests& requests() { return health_.requests(); }

  // Adds verdicts and lease renewals, or add_join(). Returns the number of verdicts.
  std::size_t add_settling(RoundTrip& round_trip);
  // add_fetch() adds the fetch of bodies; add_take() what plan() says.
  void add_fetch(RoundTrip& round_trip) { bodies_.fetch(round_trip); }
  void advance_lone_fetches() { bodies_.advance_lone(works()); }
  void end_lone_fetches() { bodies_.end_lone(); }
  void add_take(RoundTrip& round_trip, const planning::Take& take);
  // Adds wake-ups, maintenance, events, and the entry in the registry of consumers.
  void add_upkeep(RoundTrip& round_trip, bool stopping);
  // Adds the removal of that entry, unless messages are held that may be delivered again.
  void add_removal(RoundTrip& round_trip);

  // Whether leases should have been renewed so long ago that they may end before the consumer has connected again.
  bool renewal_is_late() const;

  // Whether there are requests that should be sent at once.
  bool is_urgent(bool stopping) const;
  // When the lane has to add requests at the latest.
  Clock::time_point next_due(bool stopping) const;

  // ---- Taking messages.

  // What plan() has to know of it. `settles`: a round trip that settles may begin now.
  planning::LaneView view(bool settles);
  const AnswerTimes& answers() const { return answers_; }

  // Sets the time between two polls.
  void poll_every(milliseconds interval) { timers_.poll_every(interval); }
  // The WakeupListener has received a marker for this lane.
  void wake(const WakeupListener::Marker& marker) { wakeups_.receive(marker); }
  // Reads what it has received since the last call. `full`: it can take no more, or takes none because it stops.
  void read_wakeups(bool full);
  // A marker arrived that this consumer cannot use.
  void wake_another() { wakeups_.wake_another(); }
  // A marker may have been lost when this consumer stopped: its last requests leave another one if there are messages.
  void expect_lost_marker() { wakeups_.expect_lost_marker(); }
  // Reads the copy of the layout again soon; every lane does so from time to time.
  void read_layout_soon() { copies_.read_soon(); }
  // Moves may have run after the take that was to follow them.
  void promote_now() { timers_.promote_now(); }
  // Redis' clock has jumped forward, perhaps because one of the machines was suspended: what was to be done after some
  // time is due now.
  void clock_jumped();

  // ---- Handlers.

  // Takes deliveries that have a verdict now. So many handlers have returned since the last call.
  void accept_verdicts(const std::vector<InFlightPtr>& done, std::size_t returned);
  // Those whose handlers run for longer than processing_timeout lose their leases and places.
  void lose_overrunning();
  // Releases deliveries whose handlers have not begun, and those that wait for their bodies, as if they had never
  // been taken.
  void release_unstarted(std::vector<InFlightPtr> unstarted);
  // Releases at most so many messages that came too late, after other queues got their places.
  void release_late(std::size_t most);
  // While the consumer stops: whether nothing is left to settle.
  bool is_drained() const;

  ClockSample last_clock_sample() const { return lease_keeper_.last_sample(); }

 private:
  const ConsumerOptions& options() const { return queue().options; }
  Reporter& reporter() const { return queue().reporter; }
  bool has_too_many_verdicts() const;
  bool holds_takes() const { return recurring_ && recurring_->holds_takes(); }
  ConsumerActivity activity() const;
  void release(std::vector<InFlightPtr> unstarted, bool wakes_another);
  void release_paused();
  void stop_renewing(const BodyFetcher::Fetched& fetched);
  void use_turn(const planning::Take& take);
  void add_reclaim(RoundTrip& round_trip);
  void add_promote(RoundTrip& round_trip, const planning::Take& take);
  void add_lengths(RoundTrip& round_trip);
  void read_copies(RoundTrip& round_trip);

  // What is done with the answers.
  void on_settled(const Settler::Outcome& outcome);
  void on_lost(const std::vector<InFlightPtr>& lost);
  void on_reclaimed(const store::Reclaimed& reclaimed);
  void on_promoted(const store::Promoted& promoted, bool more);
  void on_taken(const Taker::Taken& taken);
  void on_fetched(BodyFetcher::Fetched fetched);
  void on_unfetched(const InFlightPtr& delivery, std::string reason);

  ServedPartition partition_;
  const std::size_t number_;
  Handlers& handlers_;
  Timers timers_;
  Wakeups wakeups_;
  LeaseKeeper lease_keeper_;
  Settler settler_;
  AnswerTimes answers_;
  BodyFetcher bodies_;
  Taker taker_;
  PrefetchSize prefetch_size_;
  Maintenance maintenance_;
  RegistryEntry registry_entry_;
  PartitionCopies copies_;
  std::optional<Recurring> recurring_;  // in partition 0
  LaneHealth health_;
  bool registers_ = false;       // the queue has to be added to the set of known queues
  std::uint64_t turn_ = 0;       // of ServedQueue::turns
  std::size_t used_places_ = 0;  // in this turn
  Clock::time_point paused_at_;  // when a verdict has paused the queue: a take that was sent before is given back
};

}  // namespace delayqueue
