// Redelivered messages whose last delivery ended with its lease: one of them may have killed its process, and would
// take all that the next one has in hand with it. So a consumer has one suspect in hand at a time, until it has run for
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

class Suspects {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Suspects(milliseconds lease) : lease_(lease) {}

  // Whether one may run beside those in hand.
  bool may_take() const;

  // Whether retry has nothing to take, as far as is known: all there wait for the one in hand.
  bool fill_retry() const { return look_at_ && !may_take() && Clock::now() < *look_at_; }

  // When to look behind them, if that needs a tick of its own.
  Clock::time_point look_due() const { return unseen_ && fill_retry() ? *look_at_ : Clock::time_point::max(); }

  // Whether another take is to follow at once.
  bool go_on() const { return passing_ || (owed_ && may_take()); }

  // Sets how many suspects a take is for, and how many it is to pass over.
  void plan(store::Places& places) const;

  // Reads how a take from retry went; `deliveries` are its messages.
  void read(const store::Places& asked, const store::Taken& taken, const std::vector<DeliveryPtr>& deliveries);

  // Messages came into retry: they may be behind suspects.
  void retry_grew() { unseen_ = true; }

  // These are handled, or will not be.
  void forget(const std::vector<DeliveryPtr>& done);

 private:
  const milliseconds lease_;
  std::vector<DeliveryPtr> in_hand_;
  bool owed_ = false;                         // the last take met one, and was not to take any
  bool unseen_ = false;                       // there may be others in retry than those met
  bool passing_ = false;                      // looking behind suspects, take by take
  std::size_t left_ = 0;                      // to pass over
  std::optional<Clock::time_point> look_at_;  // if suspects were met: when to look behind them
};

}  // namespace delayqueue
