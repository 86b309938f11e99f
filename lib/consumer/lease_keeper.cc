#include "consumer/lease_keeper.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace delayqueue {

using std::chrono::duration_cast;
using std::chrono::microseconds;

void LeaseKeeper::remove(const DeliveryPtr& delivery) {
  const auto found = held_.find(delivery->message.id);
  // The id may have come to us again in the meantime, as another delivery.
  if (found != held_.end() && found->second == delivery) held_.erase(found);
}

void LeaseKeeper::observe_clock(std::int64_t now_us, Clock::time_point asked) {
  if (held_.empty() && !is_unconfirmed()) renewal_due_ = asked + lease_ / 3;
  seen_ = {now_us, asked, Clock::now()};
}

bool LeaseKeeper::holds(const DeliveryPtr& delivery) const {
  const auto found = held_.find(delivery->message.id);
  return found != held_.end() && found->second == delivery;
}

void LeaseKeeper::begin_renewal() {
  const Clock::time_point now = Clock::now();
  for (const auto& [id, delivery] : held_) {
    if (!delivery->settling) renewal_.members.push_back(delivery);
  }
  // Counted from the answer, so not later than Redis' clock; what the trip took is what we cannot know.
  renewal_.new_end_us = seen_.now_us + duration_cast<microseconds>(now - seen_.answered + lease_).count();
  if (renewal_.new_end_us % 1000 == 0) ++renewal_.new_end_us;  // whole milliseconds are backoffs: see nack.lua
  renewal_.trusted = now + lease_ - (seen_.answered - seen_.asked);
}

void LeaseKeeper::renew(redis::Pipeline& pipeline, const store::Store& store) {
  std::vector<DeliveryPtr>& members = renewal_.members;
  members.erase(std::remove_if(members.begin(), members.end(), [&](const auto& one) { return !holds(one); }),
                members.end());
  renewal_.repeats = !members.empty();
  if (members.empty()) begin_renewal();
  renewal_.asked = Clock::now();
  renewal_due_ = renewal_.asked + lease_ / 3;
  renewal_.answers.clear();
  for (std::size_t i = 0; i < members.size(); i += store::kBatch) {
    std::vector<store::Receipt> receipts;
    for (std::size_t j = i; j < std::min(i + store::kBatch, members.size()); ++j) {
      receipts.push_back({members[j]->message.id, members[j]->receipt_us});
    }
    renewal_.answers.push_back(store.renew(pipeline, receipts, renewal_.new_end_us));
  }
}

void LeaseKeeper::apply(const Renewal& renewal, const store::Renewed& renewed, std::size_t first,
                        std::vector<DeliveryPtr>& lost) {
  observe_clock(renewed.now_us, renewal.asked);
  const bool in_time = renewal.new_end_us > renewed.now_us;
  if (!in_time || renewal.repeats) renew_soon();
  for (std::size_t i = 0; i < renewed.outcomes.size() && first + i < renewal.members.size(); ++i) {
    const DeliveryPtr& delivery = renewal.members[first + i];
    const char outcome = renewed.outcomes[i];
    if (outcome == 'N') delivery->receipt_us = renewal.new_end_us;
    if (!holds(delivery)) continue;  // let go of while the answer was on its way
    if (outcome == 'N' && in_time) delivery->lease->renew(renewal.trusted);
    if (outcome != 'T' && outcome != 'G') continue;
    delivery->lease->lose();
    remove(delivery);
    lost.push_back(delivery);
  }
}

// To be asked for again as it was: whether it ran, or an earlier one that it repeats, is not known.
void LeaseKeeper::keep_unconfirmed(const Renewal& renewal, std::size_t first) {
  const std::size_t end = std::min(first + store::kBatch, renewal.members.size());
  for (std::size_t i = first; i < end; ++i) renewal_.members.push_back(renewal.members[i]);
  renewal_.new_end_us = renewal.new_end_us;
  renewal_.trusted = renewal.trusted;
  renew_soon();
}

std::vector<DeliveryPtr> LeaseKeeper::read_renewals() {
  const Renewal renewal = std::exchange(renewal_, {});
  std::vector<DeliveryPtr> lost;
  std::exception_ptr refused;
  for (std::size_t i = 0; i < renewal.answers.size(); ++i) {
    try {
      apply(renewal, renewal.answers[i].get(), i * store::kBatch, lost);
    } catch (const Error&) {
      refused = std::current_exception();
      keep_unconfirmed(renewal, i * store::kBatch);
    }
  }
  if (refused != nullptr && lost.empty()) std::rethrow_exception(refused);
  return lost;
}

std::vector<DeliveryPtr> LeaseKeeper::expire_overrunning(milliseconds most) {
  std::vector<DeliveryPtr> late;
  for (const auto& [id, delivery] : held_) {
    if (delivery->runs_longer_than(most)) late.push_back(delivery);
  }
  for (const DeliveryPtr& delivery : late) {
    delivery->lease->lose();
    remove(delivery);
  }
  return late;
}

}  // namespace delayqueue
