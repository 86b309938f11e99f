#include "consumer_impl.h"
#include "inside.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

// What a consumer does, tick by tick; how one begins and ends is in consumer_life.cc.
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
  // Handlers that end wake us; that is no reason to try sooner.
  if (const auto left = trouble_.left(Clock::now()); left.count() > 0 && !stopping_) return left;
  try {
    if (connection_ == nullptr || connection_->has_moved()) connect();
    return tick();
  } catch (const std::exception& e) {
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
  if (options_.logger) risk_watch_.look(*connection, report_);
  connection_ = std::move(connection);
}

// One write, one read: settle what is done, renew what is held, move what is due, take what there is room for, and
// fetch the bodies of what the last tick took.
Loop::Rest Consumer::Impl::tick() {
  collect_done();
  let_go_of_late();
  redis::Pipeline pipeline(*connection_);
  const Asked asked = ask(pipeline);
  pipeline.run();
  read(asked);
  if (pipeline.resent()) promote_due_ = Clock::time_point();  // the take may have run before the moves
  if (!settling_.holds_back()) well();
  return rest();
}

Consumer::Impl::Asked Consumer::Impl::ask(redis::Pipeline& pipeline) {
  Asked asked;
  const bool stopping = stopping_;
  const bool gives_back = stopping && give_back_unstarted();
  const bool found = watch_.found();
  if (found) promote_due_ = Clock::time_point();
  const Clock::time_point now = Clock::now();

  asked.renews = !held_.empty() && now >= held_.renewal_due();
  asked.settles = settling_.settle(pipeline, store_, asked.renews);
  if (asked.renews) held_.renew(pipeline, store_);
  if (!stopping) {
    if (now >= std::max(reclaim_due_, reclaim_from_)) asked.reclaimed = store_.unack2retry(pipeline);
    if (now >= promote_due_) asked.promoted = store_.pending2ready(pipeline, report_.wants_events());
    const Intake::Load load = hands_load();
    const bool may_find = asked.reclaimed || asked.promoted || intake_.may_find(load);
    // What cannot be settled must not pile up in our hands.
    const bool backlog = settling_.size() > store::kBatch;
    if (may_find && backlog) intake_.look_later();
    if (may_find && !backlog) intake_.take(pipeline, store_, load);
    intake_.fetch(pipeline, store_);
  }
  if (gives_back || is_too_much(found)) store_.wake(pipeline);
  const auto some = static_cast<std::ptrdiff_t>(std::min(to_persist_.size(), store::kBatch));
  if (some > 0) asked.persisted = store_.persist(pipeline, {to_persist_.begin(), to_persist_.begin() + some});
  asked.keeps_house = !stopping && now >= housekeeping_.due();
  if (asked.keeps_house) housekeeping_.work(pipeline, store_);
  report_.publish(pipeline, store_.keys().channel);
  if (asked.settles > 0) asked.durable = durable_.ask(pipeline, short_);
  return asked;
}

// Each answer counts, whatever became of the others: what was taken must be in our hands.
void Consumer::Impl::read(const Asked& asked) {
  std::exception_ptr refused;
  const auto part = [&](bool there, const auto& answer) {
    try {
      if (there) answer();
    } catch (const Error&) {
      refused = std::current_exception();
    }
  };
  part(asked.persisted.has_value(), [&] {
    asked.persisted->get();
    const auto done = static_cast<std::ptrdiff_t>(std::min(to_persist_.size(), store::kBatch));
    to_persist_.erase(to_persist_.begin(), to_persist_.begin() + done);
  });
  part(true, [&] { read_settled(); });
  part(asked.durable.has_value(), [&] { read_durable(asked); });
  part(asked.renews, [&] { read_renewals(); });
  part(asked.reclaimed.has_value(), [&] { read_reclaimed(asked.reclaimed->get()); });
  part(asked.promoted.has_value(), [&] { read_promoted(asked.promoted->get()); });
  part(true, [&] { read_fetched(); });
  part(true, [&] { read_taken(); });
  part(asked.keeps_house, [&] {
    const std::size_t trimmed = housekeeping_.read_answers();
    if (trimmed > 0) report_.log(Severity::info, "trimmed " + std::to_string(trimmed) + " dead letters");
  });
  if (const auto jump = clock_watch_.look(held_.last_sight())) {
    report_.log(Severity::warning, to_text(*jump, connection_->where()));
  }
  note_drained();  // not sooner: this tick may have taken some, just before we were told to stop
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
  settling_.forget_answers();
  intake_.forget_answers();
  housekeeping_.forget_answers();
  const bool broken = dynamic_cast<const ConnectionError*>(&e) != nullptr;
  if (connection_ != nullptr && (broken || connection_->is_stale())) connection_.reset();
  note_drained();
  return trouble_.left(Clock::now());
}

// What a password or an ACL rule forbids is asked for less often, but not so that the leases of what is held end.
Trouble::Patience Consumer::Impl::patience_with(const std::exception& e) const {
  if (dynamic_cast<const redis::AccessError*>(&e) == nullptr) return kAway;
  const bool holds = connection_ != nullptr && !held_.empty();
  return holds ? Trouble::Patience{kRefused.shortest, std::clamp(options_.lease / 3, kAway.longest, kRefused.longest)}
               : kRefused;
}

Loop::Rest Consumer::Impl::rest() {
  const bool busy = intake_.is_fetching() || !settling_.empty() || !to_persist_.empty() || report_.has_counts();
  if (busy) return Loop::Rest::zero();
  Clock::time_point next = Clock::now() + options_.poll_interval;
  if (!held_.empty()) next = std::min(next, held_.renewal_due());
  if (!held_.empty()) next = std::min(next, Clock::now() + options_.processing_timeout / 10);
  if (!stopping_) {
    const Intake::Load load = hands_load();
    if (intake_.should_go_on(load)) return Loop::Rest::zero();
    next = std::min({next, promote_due_, std::max(reclaim_due_, reclaim_from_), housekeeping_.due()});
    next = std::min(next, intake_.look_due());
    if (intake_.room(load) > 0 && next > Clock::now()) watch_.begin();
  }
  return {next - Clock::now(), watch_.fd()};
}

// ---- Settle and renew ----------------------------------------------------------------------------------------------

void Consumer::Impl::collect_done() {
  std::vector<DeliveryPtr> done;
  {
    const std::lock_guard lock(done_mutex_);
    done.swap(done_);
  }
  with_hands_ -= done.size();
  for (const DeliveryPtr& delivery : done) settling_.add(delivery);
  intake_.handled(done);
}

void Consumer::Impl::read_settled() {
  const Settling::Outcome outcome = settling_.read_answers();
  for (const auto* group : {&outcome.acked, &outcome.expired, &outcome.nacked, &outcome.snoozed, &outcome.stale}) {
    for (const DeliveryPtr& delivery : *group) held_.remove(delivery);
  }
  acked_ += outcome.acked.size();
  expired_ += outcome.expired.size();
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
void Consumer::Impl::read_durable(const Asked& asked) {
  const std::string missing = durable_.missing(asked.durable);
  if (!missing.empty()) unconfirmed_ += asked.settles;
  if (missing.empty() == !short_) return;
  short_ = !missing.empty();
  if (short_) report_.log(Severity::warning, "verdicts are not as durable as asked for: " + missing);
  if (!short_) report_.log(Severity::info, "verdicts are as durable as asked for again");
}

void Consumer::Impl::note_drained() {
  if (!stopping_ || !held_.empty() || !settling_.empty() || !to_persist_.empty() || with_hands_ > 0) return;
  const std::lock_guard lock(state_mutex_);
  drained_ = true;
  state_changed_.notify_all();
}

void Consumer::Impl::read_renewals() {
  for (const DeliveryPtr& delivery : held_.read_renewals()) {
    // What is in doubt was most likely settled, and is gone for that.
    if (!delivery->in_doubt) {
      report_.log(Severity::warning, "lost the lease of " + delivery->message.id + ": another consumer may have it");
    }
    replace_hand(*delivery);
  }
}

void Consumer::Impl::let_go_of_late() {
  for (const DeliveryPtr& delivery : held_.let_go_of_late(options_.processing_timeout)) {
    report_.log(Severity::warning, "the handler of " + delivery->message.id + " runs longer than processing_timeout (" +
                                       std::to_string(options_.processing_timeout.count()) + " ms): its lease may end");
    replace_hand(*delivery);
  }
}

// A handler that goes on without its lease keeps its thread busy; others must not have to wait for it.
void Consumer::Impl::replace_hand(Delivery& delivery) {
  if (!delivery.replace_hand()) return;
  try {
    hands_->add_hand();
  } catch (const std::exception& e) {
    delivery.keep_hand();
    report_.log(Severity::error, std::string("cannot make a thread in place of one whose handler hangs: ") + e.what());
  }
}

// ---- Move and take -------------------------------------------------------------------------------------------------

void Consumer::Impl::read_reclaimed(const store::Reclaimed& reclaimed) {
  const bool more = reclaimed.moved == store::kBatch;
  const auto wait = more ? milliseconds(0) : options_.poll_interval;
  reclaim_due_ = Clock::now() + std::min<Clock::duration>(wait, reclaimed.next.value_or(options_.poll_interval));
  to_persist_.insert(to_persist_.end(), reclaimed.given_up.begin(), reclaimed.given_up.end());
  if (!reclaimed.retried.empty()) intake_.retry_grew();
  event(EventKind::retried, reclaimed.retried);
  event(EventKind::gave_up, reclaimed.given_up);
}

void Consumer::Impl::read_promoted(const store::Promoted& promoted) {
  promote_due_ =
      Clock::now() + std::min<Clock::duration>(options_.poll_interval, promoted.next.value_or(options_.poll_interval));
  report_.count(EventKind::ready, promoted.moved);
  report_.event(EventKind::ready, promoted.ids);
}

Intake::Load Consumer::Impl::hands_load() const {
  const Hands::Load load = hands_->load();
  return {load.idle, load.waiting};
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
  report_.log(Severity::warning, "removed " + id +
                                     ", and perhaps more, whose bodies are gone: their TTL has ended, or " +
                                     "Redis evicted them, or producers use other queue options (bodies_under_dp)");
}

// Stopping: what no handler has begun goes back as if it had never been taken.
bool Consumer::Impl::give_back_unstarted() {
  std::vector<DeliveryPtr> unstarted = hands_->take_back();
  with_hands_ -= unstarted.size();
  for (DeliveryPtr& delivery : intake_.give_up_fetching()) unstarted.push_back(std::move(delivery));
  std::reverse(unstarted.begin(), unstarted.end());  // each goes before those given back earlier
  for (const DeliveryPtr& delivery : unstarted) {
    delivery->end(snooze(milliseconds(0)));
    settling_.add(delivery);
  }
  return !unstarted.empty();
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

// ---- In a hand's thread --------------------------------------------------------------------------------------------

bool Consumer::Impl::handle(Delivery& delivery) {
  // Redis may have been away for longer than the lease. If the message is still ours it goes back untouched.
  if (delivery.message.lost()) return delivery.end(snooze(milliseconds(0)));
  delivery.begin();
  return delivery.end(ask_handler(delivery.message));
}

void Consumer::Impl::hand_back(DeliveryPtr& delivery) {
  {
    const std::lock_guard lock(done_mutex_);
    done_.push_back(std::move(delivery));
  }
  loop_.wake();
}

Verdict Consumer::Impl::ask_handler(const Message& message) {
  const Inside handler(this);
  Verdict verdict = nack("the handler threw something that is no std::exception");
  try {
    verdict = handler_(message);
  } catch (const std::exception& e) {
    verdict = nack(std::string(e.what()));
  } catch (...) {  // said above
  }
  return verdict;
}

}  // namespace delayqueue
