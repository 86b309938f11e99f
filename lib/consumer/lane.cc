#include "consumer/lane.h"

#include "redis/escaped.h"
#include "store/queries.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

namespace delayqueue {
namespace {

// Most leases that a round trip renews: more would delay the verdicts behind them. There are more with
// handlers of a Delivery only.
constexpr std::size_t kMostRenewed = 20 * store::kBatch;

// Until another delivery of an occurrence that has to wait for an earlier one.
constexpr milliseconds kOverlapWait{1000};

}  // namespace

// ---- LaneHealth -----------------------------------------------------------------------------------------------------

void LaneHealth::leave() {
  health_.leave();
  requests_.refused.reset();
  requests_.finished = requests_.moved = false;
}

Purpose LaneHealth::purpose_in(Purpose round_trip, bool stopping) const {
  if (requests_.refused || pause().count() > 0) return {};
  if (works()) return round_trip;
  if (requests_.under_way > 0 || !round_trip.settle) return {};
  return stopping || !has_joined() ? kSettle : kSettleAndTake;
}

void LaneHealth::fail(const redis::Failure& failure, const std::string& where, std::optional<milliseconds> lease) {
  partition_.queue.reporter.counters().failed(failure.text);
  const std::string text = health_.failed(failure.text, pauses_after(failure, lease));
  partition_.queue.reporter.failed(&partition_.queue, partition_.named(text), health_.is_new_failure(), {where, ""});
}

void LaneHealth::read_success(const std::string& where, bool holds_back) {
  // What a lane joins with may succeed while its moves fail.
  const bool any = std::exchange(requests_.finished, false);
  const bool finished = any && health_.state() != Health::joining;
  if (any) health_.joined_only();
  if (!has_joined() || holds_back) return;
  if (!finished && (health_.is_failing() || requests_.under_way > 0)) return;
  if (const auto text = health_.succeeded(where)) {
    partition_.queue.reporter.recovered(&partition_.queue, partition_.named(*text), {where, ""});
  }
}

// ---- Lane -----------------------------------------------------------------------------------------------------------

Lane::Lane(ServedQueue& queue, unsigned partition, std::size_t number, const Maintenance::Rules& upkeep,
           milliseconds entry_interval, Handlers& handlers, PoisonRuns& poison_runs, BackgroundCalls& fetches)
    : partition_(queue, partition),
      number_(number),
      handlers_(handlers),
      timers_(queue.options.tuning.poll_interval, queue.options.tuning.reconnect_grace,
              queue.options.processing_timeout, queue.options.lease),
      wakeups_(partition_),
      lease_keeper_(queue.options.lease, [this](const auto& lost) { on_lost(lost); }),
      settler_(queue.options.backoff, [this](const auto& outcome) { on_settled(outcome); }),
      bodies_(partition_.endpoint, partition_.moves, answers_, queue.large_bodies, fetches,
              queue.options.processing_timeout,
              {[this](auto fetched) { on_fetched(std::move(fetched)); },
               [this](const auto& delivery, auto reason) { on_unfetched(delivery, std::move(reason)); },
               [this](Severity severity, const auto& text) { partition_.log(severity, text); }}),
      taker_(queue.name, queue.consumer, queue.number, number, queue.options.lease, queue.handled_since_retry, answers_,
             bodies_, poison_runs,
             {[this](const auto& promoted, bool more) { on_promoted(promoted, more); },
              [this](const auto& taken) { on_taken(taken); }}),
      prefetch_size_(queue.options.tuning.prefetch),
      maintenance_(upkeep, [this](std::size_t trimmed) { reporter().trimmed(trimmed); }),
      registry_entry_(partition_, entry_interval),
      copies_(partition_),
      health_(partition_) {
  if (partition == 0) recurring_.emplace(partition_);
}

// ---- The connection and its failures --------------------------------------------------------------------------------

void Lane::add_join(RoundTrip& round_trip, bool checks_types) {
  redis::Pipeline& pipeline = round_trip.pipeline();
  const Endpoint::Verification verification = endpoint().add_verification(pipeline);
  round_trip.then([this, &pipeline, verification] {
    try {
      const bool registers = endpoint().read_verification(pipeline, verification);
      // In a Cluster the set of queues may be on another node, and ConsumerConnection::make() writes it.
      registers_ = registers && !endpoint().is_cluster();
      copies_.learn(endpoint().layout());
    } catch (const std::invalid_argument&) {
      requests().refused = redis::current_failure();
    }
  });
  read_copies(round_trip);
  if (partition_.number > 0) queue().lanes.front()->copies_.read_soon();  // others may have been set meanwhile
  if (checks_types) {
    round_trip.expect(store::counts(pipeline, partition_.keys()), [](const auto& counts) { counts.get(); });
  }
  if (!lease_keeper_.empty()) lease_keeper_.renew(round_trip, partition_.moves);
  if (recurring_) recurring_->add_first_look(round_trip, timers_.poll_interval());
  round_trip.then([this] {
    if (requests().refused) return;
    health_.join();
    timers_.connected(Clock::now());
  });
}

void Lane::leave() {
  timers_.disconnected(Clock::now());
  health_.leave();
  copies_.leave();
  registry_entry_.leave();
  taker_.forget_watch();
  if (recurring_) recurring_->leave();
  registers_ = false;
  timers_.all_due();
  wakeups_.leave();  // the next pending2ready decides again
}

void Lane::failed(const redis::Failure& failure, const std::string& where) {
  timers_.all_due();
  wakeups_.leave();
  taker_.forget_watch();
  health_.fail(failure, where, lease_keeper_.empty() ? std::nullopt : std::optional(options().lease));
}

bool Lane::read_results(const std::string& where) {
  if (!requests().refused) {
    health_.read_success(where, settler_.holds_back());
    return false;
  }
  if (requests().under_way > 0) return false;  // the other answers count all the same
  const redis::Failure failure = *std::exchange(requests().refused, std::nullopt);
  if (failure.kind == redis::Failure::Kind::slot_unavailable) {  // as after an outage: leases first, then the grace
    const bool moved = requests().moved;
    const bool worked = works();
    leave();
    requests().moved = moved;
    if (!moved || !worked)
      failed(failure, where);  // it continues on the other node at once, unless that is not the owner either
  } else {
    requests().finished = false;
    failed(failure, where);
  }
  return true;
}

// ---- Round trips ----------------------------------------------------------------------------------------------------

std::size_t Lane::add_settling(RoundTrip& round_trip) {
  if (!has_joined()) {
    add_join(round_trip, false);
    return 0;
  }
  const bool renews = !lease_keeper_.empty() && Clock::now() >= lease_keeper_.renewal_due();
  const std::size_t settled_count = settler_.settle(round_trip, partition_.moves, renews, taker_.is_paced());
  if (settled_count > 0 && taker_.is_paced()) wakeups_.forward_marker(round_trip);
  for (const std::string& line : settler_.warnings()) partition_.log(Severity::warning, line);
  // After a failure there is a pause between two round trips, so each renews all.
  if (renews) lease_keeper_.renew(round_trip, partition_.moves, works() ? kMostRenewed : lease_keeper_.size());
  if (recurring_) recurring_->add_calls(round_trip);
  return settled_count;
}

void Lane::add_upkeep(RoundTrip& round_trip, bool stopping) {
  if (!has_joined()) return;
  if (std::exchange(registers_, false)) endpoint().add_registration(round_trip.pipeline());
  const bool removes = wakeups_.add(round_trip, stopping);
  // Markers of senders may have been among what was removed: those of all partitions are in the same key.
  if (removes && !stopping) {
    round_trip.then([this] {
      for (Lane* lane : queue().lanes) lane->wake({"", "", "0", true});
    });
  }
  if (!stopping && copies_.reading_is_due()) read_copies(round_trip);
  copies_.add_updates(round_trip);
  if (taker_.finds_limits()) maintenance_.places_are_due();
  const bool leaves = stopping && taker_.watches();
  if (leaves) taker_.leave_watch(round_trip, partition_.moves);
  const bool frees = maintenance_.add(round_trip, partition_.moves, stopping, taker_.is_paced());
  if (leaves || frees) wakeups_.forward_marker(round_trip);
  if (recurring_ && !stopping) recurring_->add(round_trip, timers_.poll_interval());
  reporter().sink().publish(round_trip.pipeline(), partition_.keys().channel);
  if (!stopping && registry_entry_.is_due(round_trip)) registry_entry_.add(round_trip, activity());
}

// Of all partitions: the entry is that of the queue.
ConsumerActivity Lane::activity() const {
  ConsumerActivity activity(handlers_.running());
  for (const Lane* lane : queue().lanes) {
    lane->lease_keeper_.for_each([&](const InFlightMessage& delivery) { activity.add(delivery); });
  }
  return activity;
}

bool Lane::renewal_is_late() const {
  return !lease_keeper_.empty() && Clock::now() > lease_keeper_.renewal_due() + options().lease / 12;
}

bool Lane::is_urgent(bool stopping) const {
  return copies_.is_urgent() || wakeups_.has_requests(stopping) || bodies_.has_to_fetch() || !settler_.empty() ||
         maintenance_.has_to_persist() || reporter().sink().has_counts() ||
         (!stopping && recurring_ && recurring_->has_calls());
}

Lane::Clock::time_point Lane::next_due(bool stopping) const {
  Clock::time_point next = std::min(Clock::now() + timers_.poll_interval(), bodies_.lone_due());
  if (!lease_keeper_.empty()) next = std::min(next, lease_keeper_.renewal_due());
  if (!lease_keeper_.empty() || handlers_.may_hang()) next = std::min(next, timers_.next_overrun_check());
  if (stopping || !copies_.may_take()) return next;
  if (recurring_) next = std::min(next, recurring_->due());
  if (holds_takes()) return std::min(next, maintenance_.due());
  return std::min({next, taker_.held_until(), timers_.next(), maintenance_.due(), taker_.rescan_due()});
}

// The requests of add_join() read the copy of the layout, too.
void Lane::read_copies(RoundTrip& round_trip) {
  copies_.add_reading(round_trip, has_joined(), queue().lanes.front()->timers_.poll_interval());
}

// ---- Take -----------------------------------------------------------------------------------------------------------

// Messages that cannot be settled must not pile up here.
bool Lane::has_too_many_verdicts() const { return settler_.size() > kMostBatches * store::kBatch; }

planning::LaneView Lane::view(bool settles) {
  const Clock::time_point now = Clock::now();
  planning::LaneView view;
  view.queue = queue().number;
  view.may_take = may_take();
  view.works = works();
  view.may_send =
      view.works ? health_.purpose_in(kTake, false).take : settles && health_.purpose_in(kSettle, false).take;
  view.turn = turn_;
  view.used = used_places_;
  view.prefetch = prefetch_size_.get();
  view.round_trip_ms = 1000 * answers_.shortest().count();
  view.late = answers_.is_late();
  view.too_many_verdicts = has_too_many_verdicts();
  view.more_due = timers_.more_are_due();
  view.promote_due = timers_.promote_is_due(now);
  view.reclaim_due = timers_.reclaim_is_due(now);
  view.renewed = lease_keeper_.empty() || now < lease_keeper_.renewal_due();
  bodies_.describe(view);
  wakeups_.describe(view);
  taker_.describe(view);
  return view;
}

void Lane::use_turn(const planning::Take& take) {
  used_places_ += take.places;
  if (!take.ends_turn) return;
  used_places_ = 0;
  turn_ = ++queue().turns;
}

void Lane::add_take(RoundTrip& round_trip, const planning::Take& take) {
  use_turn(take);
  if (recurring_) recurring_->add_calls(round_trip);
  if (take.reclaims) add_reclaim(round_trip);
  if (take.promotes > 0) add_promote(round_trip, take);
  if (take.due) {
    taker_.take_due(round_trip, partition_.moves, take, reporter().sink().wants_events(),
                    wakeups_.as_watcher(timers_.poll_interval()));
    timers_.promoting(Clock::now());
  } else {
    taker_.take(round_trip, partition_.moves, take, timers_.poll_interval());
  }
  if (taker_.is_paced()) wakeups_.forward_marker(round_trip);
  if (take.postpones) taker_.expect_more(store::kBatch);
  if (take.asks_lengths) add_lengths(round_trip);
}

void Lane::add_lengths(RoundTrip& round_trip) {
  for (const std::string* list : {&partition_.keys().ready, &partition_.keys().retry}) {
    round_trip.expect(partition_.moves.length(round_trip.pipeline(), *list), [this](const auto& length) {
      if (const std::size_t messages = length.get(); messages > 0) taker_.expect_more(messages);
    });
  }
}

void Lane::add_reclaim(RoundTrip& round_trip) {
  const Clock::time_point now = Clock::now();
  const auto answer = partition_.moves.unack2retry(round_trip.pipeline(), timers_.reclaims_only_backoffs(now));
  round_trip.expect(answer, [this](const auto& reclaimed) { on_reclaimed(reclaimed.get()); });
  timers_.reclaiming(now);
}

void Lane::add_promote(RoundTrip& round_trip, const planning::Take& take) {
  const auto next_call = take.keeps_watch ? std::optional(timers_.poll_interval()) : std::nullopt;
  for (std::size_t i = 0; i < take.promotes; ++i) {
    const auto answer = partition_.moves.pending2ready(round_trip.pipeline(), reporter().sink().wants_events(),
                                                       wakeups_.as_watcher(next_call));
    round_trip.expect(answer, [this](const auto& moved) {
      const store::Promoted promoted = moved.get();
      on_promoted(promoted, promoted.moved == store::kBatch);
    });
  }
  if (!next_call) wakeups_.forward_marker(round_trip);
  timers_.promoting(Clock::now());
}

void Lane::on_reclaimed(const store::Reclaimed& reclaimed) {
  timers_.reclaimed(Clock::now());
  const milliseconds poll = timers_.poll_interval();
  const auto wait = reclaimed.moved == store::kReclaimBatch ? milliseconds(0) : poll;
  timers_.reclaim_by(Clock::now() + std::min<Clock::duration>(wait, reclaimed.next.value_or(poll)));
  maintenance_.queue_persist(reclaimed.dead_lettered);
  if (!reclaimed.retried.empty()) taker_.retry_grew(reclaimed.retried.size());
  reporter().retried(reclaimed);
}

// more: perhaps more messages are due.
void Lane::on_promoted(const store::Promoted& promoted, bool more) {
  wakeups_.set_watcher(promoted.keeps_watch);
  timers_.set_more_due(more);
  if (promoted.next && promoted.keeps_watch && !more) timers_.promote_by(Clock::now() + *promoted.next);
  taker_.promoted(promoted.moved);
  reporter().promoted(promoted);
}

void Lane::on_taken(const Taker::Taken& taken) {
  lease_keeper_.observe_clock(taken.now_us, taken.sent_at);
  for (const InFlightPtr& delivery : taken.deliveries) lease_keeper_.add(delivery);
  for (const InFlightPtr& delivery : taken.foreign) {
    lease_keeper_.add(delivery);
    settler_.add(delivery);  // the Settler removes it from unack
  }
  reporter().taken(taken);
  if (taken.deliveries.empty()) return;
  if (recurring_) recurring_->taken(taken.deliveries);
  if (taken.sent_at <= paused_at_) return release_paused();
  queue().taken += taken.deliveries.size();
  queue().taken_at = Clock::now();
}

void Lane::read_wakeups(bool full) {
  const auto marker = wakeups_.read(full, taker_.more_ready());
  if (marker) timers_.promote_now();
  if (marker) taker_.take_again();
  if (marker && holds_takes()) recurring_->look_again();
  if (marker && marker->ready) taker_.ready_grew();
}

// The leases that are held have ended by Redis' clock: they are renewed before any lease that has ended is taken back.
void Lane::clock_jumped() {
  lease_keeper_.renew_soon();
  timers_.all_due();
  taker_.take_again();
  maintenance_.trim_is_due();
  if (recurring_) recurring_->look_again();
}

// ---- Handlers -------------------------------------------------------------------------------------------------------

void Lane::on_fetched(BodyFetcher::Fetched fetched) {
  taker_.remove(fetched.expired);
  taker_.remove(fetched.skipped);
  taker_.remove(fetched.waits);
  try {
    reporter().fetched(fetched);
    for (const auto* group : {&fetched.expired, &fetched.skipped}) {
      for (const InFlightPtr& delivery : *group) settler_.add(delivery);  // the Settler removes it from unack
    }
    for (const InFlightPtr& delivery : fetched.waits) {
      delivery->release(snooze(kOverlapWait));
      settler_.add(delivery);
    }
    reporter().returned(fetched.waits.size());
    handlers_.run(fetched, queue().number);
  } catch (...) {
    stop_renewing(fetched);
    throw;
  }
}

// A failed delivery, though no handler has begun.
void Lane::on_unfetched(const InFlightPtr& delivery, std::string reason) {
  const Severity severity = queue().large_bodies.warns() ? Severity::warning : Severity::debug;
  partition_.log(severity, redis::escaped(delivery->message.id()) + ": " + reason, {"", delivery->message.id()});
  taker_.remove({delivery});
  delivery->release(nack(std::move(reason)));
  settler_.add(delivery);
  reporter().returned(1);
}

// Memory has run out, so no worker got these messages, and there is none to release them. Their leases are no longer
// renewed: when these end, the messages are delivered again.
void Lane::stop_renewing(const BodyFetcher::Fetched& fetched) {
  for (const auto* group : {&fetched.first, &fetched.redelivered, &fetched.expired, &fetched.skipped, &fetched.waits}) {
    for (const InFlightPtr& delivery : *group) lease_keeper_.remove(delivery);
    taker_.remove(*group);
  }
  reporter().returned(fetched.first.size() + fetched.redelivered.size());
}

void Lane::lose_overrunning() {
  const Clock::time_point now = Clock::now();
  if (!timers_.overrun_is_due(now)) return;
  timers_.checking_overrun(now);
  for (const InFlightPtr& delivery : lease_keeper_.lose_overrunning(options().processing_timeout)) {
    reporter().overrunning(*delivery, options().processing_timeout);
    handlers_.lose_place(*delivery, reporter().sink());
  }
  for (const InFlightPtr& delivery : handlers_.take_hanging(number_, options().processing_timeout)) {
    reporter().hanging(*delivery, options().processing_timeout);
    handlers_.lose_place(*delivery, reporter().sink());
  }
}

void Lane::on_lost(const std::vector<InFlightPtr>& lost) {
  for (const InFlightPtr& delivery : lost) {
    reporter().lost(*delivery);
    handlers_.lose_place(*delivery, reporter().sink());
  }
}

void Lane::accept_verdicts(const std::vector<InFlightPtr>& done, std::size_t returned) {
  for (const InFlightPtr& delivery : done) settler_.add(delivery);
  taker_.remove(done);
  prefetch_size_.handled(returned, answers_.usual());
  const bool pauses = std::any_of(done.begin(), done.end(), [](const InFlightPtr& delivery) {
    return delivery->verdict->kind() == Verdict::Kind::pause_queue;
  });
  if (!pauses) return;
  paused_at_ = Clock::now();
  release_paused();
}

// Behind the verdict that pauses the queue, what this lane holds is given back: the handlers would find the same.
void Lane::release_paused() {
  std::vector<InFlightPtr> unstarted = handlers_.dequeue(queue().number, number_);
  for (InFlightPtr& delivery : bodies_.dequeue_all()) unstarted.push_back(std::move(delivery));
  taker_.remove(unstarted);
  release(std::move(unstarted), false);
}

void Lane::on_settled(const Settler::Outcome& outcome) {
  for (const auto* group : {&outcome.acked, &outcome.expired, &outcome.skipped, &outcome.foreign, &outcome.nacked,
                            &outcome.snoozed, &outcome.pauses, &outcome.stale}) {
    for (const InFlightPtr& delivery : *group) {
      const Settlement settlement = group == &outcome.stale                    ? Settlement::stale
                                    : delivery->settling == Settling::in_doubt ? Settlement::in_doubt
                                                                               : Settlement::settled;
      lease_keeper_.remove(delivery);
      handlers_.call_back(*delivery, settlement);
    }
  }
  taker_.freed_places();
  reporter().settled(outcome);
  if (!outcome.nacked.empty()) {
    timers_.reclaim_by(Clock::now() + std::min(outcome.soonest, timers_.poll_interval()));
  }
  for (const InFlightPtr& delivery : outcome.pauses) timers_.promote_by(Clock::now() + *delivery->verdict->after());
  if (!outcome.snoozed.empty()) timers_.promote_now();  // pending2ready returns when the next message is due
}

// ---- Stop -----------------------------------------------------------------------------------------------------------

void Lane::release_unstarted(std::vector<InFlightPtr> unstarted) {
  for (InFlightPtr& delivery : bodies_.dequeue_all()) unstarted.push_back(std::move(delivery));
  release(std::move(unstarted), true);
}

void Lane::release_late(std::size_t most) {
  std::vector<InFlightPtr> late = bodies_.dequeue_late(most);
  taker_.remove(late);
  release(std::move(late), true);
}

void Lane::release(std::vector<InFlightPtr> unstarted, bool wakes_another) {
  if (unstarted.empty()) return;
  std::reverse(unstarted.begin(), unstarted.end());  // release puts each message in front of those released before it
  for (const InFlightPtr& delivery : unstarted) {
    delivery->release(snooze(milliseconds(0)));
    settler_.add(delivery);
  }
  reporter().returned(unstarted.size());
  if (wakes_another) wakeups_.wake_another();
}

void Lane::add_removal(RoundTrip& round_trip) {
  const std::vector<Lane*>& lanes = queue().lanes;
  const bool holds =
      std::any_of(lanes.begin(), lanes.end(), [](const Lane* lane) { return !lane->lease_keeper_.empty(); });
  if (has_joined() && registry_entry_.is_written() && !holds) registry_entry_.add_removal(round_trip);
}

bool Lane::is_drained() const {
  const bool wakes = has_joined() && (wakeups_.wakes(true) || taker_.watches());
  return !wakes && lease_keeper_.empty() && settler_.empty() && !maintenance_.has_to_persist();
}

}  // namespace delayqueue
