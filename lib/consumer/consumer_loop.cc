#include "consumer/consumer_loop.h"
#include "consumer/callback_scope.h"
#include "redis/escaped.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

// What a consumer does, tick by tick; its hands are in consumer_hands.cc, how it begins and ends in consumer_life.cc.
namespace delayqueue {
namespace {

using run::Loop;
using Clock = std::chrono::steady_clock;

constexpr Trouble::Patience kAway{milliseconds(50), milliseconds(1000)};      // it may be back any moment
constexpr Trouble::Patience kRefused{milliseconds(500), milliseconds(5000)};  // until a person does something

std::vector<std::string> ids_of(const std::vector<DeliveryPtr>& deliveries) {
  std::vector<std::string> ids;
  ids.reserve(deliveries.size());
  for (const DeliveryPtr& delivery : deliveries) ids.push_back(delivery->message.id);
  return ids;
}

}  // namespace

// ---- The loop ------------------------------------------------------------------------------------------------------

Loop::Rest Consumer::Impl::step() {
  const Inside callbacks(this);
  const Interrupt::Scope until(interrupt_);
  if (interrupt_.is_raised()) return options_.poll_interval;  // stop() waits for nothing but the end of this step
  // Handlers that end wake us; that is no reason to try sooner.
  if (const auto left = trouble_.left(Clock::now()); left.count() > 0 && !stopping_) return left;
  try {
    if (first_thread_.joinable()) read_first();
    if (connection_ == nullptr || (connection_->has_moved() && trips_.empty())) connect();
    return tick();
  } catch (const std::exception& e) {
    if (interrupt_.is_raised()) return options_.poll_interval;
    return trouble(e);
  }
}

void Consumer::Impl::connect() {
  connection_.reset();
  auto connection = endpoint_.connect();
  durable_.check(*connection);
  ++connects_;
  reclaim_from_ = Clock::now() + options_.reconnect_grace;
  promote_due_ = reclaim_due_ = Clock::time_point();
  if (!held_.empty()) {
    // Renewed first, and alone: what comes after needs to know which receipts hold.
    redis::Pipeline pipeline(*connection);
    held_.renew(pipeline, store_);
    pipeline.run();
    read_renewals();
  }
  clock_watch_.new_connection();
  if (report_.has_listener()) risk_watch_.look(*connection, report_);
  connection_ = std::move(connection);
}

// Settle what is done, renew what is held, move what is due, take what there is room for, and fetch the bodies of what
// was taken: a write for either errand that is not under way and has something to ask, and one read. So with little to
// do a trip is back before the next one begins; under load there are two, and Redis always has one to work on.
Loop::Rest Consumer::Impl::tick() {
  collect_done();
  let_go_of_late();
  set_out(stopping_);
  come_back();
  note_drained();
  if (!settling_.holds_back()) well();
  return rest();
}

// One by one: after a failure, to see whether all goes well again; with durability, whose wait must come last; and when
// stopping, so that all that was taken is in our hands when it is given back.
void Consumer::Impl::set_out(bool stopping) {
  const bool one_by_one = stopping || !connected_ || durable_.waits() || connection_->has_moved();
  if (one_by_one && !trips_.empty()) return;
  if (stopping && watch_.leave()) wakes_ = true;
  if (stopping && give_back_unstarted()) wakes_ = true;
  if (!is_under_way(trips_, &Errands::take)) {
    const bool found = watch_.found();
    if (found) promote_due_ = Clock::time_point();
    if (watch_.found_foreign()) clears_wake_ = true;
    if (is_too_much(found)) wakes_ = true;
  }
  if (one_by_one) return send({true, !stopping});
  if (!is_under_way(trips_, &Errands::settle)) send({true, false});
  if (!is_under_way(trips_, &Errands::take)) send({false, true});
}

void Consumer::Impl::send(Errands errands) {
  Trip& trip = trips_.emplace_back(*connection_, errands);
  if (errands.settle) ask_to_settle(trip);
  if (errands.take) ask_to_take(trip);
  if (errands.settle) ask_the_rest(trip);
  trip.pipeline.size() > 0 ? trip.pipeline.send() : trips_.pop_back();
}

void Consumer::Impl::ask_to_settle(Trip& trip) {
  trip.renews = !held_.empty() && Clock::now() >= held_.renewal_due();
  trip.settles = settling_.settle(trip.pipeline, store_, trip.renews);
  for (const std::string& line : settling_.complaints()) report_.log(Severity::warning, line);
  if (trip.renews) held_.renew(trip.pipeline, store_);
}

void Consumer::Impl::ask_to_take(Trip& trip) {
  const Clock::time_point now = Clock::now();
  const bool renewed = held_.empty() || now < held_.renewal_due();
  // What comes up while they are asked for moves these nearer again.
  if (renewed && now >= reclaim_due_) {
    const bool only_backoffs = now < reclaim_from_;
    trip.reclaimed = store_.unack2retry(trip.pipeline, only_backoffs);
    reclaim_due_ = now + options_.poll_interval;
    if (only_backoffs) reclaim_due_ = std::min(reclaim_due_, reclaim_from_);
  }
  if (now >= promote_due_) {
    const bool has_room = intake_.room(hands_load()) > 0;
    const auto asks_again = has_room ? std::optional(options_.poll_interval) : std::nullopt;
    trip.promoted = store_.pending2ready(trip.pipeline, report_.wants_events(), {watch_.name(), asks_again});
    promote_due_ = now + options_.poll_interval;
  }
  const Intake::Load load = hands_load();
  const bool may_find = trip.reclaimed || trip.promoted || intake_.may_find(load);
  // What cannot be settled must not pile up in our hands.
  const bool backlog = settling_.size() > store::kBatch;
  if (may_find && backlog) intake_.look_later();
  if (may_find && !backlog) intake_.take(trip.pipeline, store_, load);
}

void Consumer::Impl::ask_the_rest(Trip& trip) {
  const bool stopping = stopping_;
  if (!stopping) intake_.fetch(trip.pipeline, store_);
  if (std::exchange(clears_wake_, false)) store_.clear_wake(trip.pipeline);
  if (std::exchange(wakes_, false)) store_.wake(trip.pipeline);
  if (stopping && std::exchange(keeps_watch_, false)) store_.leave_watch(trip.pipeline, watch_.name());
  trip.persists = std::min(to_persist_.size(), store::kBatch);
  const auto some = to_persist_.begin() + static_cast<std::ptrdiff_t>(trip.persists);
  if (trip.persists > 0) trip.persisted = store_.persist(trip.pipeline, {to_persist_.begin(), some});
  trip.keeps_house = !stopping && Clock::now() >= housekeeping_.due();
  if (trip.keeps_house) housekeeping_.work(trip.pipeline, store_);
  report_.publish(trip.pipeline, store_.keys().channel);
  if (trip.settles > 0) trip.durable = durable_.ask(trip.pipeline, short_);
}

// With the first that is back. If it brings a refusal the other is awaited, too: its answers count all the same.
void Consumer::Impl::come_back() {
  std::exception_ptr refused;
  while (!trips_.empty()) {
    Trip& trip = trips_.front();
    trip.pipeline.receive();
    try {
      read(trip);
    } catch (const Error&) {
      refused = std::current_exception();
    }
    if (trip.pipeline.resent()) promote_due_ = Clock::time_point();  // the take may have run before the moves
    trips_.pop_front();
    if (refused == nullptr) break;
  }
  if (refused != nullptr) {
    note_drained();
    std::rethrow_exception(refused);
  }
}

// Each answer counts, whatever became of the others: what was taken must be in our hands.
void Consumer::Impl::read(const Trip& trip) {
  std::exception_ptr refused;
  const auto part = [&](bool there, const auto& answer) {
    try {
      if (there) answer();
    } catch (const Error&) {
      refused = std::current_exception();
    }
  };
  part(trip.persisted.has_value(), [&] {
    trip.persisted->get();
    to_persist_.erase(to_persist_.begin(), to_persist_.begin() + static_cast<std::ptrdiff_t>(trip.persists));
  });
  part(trip.errands.settle, [&] { read_settled(); });
  part(trip.durable.has_value(), [&] { read_durable(trip); });
  part(trip.renews, [&] { read_renewals(); });
  part(trip.reclaimed.has_value(), [&] { read_reclaimed(trip.reclaimed->get()); });
  part(trip.promoted.has_value(), [&] { read_promoted(trip.promoted->get()); });
  part(trip.errands.settle, [&] { read_fetched(); });
  part(trip.errands.take, [&] { read_taken(); });
  part(trip.keeps_house, [&] {
    const std::size_t trimmed = housekeeping_.read_answers();
    if (trimmed > 0) report_.log(Severity::info, "trimmed " + std::to_string(trimmed) + " dead letters");
  });
  if (const auto jump = clock_watch_.look(held_.last_sight())) {
    report_.log(Severity::warning, to_text(*jump, connection_->where()));
  }
  if (refused != nullptr) std::rethrow_exception(refused);
}

void Consumer::Impl::well() {
  if (trouble_.lasts()) {
    report_.log(Severity::info,
                "Redis answers again at " + connection_->where() + "; trouble " + trouble_.extent(Clock::now()));
  }
  trouble_.over();
  connected_ = true;
}

// What went wrong is told, and tried again after a pause. A link that broke is made anew.
Loop::Rest Consumer::Impl::trouble(const std::exception& e) {
  ++errors_;
  connected_ = false;
  {
    const std::lock_guard lock(error_mutex_);
    last_error_ = e.what();
  }
  const Trouble::Line line = trouble_.failed(e.what(), patience_with(e), Clock::now());
  report_.log(line.severity, line.text);
  trips_.clear();
  settling_.forget_answers();
  intake_.forget_answers();
  housekeeping_.forget_answers();
  promote_due_ = reclaim_due_ = Clock::time_point();
  keeps_watch_ = false;  // whoever looks next finds out anew
  const bool broken = dynamic_cast<const ConnectionError*>(&e) != nullptr;
  if (connection_ != nullptr && (broken || connection_->is_stale())) connection_.reset();
  note_drained();
  return trouble_.left(Clock::now());
}

// What a password, an ACL rule or the set-up of this machine forbids is asked for less often, but not so that the
// leases of what is held end.
Trouble::Patience Consumer::Impl::patience_with(const std::exception& e) const {
  const bool forbidden =
      dynamic_cast<const redis::AccessError*>(&e) != nullptr || dynamic_cast<const SetupError*>(&e) != nullptr;
  if (!forbidden) return kAway;
  const bool holds = connection_ != nullptr && !held_.empty();
  return holds ? Trouble::Patience{kRefused.shortest, std::clamp(options_.lease / 3, kAway.longest, kRefused.longest)}
               : kRefused;
}

Loop::Rest Consumer::Impl::rest() {
  if (!trips_.empty()) return Loop::Rest::zero();
  const bool busy = wakes_ || (stopping_ && keeps_watch_) || intake_.is_fetching() || !settling_.empty() ||
                    !to_persist_.empty() || report_.has_counts();
  if (busy) return Loop::Rest::zero();
  Clock::time_point next = Clock::now() + options_.poll_interval;
  if (!held_.empty()) next = std::min(next, held_.renewal_due());
  if (!held_.empty()) next = std::min(next, Clock::now() + options_.processing_timeout / 10);
  if (!stopping_) {
    const Intake::Load load = hands_load();
    if (intake_.should_go_on(load)) return Loop::Rest::zero();
    next = std::min({next, promote_due_, reclaim_due_, housekeeping_.due()});
    next = std::min(next, intake_.look_due());
    if (intake_.room(load) > 0 && next > Clock::now()) watch_.begin();
  }
  return {next - Clock::now(), watch_.fd()};
}

// ---- Settle and renew ----------------------------------------------------------------------------------------------

void Consumer::Impl::read_settled() {
  const Settling::Outcome outcome = settling_.read_answers();
  for (const auto* group :
       {&outcome.acked, &outcome.expired, &outcome.foreign, &outcome.nacked, &outcome.snoozed, &outcome.stale}) {
    for (const DeliveryPtr& delivery : *group) held_.remove(delivery);
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
void Consumer::Impl::read_durable(const Trip& trip) {
  const std::string missing = durable_.missing(trip.durable);
  if (!missing.empty()) unconfirmed_ += trip.settles;
  if (missing.empty() == !short_) return;
  short_ = !missing.empty();
  if (short_) report_.log(Severity::warning, "verdicts are not as durable as asked for: " + missing);
  if (!short_) report_.log(Severity::info, "verdicts are as durable as asked for again");
}

void Consumer::Impl::note_drained() {
  if (!stopping_ || keeps_watch_ || !trips_.empty() || !held_.empty() || !settling_.empty() || !to_persist_.empty() ||
      with_hands_ > 0)
    return;
  const std::lock_guard lock(state_mutex_);
  drained_ = true;
  state_changed_.notify_all();
}

void Consumer::Impl::read_renewals() {
  for (const DeliveryPtr& delivery : held_.read_renewals()) {
    // What is in doubt was most likely settled, and is gone for that.
    if (!delivery->in_doubt) {
      report_.log(Severity::warning,
                  "lost the lease of " + redis::escaped(delivery->message.id) + ": another consumer may have it");
    }
    replace_hand(*delivery);
  }
}

// ---- Move and take -------------------------------------------------------------------------------------------------

void Consumer::Impl::read_reclaimed(const store::Reclaimed& reclaimed) {
  const bool more = reclaimed.moved == store::kReclaimBatch;
  const auto wait = more ? milliseconds(0) : options_.poll_interval;
  const auto next = Clock::now() + std::min<Clock::duration>(wait, reclaimed.next.value_or(options_.poll_interval));
  reclaim_due_ = std::min(reclaim_due_, next);
  to_persist_.insert(to_persist_.end(), reclaimed.given_up.begin(), reclaimed.given_up.end());
  if (!reclaimed.retried.empty()) intake_.retry_grew();
  event(EventKind::retried, reclaimed.retried);
  event(EventKind::gave_up, reclaimed.given_up);
}

void Consumer::Impl::read_promoted(const store::Promoted& promoted) {
  keeps_watch_ = promoted.keeps;
  const bool more = promoted.moved == store::kBatch;
  if (promoted.next && (promoted.keeps || more)) {
    promote_due_ = std::min(promote_due_, Clock::now() + *promoted.next);
  }
  if (promoted.moved > 0) intake_.look_later();  // a take that went along tells more
  report_.count(EventKind::ready, promoted.moved);
  report_.event(EventKind::ready, promoted.ids);
}

// Whether another consumer should be woken, since more waits than we can take. Once, until there is room again.
bool Consumer::Impl::is_too_much(bool found) {
  const bool full = !stopping_ && intake_.room(hands_load()) == 0;
  const bool told = std::exchange(told_, full);
  return (full && intake_.more_ready() && !told) || (found && (full || stopping_));
}

void Consumer::Impl::read_taken() {
  const auto taken = intake_.read_taken();
  if (!taken) return;
  held_.saw_time(taken->now_us, taken->asked);
  for (const DeliveryPtr& delivery : taken->deliveries) held_.add(delivery);
  for (const DeliveryPtr& delivery : taken->foreign) {
    held_.add(delivery);
    settling_.add(delivery);  // removed by receipt
  }
  foreign_ += taken->removed;
  if (!taken->foreign_id.empty()) tell_foreign(taken->foreign_id);
  event(EventKind::delivered, taken->deliveries);
  if (intake_.retry_is_due() != keeping_free_) hands_->keep_one_free(keeping_free_ = !keeping_free_);
}

void Consumer::Impl::read_fetched() {
  Intake::Fetched fetched = intake_.read_fetched();
  for (const DeliveryPtr& delivery : fetched.expired) settling_.add(delivery);  // removed by receipt
  if (!fetched.expired.empty()) tell_expired(fetched.expired.front()->message.id);
  delivered_ += fetched.line.size() + fetched.urgent.size();
  with_hands_ += fetched.line.size() + fetched.urgent.size();
  hands_->submit_urgent(std::move(fetched.urgent));
  hands_->submit(std::move(fetched.line));
}

// As it should be after a TTL; else something is wrong, and messages are lost by it. Once a minute is enough.
void Consumer::Impl::tell_expired(const std::string& id) {
  const Clock::time_point now = Clock::now();
  if (now < tell_expired_at_) return;
  tell_expired_at_ = now + std::chrono::minutes(1);
  report_.log(Severity::warning, "removed " + redis::escaped(id) +
                                     ", and perhaps more, whose bodies are gone: their TTL has ended, or " +
                                     "Redis evicted them, or producers use other queue options (bodies_under_dp)");
}

// Another program wrote it: an id becomes part of a key, and of whatever handlers make of it.
void Consumer::Impl::tell_foreign(const std::string& id) {
  if (std::exchange(told_foreign_, true)) return;
  report_.log(Severity::warning, "removed \"" + redis::escaped(id) +
                                     "\" before a handler saw it: no UUID in its form of 36 characters, in lower " +
                                     "case, so no message of this library or of the Go library; more of this kind " +
                                     "are counted only (stats().foreign); check() finds what is left");
}

// ---- Events --------------------------------------------------------------------------------------------------------

void Consumer::Impl::event(EventKind kind, const std::vector<DeliveryPtr>& deliveries) {
  report_.count(kind, deliveries.size());
  if (report_.wants_events()) report_.event(kind, ids_of(deliveries));
}

void Consumer::Impl::event(EventKind kind, const std::vector<std::string>& ids) {
  report_.count(kind, ids.size());
  report_.event(kind, ids);
}

}  // namespace delayqueue
