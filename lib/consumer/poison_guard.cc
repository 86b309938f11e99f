#include "consumer/poison_guard.h"

#include <algorithm>
#include <iterator>

namespace delayqueue {
namespace {

// To pass over a message costs Redis about 1 us: a scan passes over so many, with a pause before the next one.
constexpr std::size_t kMostPassed = 1000;
constexpr milliseconds kPause{100};

bool has(const std::vector<InFlightPtr>& deliveries, const InFlightPtr& one) {
  return std::find(deliveries.begin(), deliveries.end(), one) != deliveries.end();
}

}  // namespace

bool PoisonGuard::may_take() const {
  return std::all_of(running_.begin(), running_.end(), [&](const auto& one) { return one->runs_longer_than(lease_); });
}

void PoisonGuard::plan(store::TakeLimits& limits) const {
  limits.poison_max = !scanning_ && may_take() ? 1 : 0;
  if (!scanning_ || limits.retry_max == 0) return;
  limits.total = std::min(limits.total, store::kBatch / 4);
  limits.poison_skip = std::min(left_, store::kBatch - limits.total);
}

void PoisonGuard::forget(const std::vector<InFlightPtr>& done) {
  const auto over = [&](const InFlightPtr& one) { return has(done, one); };
  running_.erase(std::remove_if(running_.begin(), running_.end(), over), running_.end());
}

// Possible poison messages that are met for the first time get a pause, because most leave retry soon. After it one
// scan passes over all of retry. None is taken during a scan, so that they keep their order.
void PoisonGuard::read(const store::TakeLimits& limits, const store::Taken& taken,
                       const std::vector<InFlightPtr>& deliveries) {
  std::copy_if(deliveries.begin(), deliveries.end(), std::back_inserter(running_), [&](const InFlightPtr& delivery) {
    return std::find(taken.possible_poison.begin(), taken.possible_poison.end(), delivery->message.id()) !=
           taken.possible_poison.end();
  });
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
