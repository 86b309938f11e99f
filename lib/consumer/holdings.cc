#include "consumer/holdings.h"

#include "queue/option_checks.h"
#include "store/pause.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <utility>

namespace delayqueue {
namespace {

using Content = InFlightMessage::Content;

constexpr std::size_t kLongestReason = 1024;
constexpr char kRefused = '?';
constexpr std::size_t kMostSlowVerdicts = 64;  // nacks, snoozes and pauses in a round trip: each takes several commands

store::Receipt receipt_of(const InFlightPtr& delivery) { return {delivery->message.id(), delivery->receipt_us}; }

std::vector<store::Receipt> receipts_of(const std::vector<InFlightPtr>& deliveries) {
  std::vector<store::Receipt> receipts;
  receipts.reserve(deliveries.size());
  for (const InFlightPtr& delivery : deliveries) receipts.push_back(receipt_of(delivery));
  return receipts;
}

// What the answer to its request says. After an ack nothing is left; after a nack or snooze the message has no lease,
// or another one.
SettlingEvent event_of(const InFlightMessage& delivery, char outcome) {
  if (outcome == kRefused) return SettlingEvent::refuse;
  if (outcome == 'S' || outcome == 'D' || outcome == 'P') return SettlingEvent::confirm;
  if (delivery.verdict->kind() != Verdict::Kind::ack) return SettlingEvent::find_moved;
  return outcome == 'G' ? SettlingEvent::find_gone : SettlingEvent::find_taken;
}

bool was_refused(const InFlightPtr& delivery) {
  return delivery->settling == Settling::refused || delivery->settling == Settling::unanswered_refused;
}

}  // namespace

using std::chrono::duration_cast;
using std::chrono::microseconds;

// ---- LeaseKeeper ----------------------------------------------------------------------------------------------------

void LeaseKeeper::add(const InFlightPtr& delivery) {
  InFlightPtr& held = held_[delivery->message.id()];
  const InFlightPtr before = std::exchange(held, delivery);
  if (before == nullptr || before == delivery) return;
  lose(before);
  lost_({before});
}

void LeaseKeeper::remove(const InFlightPtr& delivery) {
  if (holds(delivery)) held_.erase(delivery->message.id());
}

void LeaseKeeper::lose(const InFlightPtr& delivery) {
  delivery->lease->lose();
  remove(delivery);
}

// The same message may be held again, as another delivery.
bool LeaseKeeper::holds(const InFlightPtr& delivery) const {
  const auto found = held_.find(delivery->message.id());
  return found != held_.end() && found->second == delivery;
}

void LeaseKeeper::observe_clock(std::int64_t now_us, Clock::time_point sent_at) {
  if (held_.empty() && !is_unconfirmed()) {
    to_renew_.clear();
    round_began_ = sent_at;
    renewal_due_ = round_began_ + lease_ / 3;
  }
  sample_ = {now_us, sent_at, Clock::now()};
}

LeaseKeeper::Renewal LeaseKeeper::new_renewal(std::size_t most) {
  const Clock::time_point now = Clock::now();
  if (to_renew_.empty()) {
    round_began_ = now;
    to_renew_.reserve(held_.size());
    for (const auto& [id, delivery] : held_) to_renew_.push_back(delivery);
  }
  Renewal renewal;
  for (; !to_renew_.empty() && renewal.members.size() < most; to_renew_.pop_back()) {
    const InFlightPtr& delivery = to_renew_.back();
    if (!delivery->is_sent() && holds(delivery)) renewal.members.push_back(delivery);
  }
  // Redis' clock is at least the sample plus the time since its answer. How long the answer itself took is unknown.
  renewal.new_end_us = sample_.now_us + duration_cast<microseconds>(now - sample_.answered + lease_).count();
  if (renewal.new_end_us % 1000 == 0) ++renewal.new_end_us;  // whole milliseconds are backoffs: see nack.lua
  renewal.trusted = now + lease_ - (sample_.answered - sample_.sent_at);
  return renewal;
}

void LeaseKeeper::renew(RoundTrip& round_trip, const store::Moves& moves, std::size_t most) {
  Renewal next = unconfirmed_;
  std::vector<InFlightPtr>& old = next.members;
  old.erase(std::remove_if(old.begin(), old.end(), [&](const auto& one) { return !holds(one); }), old.end());
  next.repeats = !old.empty();
  if (old.empty()) next = new_renewal(most);
  next.sent_at = Clock::now();
  renewal_due_ = to_renew_.empty() ? round_began_ + lease_ / 3 : Clock::time_point();
  const auto renewal = std::make_shared<const Renewal>(std::move(next));
  const std::vector<InFlightPtr>& members = renewal->members;
  for (std::size_t first = 0; first < members.size(); first += store::kBatch) {
    std::vector<store::Receipt> receipts;
    for (std::size_t i = first; i < std::min(first + store::kBatch, members.size()); ++i) {
      receipts.push_back({members[i]->message.id(), members[i]->receipt_us});
    }
    round_trip.expect(
        moves.renew(round_trip.pipeline(), receipts, renewal->new_end_us),
        [this, renewal, first](const auto& answer) { finish(*renewal, first, answer); },
        [this, renewal, first] { keep_unconfirmed(*renewal, first); });
  }
  unconfirmed_ = {};  // last: what throws before this changes nothing
}

// `first`: the index of the request's first member.
void LeaseKeeper::finish(const Renewal& renewal, std::size_t first, const store::Answer<store::Renewed>& answer) {
  store::Renewed renewed;
  try {
    renewed = answer.get();
  } catch (const Error&) {
    keep_unconfirmed(renewal, first);
    throw;
  }
  observe_clock(renewed.now_us, renewal.sent_at);
  const bool in_time = renewal.new_end_us > renewed.now_us;
  const bool again = !in_time || renewal.repeats;
  if (again) renew_soon();
  std::vector<InFlightPtr> lost;
  for (std::size_t i = 0; i < renewed.outcomes.size() && first + i < renewal.members.size(); ++i) {
    const InFlightPtr& delivery = renewal.members[first + i];
    const char outcome = renewed.outcomes[i];
    if (outcome == 'N') delivery->receipt_us = renewal.new_end_us;
    if (!holds(delivery)) continue;  // lost while the answer was on its way
    if (outcome == 'N' && in_time) delivery->lease->renew(renewal.trusted);
    if (outcome != 'T' && outcome != 'G') {
      if (again) to_renew_.push_back(delivery);
      continue;
    }
    lose(delivery);
    lost.push_back(delivery);
  }
  if (!lost.empty()) lost_(lost);
}

void LeaseKeeper::keep_unconfirmed(const Renewal& renewal, std::size_t first) {
  const std::size_t end = std::min(first + store::kBatch, renewal.members.size());
  for (std::size_t i = first; i < end; ++i) unconfirmed_.members.push_back(renewal.members[i]);
  unconfirmed_.new_end_us = renewal.new_end_us;
  unconfirmed_.trusted = renewal.trusted;
  renew_soon();
}

std::vector<InFlightPtr> LeaseKeeper::lose_overrunning(milliseconds most) {
  std::vector<InFlightPtr> late;
  for (const auto& [id, delivery] : held_) {
    if (delivery->runs_longer_than(most)) late.push_back(delivery);
  }
  for (const InFlightPtr& delivery : late) lose(delivery);
  return late;
}

// ---- Settler --------------------------------------------------------------------------------------------------------

std::size_t Settler::settle(RoundTrip& round_trip, const store::Moves& moves, bool renews, bool paced) {
  std::vector<InFlightPtr> acks, expired, skipped, foreign, nacks, snoozes, pauses;
  const bool hold = renews && !holds_back_;  // not twice in a row: it may be the renewal that is refused
  const auto end =
      !hold ? waiting_.end() : std::stable_partition(waiting_.begin(), waiting_.end(), std::not_fn(was_refused));
  holds_back_ = end != waiting_.end();
  const auto ready = static_cast<std::size_t>(end - waiting_.begin());
  for (std::size_t i = 0; i < std::min(ready, kMostBatches * store::kBatch); ++i) {
    if (nacks.size() + snoozes.size() + pauses.size() == kMostSlowVerdicts) break;
    const InFlightPtr& delivery = waiting_[i];
    delivery->change(SettlingEvent::send);
    if (delivery->content != Content::message) {
      auto& group = delivery->content == Content::foreign   ? foreign
                    : delivery->content == Content::skipped ? skipped
                                                            : expired;
      group.push_back(delivery);
      continue;
    }
    switch (delivery->verdict->kind()) {
      case Verdict::Kind::ack:
        acks.push_back(delivery);
        break;
      case Verdict::Kind::snooze:
        snoozes.push_back(delivery);
        break;
      case Verdict::Kind::pause_queue:
        pauses.push_back(delivery);
        break;
      case Verdict::Kind::nack:
      case Verdict::Kind::reject:
        nacks.push_back(delivery);
        break;
    }
  }
  const std::size_t taken =
      acks.size() + expired.size() + skipped.size() + foreign.size() + nacks.size() + snoozes.size() + pauses.size();
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(taken));
  if (!pauses.empty()) add_pauses(round_trip, moves, std::move(pauses));  // first: nothing else may be taken
  if (!acks.empty()) add_removals(round_trip, moves, {"acked", paced}, acks);
  if (!expired.empty()) add_removals(round_trip, moves, {"expired", paced}, expired);
  if (!skipped.empty()) add_removals(round_trip, moves, {"skipped", paced}, skipped);
  if (!foreign.empty()) add_removals(round_trip, moves, {"foreign", paced}, foreign);
  if (!nacks.empty()) add_nacks(round_trip, moves, std::move(nacks));
  if (!snoozes.empty()) add_snoozes(round_trip, moves, std::move(snoozes));
  return taken;
}

void Settler::add_removals(RoundTrip& round_trip, const store::Moves& moves, store::Removal removal,
                           const std::vector<InFlightPtr>& members) {
  for (std::size_t first = 0; first < members.size(); first += store::kBatch) {
    const auto begin = members.begin() + static_cast<std::ptrdiff_t>(first);
    const auto size = static_cast<std::ptrdiff_t>(std::min(store::kBatch, members.size() - first));
    std::vector<InFlightPtr> some(begin, begin + size);
    store::Removal of_some = removal;
    of_some.paced = of_some.paced || std::any_of(some.begin(), some.end(),
                                                 [](const InFlightPtr& delivery) { return delivery->may_have_key; });
    const auto answer = moves.remove(round_trip.pipeline(), of_some, receipts_of(some));
    expect(round_trip, answer, {Verdict::Kind::ack, std::move(some)});
  }
}

void Settler::add_nacks(RoundTrip& round_trip, const store::Moves& moves, std::vector<InFlightPtr> members) {
  std::vector<store::Nack> nacks;
  std::vector<milliseconds> delays;
  for (const InFlightPtr& delivery : members) {
    delays.push_back(delay_of(*delivery));
    const std::string_view reason = std::string_view(delivery->verdict->reason()).substr(0, kLongestReason);
    const bool reject = delivery->verdict->kind() == Verdict::Kind::reject;
    nacks.push_back({receipt_of(delivery), reject ? std::nullopt : std::optional(delays.back()), reason});
  }
  const auto answer = moves.nack(round_trip.pipeline(), nacks);
  expect(round_trip, answer, {Verdict::Kind::nack, std::move(members), std::move(delays)});
}

void Settler::add_snoozes(RoundTrip& round_trip, const store::Moves& moves, std::vector<InFlightPtr> members) {
  std::map<milliseconds, std::vector<InFlightPtr>> by_delay;
  for (InFlightPtr& delivery : members) by_delay[delay_of(*delivery)].push_back(std::move(delivery));
  for (auto& [delay, some] : by_delay) {
    const auto answer = moves.release(round_trip.pipeline(), receipts_of(some), delay);
    expect(round_trip, answer, {Verdict::Kind::snooze, std::move(some)});
  }
}

// One call for each, the longest pause first: a verdict that is stale pauses nothing, and of the others the first
// counts. A pause counts from when its verdict was there: a request that is sent again, perhaps after an outage, does
// not pause again.
void Settler::add_pauses(RoundTrip& round_trip, const store::Moves& moves, std::vector<InFlightPtr> members) {
  const auto end_of = [](const InFlightMessage& delivery) {
    return std::chrono::time_point_cast<milliseconds>(delivery.settled_at) + *delivery.verdict->after();
  };
  std::sort(members.begin(), members.end(), [&](const auto& a, const auto& b) { return end_of(*a) > end_of(*b); });
  for (const InFlightPtr& one : members) {
    const auto left = end_of(*one) - std::chrono::time_point_cast<milliseconds>(Lease::Clock::now());
    const bool is_over = left.count() <= 0 && one->verdict->after()->count() > 0;
    const std::string why = store::held_off_text(one->verdict->reason());
    const auto answer = is_over ? moves.release(round_trip.pipeline(), receipts_of({one}), milliseconds(0))
                                : moves.release_and_pause(round_trip.pipeline(), receipts_of({one}),
                                                          std::max<milliseconds>(left, milliseconds(1)), why);
    expect(round_trip, answer, {Verdict::Kind::pause_queue, {one}});
  }
}

milliseconds Settler::delay_of(const InFlightMessage& delivery) {
  const Verdict& verdict = *delivery.verdict;
  if (verdict.after()) return sensible(*verdict.after(), verdict.kind() == Verdict::Kind::snooze ? "snooze" : "nack");
  if (verdict.kind() == Verdict::Kind::reject) return kLongest;
  try {
    return sensible(backoff_(delivery.message.attempt()), "backoff");
  } catch (...) {  // of the user's function; the message needs another delivery all the same
    warn("backoff (exception)", "the backoff threw: " + current_exception_text() + "; taken as 1000 ms");
  }
  return milliseconds(1000);
}

milliseconds Settler::sensible(milliseconds after, const char* kind) {
  const milliseconds taken = std::clamp(after, milliseconds(0), kLongest);
  if (taken != after) {
    warn(kind, std::string(kind) + ": a wait of " + std::to_string(after.count()) +
                   " ms; expected 0 to a hundred years; taken as " + std::to_string(taken.count()) + " ms");
  }
  return taken;
}

void Settler::warn(const char* kind, std::string line) {
  const auto now = std::chrono::steady_clock::now();
  auto& warned = warned_[kind];
  if (warned && now < *warned + std::chrono::minutes(1)) return;
  warned = now;
  warnings_.push_back(std::move(line));
}

void Settler::expect(RoundTrip& round_trip, const store::Answer<store::Outcomes>& answer, Batch some) {
  const auto batch = std::make_shared<const Batch>(std::move(some));
  round_trip.expect(
      answer, [this, batch](const auto& outcomes) { finish(*batch, outcomes); }, [this, batch] { drop(*batch); });
}

void Settler::finish(const Batch& batch, const store::Answer<store::Outcomes>& answer) {
  std::optional<redis::Failure> refused;
  store::Outcomes outcomes;
  try {
    outcomes = answer.get();
  } catch (const Error&) {
    refused = redis::current_failure();
  }
  outcomes.resize(batch.members.size(), kRefused);
  Outcome outcome;
  sort(batch, outcomes, outcome);
  settled_(outcome);
  if (refused) redis::raise(*refused);
}

// The answer will not come: Redis may have settled the deliveries or not. They are settled again.
void Settler::drop(const Batch& batch) {
  for (const InFlightPtr& delivery : batch.members) {
    if (!delivery->is_sent()) continue;  // its answer was read
    delivery->change(SettlingEvent::lose_answer);
    waiting_.push_back(delivery);
  }
}

// If memory runs out, all are as before, and drop() settles them again.
void Settler::sort(const Batch& batch, const store::Outcomes& outcomes, Outcome& outcome) {
  std::vector<InFlightPtr> refused;
  for (std::size_t i = 0; i < batch.members.size(); ++i) {
    const InFlightPtr& delivery = batch.members[i];
    const SettlingEvent event = event_of(*delivery, outcomes[i]);
    if (event == SettlingEvent::refuse) {
      refused.push_back(delivery);
    } else if (delivery->content == Content::expired) {
      outcome.expired.push_back(delivery);
    } else if (delivery->content == Content::skipped) {
      outcome.skipped.push_back(delivery);
    } else if (delivery->content == Content::foreign) {
      outcome.foreign.push_back(delivery);
    } else if (settling_after(delivery->settling, event) == Settling::stale) {
      outcome.stale.push_back(delivery);
    } else if (batch.kind == Verdict::Kind::ack) {
      outcome.acked.push_back(delivery);
    } else if (batch.kind == Verdict::Kind::snooze) {
      outcome.snoozed.push_back(delivery);
    } else if (batch.kind == Verdict::Kind::pause_queue) {
      outcome.pauses.push_back(delivery);
      if (outcomes[i] == 'P') outcome.paused_queue = delivery;
    } else {
      outcome.nacked.push_back(delivery);
      if (outcomes[i] == 'D') outcome.dead_lettered.push_back(delivery);
      outcome.soonest = std::min(outcome.soonest, batch.delays[i]);
    }
  }
  waiting_.insert(waiting_.end(), refused.begin(), refused.end());
  for (std::size_t i = 0; i < batch.members.size(); ++i) {
    batch.members[i]->change(event_of(*batch.members[i], outcomes[i]));
  }
}

}  // namespace delayqueue
