#include "consumer/poison_guard.h"

#include <algorithm>
#include <iterator>

namespace delayqueue {
namespace {

// A look behind suspects costs Redis about 1 us for each: so many of them, and not too often.
constexpr std::size_t kMostPassed = 1000;
constexpr milliseconds kPause{100};

bool has(const std::vector<DeliveryPtr>& deliveries, const DeliveryPtr& one) {
  return std::find(deliveries.begin(), deliveries.end(), one) != deliveries.end();
}

}  // namespace

bool Suspects::may_take() const {
  return std::all_of(in_hand_.begin(), in_hand_.end(), [&](const auto& one) { return one->runs_longer_than(lease_); });
}

void Suspects::plan(store::Places& places) const {
  places.suspects = !passing_ && may_take() ? 1 : 0;
  if (!passing_ || places.hands == 0) return;
  places.total = std::min(places.total, store::kBatch / 4);
  places.pass = std::min(left_, store::kBatch - places.total);
}

void Suspects::forget(const std::vector<DeliveryPtr>& done) {
  const auto over = [&](const DeliveryPtr& one) { return has(done, one); };
  in_hand_.erase(std::remove_if(in_hand_.begin(), in_hand_.end(), over), in_hand_.end());
}

// Suspects met for the first time get a moment: most are done with soon. Then all of retry is passed once; no suspect
// is taken meanwhile, so that they keep their order.
void Suspects::read(const store::Places& asked, const store::Taken& taken, const std::vector<DeliveryPtr>& deliveries) {
  std::copy_if(deliveries.begin(), deliveries.end(), std::back_inserter(in_hand_), [&](const DeliveryPtr& delivery) {
    return std::find(taken.suspects.begin(), taken.suspects.end(), delivery->message.id) != taken.suspects.end();
  });
  owed_ = taken.met > 0 && asked.suspects == 0;
  const Clock::time_point now = Clock::now();
  if (taken.met == 0) {
    passing_ = unseen_ = false;
    look_at_.reset();
  } else if (passing_) {
    left_ = std::min(left_, taken.retry_left) - std::min({left_, taken.retry_left, taken.met, asked.pass});
    passing_ = left_ > 0;
    unseen_ = false;
    look_at_ = passing_ ? now : now + kPause;
  } else if (!look_at_) {
    unseen_ = true;
    look_at_ = now + kPause;
  } else if (now >= *look_at_) {
    passing_ = true;
    left_ = std::min(taken.retry_left, kMostPassed);
  }
}

}  // namespace delayqueue
