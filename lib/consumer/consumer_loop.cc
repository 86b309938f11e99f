#include "consumer/consumer_loop.h"

#include "queue/option_checks.h"
#include "store/queries.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace delayqueue {
namespace {

using run::Loop;
using Clock = std::chrono::steady_clock;

// Most leases that a round trip renews: more would delay the verdicts behind them. There are more with a
// DeliveryHandler only.
constexpr std::size_t kMostRenewed = 20 * store::kBatch;

// Sets the number of threads, too.
ConsumerOptions validated(ConsumerOptions options, const AnyHandler& handler) {
  const bool settles_later = std::holds_alternative<DeliveryHandler>(handler);
  validate(options, settles_later);
  if (std::visit([](const auto& function) { return !function; }, handler)) {
    throw std::invalid_argument("handler: none; expected a function");
  }
  if (!settles_later) options.threads = options.concurrency;
  if (options.threads == 0) options.threads = std::min(options.concurrency, ConsumerOptions::hardware_concurrency());
  return options;
}

}  // namespace

ConsumerLoop::ConsumerLoop(const std::string& url, const std::string& queue, AnyHandler handler,
                           ConsumerOptions options, Callbacks callbacks)
    : options_(validated(std::move(options), handler)),
      id_(store::new_ids(1).front()),
      drained_(std::move(callbacks.drained)),
      endpoint_(url, queue, options_.connection, options_.queue),
      store_(endpoint_.keys(), {options_.dead_retention.count() > 0, 0}),
      reporter_(queue, id_, options_),
      verdict_durability_(options_.durability, reporter_),
      connection_(endpoint_, verdict_durability_, reporter_, options_.lease),
      timers_(options_.poll_interval, options_.reconnect_grace, options_.processing_timeout),
      wakeups_(endpoint_, id_, options_.connection.command_timeout),
      lease_keeper_(options_.lease, [this](const auto& lost) { on_lost(lost); }),
      settler_(options_.backoff, [this](const auto& outcome) { on_settled(outcome); }),
      prefetcher_(
          queue, 0, 0, options_.concurrency, options_.prefetch, options_.lease, poison_runs_,
          {[this](const auto& promoted) { on_promoted(promoted); }, [this](const auto& taken) { on_taken(taken); },
           [this](auto fetched) { on_fetched(std::move(fetched)); }}),
      capacity_({1}, options_.concurrency, options_.prefetch, false),
      maintenance_({2 * options_.poll_interval, options_.dead_retention, options_.dead_limit},
                   [this](std::size_t trimmed) { reporter_.trimmed(trimmed); }),
      handlers_(callbacks.scope, std::move(callbacks.wake), stopping_, false) {
  handlers_.add_line(std::move(handler), reporter_.counters(), {1, options_.concurrency});
  capacity_.add_lane(0);
  reporter_.sink().warn(endpoint_.warning());
}

// ---- Ticks ---------------------------------------------------------------------------------------------------------

void ConsumerLoop::connect_first() {
  connect();
  redis::Pipeline pipeline(connection_.get());
  const auto probe = store::counts(pipeline, store_.keys());  // fails if a key has a wrong type
  pipeline.run();
  probe.get();
}

Loop::Pause ConsumerLoop::step() {
  // The pause after a failure. A handler that returns wakes the loop, but the next attempt is not made sooner.
  if (const auto pause = connection_.pause(); pause.count() > 0 && !stopping_) return pause;
  if (!connection_.is_open() || (connection_.get().has_moved() && round_trips_.empty())) connect();
  return tick();
}

void ConsumerLoop::connect() {
  connection_.open([this](redis::Connection& connection) {
    timers_.connected();
    if (lease_keeper_.empty()) return;
    // Leases are renewed first, in a separate round trip: the answer decides which receipts are valid.
    RoundTrip renewal(connection, kSettle);
    lease_keeper_.renew(renewal, store_);
    renewal.send();
    renewal.receive();
    renewal.finish();
  });
}

// Sends a round trip of each purpose that is not under way and has requests, then finishes the oldest, if its answers
// have arrived. Nothing here waits: the pause ends when the answers arrive.
Loop::Pause ConsumerLoop::tick() {
  collect_done();
  expire_overrunning();
  start_round_trips();
  const bool finished = finish_round_trip();
  report_if_drained();
  // While refused verdicts are held back, a success does not show that Redis accepts them.
  if ((finished || round_trips_.empty()) && !settler_.holds_back()) connection_.succeeded();
  return plan_pause(finished);
}

Loop::Pause ConsumerLoop::plan_pause(bool finished) {
  if (!round_trips_.empty()) {
    if (finished) return Loop::Pause::zero();
    const redis::Connection& connection = connection_.get();
    return {connection.due() - Clock::now(), connection.fd(), !may_start(&Purpose::settle)};
  }
  const bool busy = wakeups_.has_requests(stopping_) || prefetcher_.is_fetching() || !settler_.empty() ||
                    maintenance_.has_to_persist() || reporter_.sink().has_counts();
  if (busy) return Loop::Pause::zero();
  Clock::time_point next = Clock::now() + options_.poll_interval;
  if (!lease_keeper_.empty()) {
    next = std::min({next, lease_keeper_.renewal_due(), timers_.next_overrun_check()});
  }
  if (handlers_.may_hang()) next = std::min(next, timers_.next_overrun_check());
  if (!stopping_) {
    const WorkerShare share = this->share();
    if (prefetcher_.should_go_on(share)) return Loop::Pause::zero();
    next = std::min({next, timers_.next(), maintenance_.due(), prefetcher_.rescan_due()});
    if (prefetcher_.room(share) > 0 && next > Clock::now()) wakeups_.listen();
  }
  return {next - Clock::now(), wakeups_.fd()};
}

// ---- Round trips ---------------------------------------------------------------------------------------------------

// Only one round trip at a time: after a failure, until one succeeds; with durability, whose wait must come last;
// before the connection is replaced; and when stopping, so that all messages that were taken are known here when they
// are given back.
bool ConsumerLoop::is_one_at_a_time() const {
  return stopping_ || !connection_.works() || verdict_durability_.waits() || connection_.get().has_moved();
}

bool ConsumerLoop::may_start(bool Purpose::*purpose) const {
  return round_trips_.empty() ||
         (round_trips_.may_start() && !round_trips_.is_under_way(purpose) && !is_one_at_a_time());
}

void ConsumerLoop::start_round_trips() {
  const bool stopping = stopping_;
  const bool one_at_a_time = is_one_at_a_time();
  if (!round_trips_.may_start() || (one_at_a_time && !round_trips_.empty())) return;
  if (stopping) wakeups_.leave();
  if (stopping && give_back_unstarted()) wakeups_.wake_another();
  if (!round_trips_.is_under_way(&Purpose::take)) {
    const bool full = !stopping && prefetcher_.room(share()) == 0;
    if (wakeups_.read(full, prefetcher_.more_ready())) timers_.promote_now();
    if (wakeups_.found_ready()) prefetcher_.ready_grew();
  }
  if (one_at_a_time) return send(stopping ? kSettle : kSettleAndTake);
  if (!round_trips_.is_under_way(&Purpose::settle)) send(kSettle);
  if (!round_trips_.is_under_way(&Purpose::take)) send(kTake);
}

// Sends a round trip, or none if it has no requests. The order of the requests: renew before unack2retry; unack2retry
// and pending2ready before ready2unack; the request that confirms the durability of all writes before it is the last.
void ConsumerLoop::send(Purpose purpose) {
  const bool stopping = stopping_;
  RoundTrip& round_trip = round_trips_.start(connection_.get(), purpose);
  const std::size_t settled_count = purpose.settle ? add_settling(round_trip) : 0;
  if (purpose.take) {
    prefetcher_.fetch(round_trip, store_);
    add_taking(round_trip);
  }
  if (purpose.settle) {
    wakeups_.add(round_trip, store_, stopping);
    maintenance_.add(round_trip, store_, stopping);
    reporter_.sink().publish(round_trip.pipeline(), store_.keys().channel);
    if (settled_count > 0) verdict_durability_.add(round_trip, settled_count, store_.keys().stats);
  }
  round_trips_.send();
}

// Returns whether one has ended.
bool ConsumerLoop::finish_round_trip() {
  const RoundTrips::Finished finished = round_trips_.finish_arrived();
  if (finished.resent) timers_.promote_now();  // the take may have run before the resent moves
  connection_.observe_clock(lease_keeper_.last_sample());
  return finished.one;
}

// ---- Take -----------------------------------------------------------------------------------------------------------

// Adds the moves that are due, and a take. pending2unack is both in one request; it takes nothing after an unack2retry
// that moved messages to retry, so they do not share a round trip.
void ConsumerLoop::add_taking(RoundTrip& round_trip) {
  const WorkerShare share = this->share();
  // Messages that cannot be settled must not pile up here.
  const bool backlog = settler_.size() > kMostBatches * store::kBatch;
  const bool reclaims = add_reclaim(round_trip);
  const bool promotes = timers_.promote_is_due(Clock::now());
  if (promotes && !reclaims && !backlog && prefetcher_.takes_due(share)) {
    prefetcher_.take_due(round_trip, store_, share, reporter_.sink().wants_events(),
                         wakeups_.as_watcher(options_.poll_interval));
    return timers_.promoting(Clock::now());
  }
  if (promotes) add_promote(round_trip, share);
  if (!reclaims && !promotes && !prefetcher_.has_more(share)) return;
  backlog ? prefetcher_.expect_more() : prefetcher_.take(round_trip, store_, share);
}

// Returns whether it was due.
bool ConsumerLoop::add_reclaim(RoundTrip& round_trip) {
  const Clock::time_point now = Clock::now();
  const bool renewed = lease_keeper_.empty() || now < lease_keeper_.renewal_due();
  if (!renewed || !timers_.reclaim_is_due(now)) return false;
  const auto answer = store_.unack2retry(round_trip.pipeline(), timers_.reclaims_only_backoffs(now));
  round_trip.expect(answer, [this](const auto& reclaimed) { on_reclaimed(reclaimed.get()); });
  timers_.reclaiming(now);
  return true;
}

void ConsumerLoop::add_promote(RoundTrip& round_trip, const WorkerShare& share) {
  const bool has_room = prefetcher_.room(share) > 0;
  const auto next_call = has_room ? std::optional(options_.poll_interval) : std::nullopt;
  for (std::size_t i = 0; i < prefetcher_.batches(share); ++i) {
    const auto answer =
        store_.pending2ready(round_trip.pipeline(), reporter_.sink().wants_events(), wakeups_.as_watcher(next_call));
    round_trip.expect(answer, [this](const auto& promoted) { on_promoted(promoted.get()); });
  }
  timers_.promoting(Clock::now());
}

void ConsumerLoop::on_reclaimed(const store::Reclaimed& reclaimed) {
  const bool more = reclaimed.moved == store::kReclaimBatch;
  const auto wait = more ? milliseconds(0) : options_.poll_interval;
  timers_.reclaim_by(Clock::now() + std::min<Clock::duration>(wait, reclaimed.next.value_or(options_.poll_interval)));
  maintenance_.queue_persist(reclaimed.dead_lettered);
  if (!reclaimed.retried.empty()) prefetcher_.retry_grew();
  reporter_.retried(reclaimed);
}

void ConsumerLoop::on_promoted(const store::Promoted& promoted) {
  wakeups_.set_watcher(promoted.keeps_watch);
  const bool more = promoted.moved == store::kBatch;
  if (promoted.next && (promoted.keeps_watch || more)) timers_.promote_by(Clock::now() + *promoted.next);
  prefetcher_.promoted(promoted.moved);
  reporter_.promoted(promoted);
}

void ConsumerLoop::on_taken(const Prefetcher::Taken& taken) {
  lease_keeper_.observe_clock(taken.now_us, taken.sent_at);
  for (const InFlightPtr& delivery : taken.deliveries) lease_keeper_.add(delivery);
  for (const InFlightPtr& delivery : taken.foreign) {
    lease_keeper_.add(delivery);
    settler_.add(delivery);  // the Settler removes it from unack
  }
  reporter_.taken(taken);
  handlers_.keep_one_free(prefetcher_.retry_is_due(), 0);
}

// ---- Run ------------------------------------------------------------------------------------------------------------

void ConsumerLoop::on_fetched(Prefetcher::Fetched fetched) {
  for (const InFlightPtr& delivery : fetched.expired) settler_.add(delivery);  // the Settler removes it from unack
  reporter_.fetched(fetched);
  handlers_.run(std::move(fetched), 0);
}

void ConsumerLoop::expire_overrunning() {
  const Clock::time_point now = Clock::now();
  if (!timers_.overrun_is_due(now)) return;
  timers_.checking_overrun(now);
  for (const InFlightPtr& delivery : lease_keeper_.expire_overrunning(options_.processing_timeout)) {
    reporter_.overrunning(*delivery, options_.processing_timeout);
    handlers_.refill(*delivery, reporter_.sink());
  }
  for (const InFlightPtr& delivery : handlers_.take_hanging(0, options_.processing_timeout)) {
    reporter_.hanging(*delivery, options_.processing_timeout);
    handlers_.refill(*delivery, reporter_.sink());
  }
}

void ConsumerLoop::on_lost(const std::vector<InFlightPtr>& lost) {
  for (const InFlightPtr& delivery : lost) {
    reporter_.lost(*delivery);
    handlers_.refill(*delivery, reporter_.sink());
  }
}

void ConsumerLoop::collect_done() {
  const HandlerRunner::Done done = handlers_.take_done();
  for (const InFlightPtr& delivery : done.deliveries) settler_.add(delivery);
  for (const std::string& line : handlers_.warnings()) reporter_.log(Severity::warning, line);
  prefetcher_.handled(done.returned.empty() ? 0 : done.returned.front(), done.deliveries);
}

// What the consumer may take now.
WorkerShare ConsumerLoop::share() {
  std::vector<run::WorkerLoad> loads;
  handlers_.read_loads(loads);
  SharedCapacity::LaneUse use;
  use.held = prefetcher_.fetching() + prefetcher_.coming();
  use.claimed = prefetcher_.fetching() + prefetcher_.coming_retries();
  use.prefetch = prefetcher_.prefetch();
  capacity_.set(loads, {use});
  return capacity_.share_of(0);
}

// ---- Settle ---------------------------------------------------------------------------------------------------------

// Returns the number of deliveries that the requests settle.
std::size_t ConsumerLoop::add_settling(RoundTrip& round_trip) {
  const bool renews = !lease_keeper_.empty() && Clock::now() >= lease_keeper_.renewal_due();
  const std::size_t settled_count = settler_.settle(round_trip, store_, renews);
  for (const std::string& line : settler_.warnings()) reporter_.log(Severity::warning, line);
  // After a failure there is a pause between two round trips, so each renews all.
  const std::size_t most = connection_.works() ? kMostRenewed : lease_keeper_.size();
  if (renews) lease_keeper_.renew(round_trip, store_, most);
  return settled_count;
}

void ConsumerLoop::on_settled(const Settler::Outcome& outcome) {
  for (const auto* group :
       {&outcome.acked, &outcome.expired, &outcome.foreign, &outcome.nacked, &outcome.snoozed, &outcome.stale}) {
    const Settlement settlement = group == &outcome.stale ? Settlement::stale : Settlement::settled;
    for (const InFlightPtr& delivery : *group) {
      lease_keeper_.remove(delivery);
      handlers_.call_back(*delivery, settlement);
    }
  }
  reporter_.settled(outcome);
  if (!outcome.nacked.empty()) timers_.reclaim_by(Clock::now() + std::min(outcome.soonest, options_.poll_interval));
  if (!outcome.snoozed.empty()) timers_.promote_now();  // pending2ready returns when the next message is due
}

// ---- Stop and failure -----------------------------------------------------------------------------------------------

// Gives back messages whose handler has not begun, as if they had never been taken. Returns whether there were any.
bool ConsumerLoop::give_back_unstarted() {
  std::vector<InFlightPtr> unstarted = handlers_.take_back();
  for (InFlightPtr& delivery : prefetcher_.abandon_fetching()) unstarted.push_back(std::move(delivery));
  std::reverse(unstarted.begin(), unstarted.end());  // release puts each message in front of those released before it
  for (const InFlightPtr& delivery : unstarted) {
    delivery->end(snooze(milliseconds(0)));
    settler_.add(delivery);
  }
  reporter_.returned(unstarted.size());
  return !unstarted.empty();
}

void ConsumerLoop::report_if_drained() {
  const bool drained = stopping_ && !wakeups_.is_watcher() && round_trips_.empty() && lease_keeper_.empty() &&
                       settler_.empty() && !maintenance_.has_to_persist() && handlers_.empty();
  if (drained) drained_();
}

Loop::Pause ConsumerLoop::on_failure(const std::exception& e) {
  round_trips_.clear();
  timers_.all_due();
  wakeups_.set_watcher(false);  // the next pending2ready decides again
  connection_.failed(e, !lease_keeper_.empty());
  report_if_drained();
  return connection_.pause();
}

void ConsumerLoop::disconnect() {
  round_trips_.clear();
  connection_.close();
  wakeups_.disconnect();
}

}  // namespace delayqueue
