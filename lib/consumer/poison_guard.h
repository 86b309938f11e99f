// Redelivered messages whose last delivery ended with its lease: one of them may have killed its process, and would
// take all that the next one has in worker with it. So a consumer has one suspect in worker at a time, until it has run for
// as long as a lease: what kills at once has done so by then. Others in retry do not wait behind suspects for long.
// Used by the consumer's thread only.
#pragma once

#include "consumer/delivery.h"
#include "store/moves.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace delayqueue {

class PoisonGuard {
 public:
  using Clock = std::chrono::steady_clock;

  explicit PoisonGuard(milliseconds lease) : lease_(lease) {}

  // Whether one may run beside those in worker.
  bool may_take() const;

  // Whether retry has nothing to take, as far as is known: all there wait for the one in worker.
  bool blocks_retry() const { return rescan_at_ && !may_take() && Clock::now() < *rescan_at_; }

  // When to look behind them, if that needs a tick of its own.
  Clock::time_point rescan_due() const {
    return may_hide_others_ && blocks_retry() ? *rescan_at_ : Clock::time_point::max();
  }

  // Whether another take is to follow at once.
  bool should_rescan() const { return scanning_ || (owed_ && may_take()); }

  // Sets how many suspects a take is for, and how many it is to pass over.
  void plan(store::TakeLimits& limits) const;

  // Reads how a take from retry went; `deliveries` are its messages.
  void read(const store::TakeLimits& asked, const store::Taken& taken, const std::vector<DeliveryPtr>& deliveries);

  // Messages came into retry: they may be behind suspects.
  void retry_grew() { may_hide_others_ = true; }

  // These are handled, or will not be.
  void forget(const std::vector<DeliveryPtr>& done);

 private:
  const milliseconds lease_;
  std::vector<DeliveryPtr> running_;
  bool owed_ = false;                           // the last take met one, and was not to take any
  bool may_hide_others_ = false;                // there may be others in retry than those met
  bool scanning_ = false;                       // looking behind suspects, take by take
  std::size_t left_ = 0;                        // to pass over
  std::optional<Clock::time_point> rescan_at_;  // if suspects were met: when to look behind them
};

}  // namespace delayqueue
