#include "consumer/consumer_loop.h"
#include "consumer/callback_scope.h"
#include "redis/escaped.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

// What a consumer does, tick by tick; its workers are in consumer_hands.cc, how it begins and ends in consumer_life.cc.
namespace delayqueue {
namespace {

using run::Loop;
using Clock = std::chrono::steady_clock;

constexpr ReconnectBackoff::Pauses kUnreachable{milliseconds(50), milliseconds(1000)};  // it may be back any moment
constexpr ReconnectBackoff::Pauses kRefused{milliseconds(500), milliseconds(5000)};     // until a person does something

std::vector<std::string> ids_of(const std::vector<DeliveryPtr>& deliveries) {
  std::vector<std::string> ids;
  ids.reserve(deliveries.size());
  for (const DeliveryPtr& delivery : deliveries) ids.push_back(delivery->message.id);
  return ids;
}

}  // namespace

// ---- The loop ------------------------------------------------------------------------------------------------------

Loop::Rest Consumer::Impl::step() {
  const CallbackScope callbacks(this);
  const Interrupt::Scope until(interrupt_);
  if (interrupt_.is_raised()) return options_.poll_interval;  // stop() waits for nothing but the end of this step
  // Handlers that end wake us; that is no reason to try sooner.
  if (const auto left = reconnect_backoff_.left(Clock::now()); left.count() > 0 && !stopping_) return left;
  try {
    if (first_thread_.joinable()) read_first();
    if (connection_ == nullptr || (connection_->has_moved() && round_trips_.empty())) connect();
    return tick();
  } catch (const std::exception& e) {
    if (interrupt_.is_raised()) return options_.poll_interval;
    return on_failure(e);
  }
}

void Consumer::Impl::connect() {
  connection_.reset();
  auto connection = endpoint_.connect();
  write_concern_.check(*connection);
  ++connects_;
  reclaim_from_ = Clock::now() + options_.reconnect_grace;
  promote_due_ = reclaim_due_ = Clock::time_point();
  if (!lease_keeper_.empty()) {
    // Renewed first, and alone: what comes after needs to know which receipts hold.
    redis::Pipeline pipeline(*connection);
    lease_keeper_.renew(pipeline, store_);
    pipeline.run();
    read_renewals();
  }
  clock_monitor_.new_connection();
  if (event_sink_.has_listener()) risk_watch_.look(*connection, event_sink_);
  connection_ = std::move(connection);
}

// Settle what is done, renew what is held, move what is due, take what there is room for, and fetch the bodies of what
// was taken: a write for either errand that is not under way and has something to ask, and one read. So with little to
// do a trip is back before the next one begins; under load there are two, and Redis always has one to work on.
Loop::Rest Consumer::Impl::tick() {
  collect_done();
  expire_overrunning();
  start_round_trips(stopping_);
  finish_round_trip();
  note_drained();
  if (!settler_.holds_back()) on_recovered();
  return rest();
}

// One by one: after a failure, to see whether all goes well again; with durability, whose wait must come last; and when
// stopping, so that all that was taken is in our workers when it is given back.
void Consumer::Impl::start_round_trips(bool stopping) {
  const bool one_by_one = stopping || !connected_ || write_concern_.waits() || connection_->has_moved();
  if (one_by_one && !round_trips_.empty()) return;
  if (stopping && wakeup_listener_.leave()) wake_another_ = true;
  if (stopping && give_back_unstarted()) wake_another_ = true;
  if (!is_under_way(round_trips_, &Purpose::take)) {
    const bool found = wakeup_listener_.found();
    if (found) promote_due_ = Clock::time_point();
    if (wakeup_listener_.found_foreign()) clear_wake_ = true;
    if (must_wake_another(found)) wake_another_ = true;
  }
  if (one_by_one) return send({true, !stopping});
  if (!is_under_way(round_trips_, &Purpose::settle)) send({true, false});
  if (!is_under_way(round_trips_, &Purpose::take)) send({false, true});
}

void Consumer::Impl::send(Purpose purpose) {
  RoundTrip& round_trip = round_trips_.emplace_back(*connection_, purpose);
  if (purpose.settle) add_settling(round_trip);
  if (purpose.take) add_taking(round_trip);
  if (purpose.settle) add_the_rest(round_trip);
  round_trip.pipeline.size() > 0 ? round_trip.pipeline.send() : round_trips_.pop_back();
}

void Consumer::Impl::add_settling(RoundTrip& round_trip) {
  round_trip.renews = !lease_keeper_.empty() && Clock::now() >= lease_keeper_.renewal_due();
  round_trip.settles = settler_.settle(round_trip.pipeline, store_, round_trip.renews);
  for (const std::string& line : settler_.warnings()) event_sink_.log(Severity::warning, line);
  if (round_trip.renews) lease_keeper_.renew(round_trip.pipeline, store_);
}

void Consumer::Impl::add_taking(RoundTrip& round_trip) {
  const Clock::time_point now = Clock::now();
  const bool renewed = lease_keeper_.empty() || now < lease_keeper_.renewal_due();
  // What comes up while they are asked for moves these nearer again.
  if (renewed && now >= reclaim_due_) {
    const bool only_backoffs = now < reclaim_from_;
    round_trip.reclaimed = store_.unack2retry(round_trip.pipeline, only_backoffs);
    reclaim_due_ = now + options_.poll_interval;
    if (only_backoffs) reclaim_due_ = std::min(reclaim_due_, reclaim_from_);
  }
  if (now >= promote_due_) {
    const bool has_room = prefetcher_.room(worker_load()) > 0;
    const auto asks_again = has_room ? std::optional(options_.poll_interval) : std::nullopt;
    round_trip.promoted =
        store_.pending2ready(round_trip.pipeline, event_sink_.wants_events(), {wakeup_listener_.name(), asks_again});
    promote_due_ = now + options_.poll_interval;
  }
  const Prefetcher::Load load = worker_load();
  const bool may_find = round_trip.reclaimed || round_trip.promoted || prefetcher_.may_find(load);
  // What cannot be settled must not pile up in our workers.
  const bool backlog = settler_.size() > store::kBatch;
  if (may_find && backlog) prefetcher_.may_find_more();
  if (may_find && !backlog) prefetcher_.take(round_trip.pipeline, store_, load);
}

void Consumer::Impl::add_the_rest(RoundTrip& round_trip) {
  const bool stopping = stopping_;
  if (!stopping) prefetcher_.fetch(round_trip.pipeline, store_);
  if (std::exchange(clear_wake_, false)) store_.clear_wake(round_trip.pipeline);
  if (std::exchange(wake_another_, false)) store_.wake(round_trip.pipeline);
  if (stopping && std::exchange(is_watcher_, false)) store_.leave_watch(round_trip.pipeline, wakeup_listener_.name());
  round_trip.persists = std::min(to_persist_.size(), store::kBatch);
  const auto some = to_persist_.begin() + static_cast<std::ptrdiff_t>(round_trip.persists);
  if (round_trip.persists > 0) round_trip.persisted = store_.persist(round_trip.pipeline, {to_persist_.begin(), some});
  round_trip.maintains = !stopping && Clock::now() >= maintenance_.due();
  if (round_trip.maintains) maintenance_.work(round_trip.pipeline, store_);
  event_sink_.publish(round_trip.pipeline, store_.keys().channel);
  if (round_trip.settles > 0) round_trip.durable = write_concern_.ask(round_trip.pipeline, below_durability_);
}

// With the first that is back. If it brings a refusal the other is awaited, too: its answers count all the same.
void Consumer::Impl::finish_round_trip() {
  std::exception_ptr refused;
  while (!round_trips_.empty()) {
    RoundTrip& round_trip = round_trips_.front();
    round_trip.pipeline.receive();
    try {
      read(round_trip);
    } catch (const Error&) {
      refused = std::current_exception();
    }
    if (round_trip.pipeline.resent()) promote_due_ = Clock::time_point();  // the take may have run before the moves
    round_trips_.pop_front();
    if (refused == nullptr) break;
  }
  if (refused != nullptr) {
    note_drained();
    std::rethrow_exception(refused);
  }
}

// Each answer counts, whatever became of the others: what was taken must be in our workers.
void Consumer::Impl::read(const RoundTrip& round_trip) {
  std::exception_ptr refused;
  const auto part = [&](bool there, const auto& answer) {
    try {
      if (there) answer();
    } catch (const Error&) {
      refused = std::current_exception();
    }
  };
  part(round_trip.persisted.has_value(), [&] {
    round_trip.persisted->get();
    to_persist_.erase(to_persist_.begin(), to_persist_.begin() + static_cast<std::ptrdiff_t>(round_trip.persists));
  });
  part(round_trip.purpose.settle, [&] { read_settled(); });
  part(round_trip.durable.has_value(), [&] { read_durable(round_trip); });
  part(round_trip.renews, [&] { read_renewals(); });
  part(round_trip.reclaimed.has_value(), [&] { read_reclaimed(round_trip.reclaimed->get()); });
  part(round_trip.promoted.has_value(), [&] { read_promoted(round_trip.promoted->get()); });
  part(round_trip.purpose.settle, [&] { read_fetched(); });
  part(round_trip.purpose.take, [&] { read_taken(); });
  part(round_trip.maintains, [&] {
    const std::size_t trimmed = maintenance_.read_answers();
    if (trimmed > 0) event_sink_.log(Severity::info, "trimmed " + std::to_string(trimmed) + " dead letters");
  });
  if (const auto jump = clock_monitor_.look(lease_keeper_.last_sample())) {
    event_sink_.log(Severity::warning, to_text(*jump, connection_->where()));
  }
  if (refused != nullptr) std::rethrow_exception(refused);
}

void Consumer::Impl::on_recovered() {
  if (reconnect_backoff_.is_failing()) {
    event_sink_.log(Severity::info, "Redis answers again at " + connection_->where() + "; trouble " +
                                        reconnect_backoff_.duration_text(Clock::now()));
  }
  reconnect_backoff_.succeeded();
  connected_ = true;
}

// What went wrong is told, and tried again after a pause. A link that broke is made anew.
Loop::Rest Consumer::Impl::on_failure(const std::exception& e) {
  ++errors_;
  connected_ = false;
  {
    const std::lock_guard lock(error_mutex_);
    last_error_ = e.what();
  }
  const ReconnectBackoff::Line line = reconnect_backoff_.failed(e.what(), pauses_after(e), Clock::now());
  event_sink_.log(line.severity, line.text);
  round_trips_.clear();
  settler_.forget_answers();
  prefetcher_.forget_answers();
  maintenance_.forget_answers();
  promote_due_ = reclaim_due_ = Clock::time_point();
  is_watcher_ = false;  // whoever looks next finds out anew
  const bool broken = dynamic_cast<const ConnectionError*>(&e) != nullptr;
  if (connection_ != nullptr && (broken || connection_->is_stale())) connection_.reset();
  note_drained();
  return reconnect_backoff_.left(Clock::now());
}

// What a password, an ACL rule or the set-up of this machine forbids is asked for less often, but not so that the
// leases of what is held end.
ReconnectBackoff::Pauses Consumer::Impl::pauses_after(const std::exception& e) const {
  const bool forbidden =
      dynamic_cast<const redis::AccessError*>(&e) != nullptr || dynamic_cast<const SetupError*>(&e) != nullptr;
  if (!forbidden) return kUnreachable;
  const bool holds = connection_ != nullptr && !lease_keeper_.empty();
  return holds ? ReconnectBackoff::Pauses{kRefused.shortest,
                                          std::clamp(options_.lease / 3, kUnreachable.longest, kRefused.longest)}
               : kRefused;
}

Loop::Rest Consumer::Impl::rest() {
  if (!round_trips_.empty()) return Loop::Rest::zero();
  const bool busy = wake_another_ || (stopping_ && is_watcher_) || prefetcher_.is_fetching() || !settler_.empty() ||
                    !to_persist_.empty() || event_sink_.has_counts();
  if (busy) return Loop::Rest::zero();
  Clock::time_point next = Clock::now() + options_.poll_interval;
  if (!lease_keeper_.empty()) next = std::min(next, lease_keeper_.renewal_due());
  if (!lease_keeper_.empty()) next = std::min(next, Clock::now() + options_.processing_timeout / 10);
  if (!stopping_) {
    const Prefetcher::Load load = worker_load();
    if (prefetcher_.should_go_on(load)) return Loop::Rest::zero();
    next = std::min({next, promote_due_, reclaim_due_, maintenance_.due()});
    next = std::min(next, prefetcher_.rescan_due());
    if (prefetcher_.room(load) > 0 && next > Clock::now()) wakeup_listener_.begin();
  }
  return {next - Clock::now(), wakeup_listener_.fd()};
}

// ---- Settle and renew ----------------------------------------------------------------------------------------------

void Consumer::Impl::read_settled() {
  const Settler::Outcome outcome = settler_.read_answers();
  for (const auto* group :
       {&outcome.acked, &outcome.expired, &outcome.foreign, &outcome.nacked, &outcome.snoozed, &outcome.stale}) {
    for (const DeliveryPtr& delivery : *group) lease_keeper_.remove(delivery);
  }
  acked_ += outcome.acked.size();
  expired_ += outcome.expired.size();
  foreign_ += outcome.foreign.size();
  nacked_ += outcome.nacked.size();
  snoozed_ += outcome.snoozed.size();
  stale_ += outcome.stale.size();
  event(EventKind::acked, outcome.acked);
  event(EventKind::nacked, outcome.nacked);
  event(EventKind::gave_up, outcome.gave_up);
  if (!outcome.nacked.empty())
    reclaim_due_ = std::min(reclaim_due_, Clock::now() + std::min(outcome.soonest, options_.poll_interval));
  if (!outcome.snoozed.empty()) promote_due_ = Clock::time_point();  // its answer tells when they are due
  if (outcome.refused != nullptr) std::rethrow_exception(outcome.refused);
}

// The verdicts stand. Only if the master is lost now are they forgotten, and the messages delivered again.
void Consumer::Impl::read_durable(const RoundTrip& round_trip) {
  const std::string missing = write_concern_.missing(round_trip.durable);
  if (!missing.empty()) unconfirmed_ += round_trip.settles;
  if (missing.empty() == !below_durability_) return;
  below_durability_ = !missing.empty();
  if (below_durability_) event_sink_.log(Severity::warning, "verdicts are not as durable as asked for: " + missing);
  if (!below_durability_) event_sink_.log(Severity::info, "verdicts are as durable as asked for again");
}

void Consumer::Impl::note_drained() {
  if (!stopping_ || is_watcher_ || !round_trips_.empty() || !lease_keeper_.empty() || !settler_.empty() ||
      !to_persist_.empty() || with_workers_ > 0)
    return;
  const std::lock_guard lock(state_mutex_);
  drained_ = true;
  state_changed_.notify_all();
}

void Consumer::Impl::read_renewals() {
  for (const DeliveryPtr& delivery : lease_keeper_.read_renewals()) {
    // What is in doubt was most likely settled, and is gone for that.
    if (!delivery->in_doubt) {
      event_sink_.log(Severity::warning,
                      "lost the lease of " + redis::escaped(delivery->message.id) + ": another consumer may have it");
    }
    replace_worker(*delivery);
  }
}

// ---- Move and take -------------------------------------------------------------------------------------------------

void Consumer::Impl::read_reclaimed(const store::Reclaimed& reclaimed) {
  const bool more = reclaimed.moved == store::kReclaimBatch;
  const auto wait = more ? milliseconds(0) : options_.poll_interval;
  const auto next = Clock::now() + std::min<Clock::duration>(wait, reclaimed.next.value_or(options_.poll_interval));
  reclaim_due_ = std::min(reclaim_due_, next);
  to_persist_.insert(to_persist_.end(), reclaimed.given_up.begin(), reclaimed.given_up.end());
  if (!reclaimed.retried.empty()) prefetcher_.retry_grew();
  event(EventKind::retried, reclaimed.retried);
  event(EventKind::gave_up, reclaimed.given_up);
}

void Consumer::Impl::read_promoted(const store::Promoted& promoted) {
  is_watcher_ = promoted.keeps;
  const bool more = promoted.moved == store::kBatch;
  if (promoted.next && (promoted.keeps || more)) {
    promote_due_ = std::min(promote_due_, Clock::now() + *promoted.next);
  }
  if (promoted.moved > 0) prefetcher_.may_find_more();  // a take that went along tells more
  event_sink_.count(EventKind::ready, promoted.moved);
  event_sink_.event(EventKind::ready, promoted.ids);
}

// Whether another consumer should be woken, since more waits than we can take. Once, until there is room again.
bool Consumer::Impl::must_wake_another(bool found) {
  const bool full = !stopping_ && prefetcher_.room(worker_load()) == 0;
  const bool told = std::exchange(overflow_signalled_, full);
  return (full && prefetcher_.more_ready() && !told) || (found && (full || stopping_));
}

void Consumer::Impl::read_taken() {
  const auto taken = prefetcher_.read_taken();
  if (!taken) return;
  lease_keeper_.observe_clock(taken->now_us, taken->asked);
  for (const DeliveryPtr& delivery : taken->deliveries) lease_keeper_.add(delivery);
  for (const DeliveryPtr& delivery : taken->foreign) {
    lease_keeper_.add(delivery);
    settler_.add(delivery);  // removed by receipt
  }
  foreign_ += taken->removed;
  if (!taken->foreign_id.empty()) warn_foreign(taken->foreign_id);
  event(EventKind::delivered, taken->deliveries);
  if (prefetcher_.retry_is_due() != keeping_free_) workers_->keep_one_free(keeping_free_ = !keeping_free_);
}

void Consumer::Impl::read_fetched() {
  Prefetcher::Fetched fetched = prefetcher_.read_fetched();
  for (const DeliveryPtr& delivery : fetched.expired) settler_.add(delivery);  // removed by receipt
  if (!fetched.expired.empty()) warn_expired(fetched.expired.front()->message.id);
  delivered_ += fetched.line.size() + fetched.urgent.size();
  with_workers_ += fetched.line.size() + fetched.urgent.size();
  workers_->submit_urgent(std::move(fetched.urgent));
  workers_->submit(std::move(fetched.line));
}

// As it should be after a TTL; else something is wrong, and messages are lost by it. Once a minute is enough.
void Consumer::Impl::warn_expired(const std::string& id) {
  const Clock::time_point now = Clock::now();
  if (now < expired_warning_due_) return;
  expired_warning_due_ = now + std::chrono::minutes(1);
  event_sink_.log(Severity::warning, "removed " + redis::escaped(id) +
                                         ", and perhaps more, whose bodies are gone: their TTL has ended, or " +
                                         "Redis evicted them, or producers use other queue options (bodies_under_dp)");
}

// Another program wrote it: an id becomes part of a key, and of whatever handlers make of it.
void Consumer::Impl::warn_foreign(const std::string& id) {
  if (std::exchange(foreign_warned_, true)) return;
  event_sink_.log(Severity::warning,
                  "removed \"" + redis::escaped(id) +
                      "\" before a handler saw it: no UUID in its form of 36 characters, in lower " +
                      "case, so no message of this library or of the Go library; more of this kind " +
                      "are counted only (stats().foreign); check() finds what is left");
}

// ---- Events --------------------------------------------------------------------------------------------------------

void Consumer::Impl::event(EventKind kind, const std::vector<DeliveryPtr>& deliveries) {
  event_sink_.count(kind, deliveries.size());
  if (event_sink_.wants_events()) event_sink_.event(kind, ids_of(deliveries));
}

void Consumer::Impl::event(EventKind kind, const std::vector<std::string>& ids) {
  event_sink_.count(kind, ids.size());
  event_sink_.event(kind, ids);
}

}  // namespace delayqueue
