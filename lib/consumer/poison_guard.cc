#include "consumer/poison_guard.h"

#include <algorithm>

namespace delayqueue {
namespace {

// To pass over a message costs Redis about 1 us: a scan passes over so many, with a pause before the next one.
constexpr std::size_t kMostPassed = 1000;
constexpr milliseconds kPause{100};

bool has(const std::vector<InFlightPtr>& deliveries, const InFlightPtr& one) {
  return std::find(deliveries.begin(), deliveries.end(), one) != deliveries.end();
}

}  // namespace

bool PoisonRuns::may_add() const {
  return std::all_of(running_.begin(), running_.end(),
                     [](const Running& one) { return one.delivery->runs_longer_than(one.lease); });
}

void PoisonRuns::forget(const std::vector<InFlightPtr>& done) {
  const auto over = [&](const Running& one) { return has(done, one.delivery); };
  running_.erase(std::remove_if(running_.begin(), running_.end(), over), running_.end());
}

void PoisonGuard::describe(planning::LaneView& view) const {
  view.expects_poison = runs_.expects_one(this);
  view.resting = rescan_at_ && Clock::now() < *rescan_at_;
  view.scanning = scanning_;
  view.owes_poison = owed_;
  view.to_skip = left_;
}

// Possible poison messages that are met for the first time get a pause, because most leave retry soon. After it one
// scan passes over all of retry. None is taken during a scan, so that they keep their order.
void PoisonGuard::read(const store::TakeLimits& limits, const store::Taken& taken,
                       const std::vector<InFlightPtr>& deliveries) {
  for (const InFlightPtr& delivery : deliveries) {
    const std::vector<std::string>& poison = taken.possible_poison;
    const bool possible = std::find(poison.begin(), poison.end(), delivery->message.id()) != poison.end();
    if (possible) runs_.add(delivery, lease_);
  }
  owed_ = taken.further_poison > 0 && limits.poison_max == 0;
  const Clock::time_point now = Clock::now();
  if (taken.further_poison == 0) {
    scanning_ = may_hide_others_ = false;
    rescan_at_.reset();
  } else if (scanning_) {
    left_ = std::min(left_, taken.retry_left) -
            std::min({left_, taken.retry_left, taken.further_poison, limits.poison_skip});
    scanning_ = left_ > 0;
    may_hide_others_ = false;
    rescan_at_ = scanning_ ? now : now + kPause;
  } else if (!rescan_at_) {
    may_hide_others_ = true;
    rescan_at_ = now + kPause;
  } else if (now >= *rescan_at_) {
    scanning_ = true;
    left_ = std::min(taken.retry_left, kMostPassed);
  }
}

}  // namespace delayqueue
