#include "consumer/lease_keeper.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace delayqueue {

using std::chrono::duration_cast;
using std::chrono::microseconds;

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

void LeaseKeeper::renew(RoundTrip& round_trip, const store::Store& store, std::size_t most) {
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
        store.renew(round_trip.pipeline(), receipts, renewal->new_end_us),
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
    if (!holds(delivery)) continue;  // expired while the answer was on its way
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

std::vector<InFlightPtr> LeaseKeeper::expire_overrunning(milliseconds most) {
  std::vector<InFlightPtr> late;
  for (const auto& [id, delivery] : held_) {
    if (delivery->runs_longer_than(most)) late.push_back(delivery);
  }
  for (const InFlightPtr& delivery : late) lose(delivery);
  return late;
}

}  // namespace delayqueue
