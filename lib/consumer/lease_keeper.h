// The messages that a consumer holds, and the renewing of their leases. Used by the consumer's thread only.
#pragma once

#include "consumer/clock_monitor.h"
#include "consumer/delivery.h"
#include "store/moves.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace delayqueue {

class LeaseKeeper {
 public:
  using Clock = Lease::Clock;

  explicit LeaseKeeper(milliseconds lease) : lease_(lease) {}

  bool empty() const { return held_.empty(); }
  std::size_t size() const { return held_.size(); }

  void add(const DeliveryPtr& delivery) { held_.insert_or_assign(delivery->message.id, delivery); }
  void remove(const DeliveryPtr& delivery);

  // Redis' clock was seen to say `now_us` in an answer to what was asked at `asked`.
  void observe_clock(std::int64_t now_us, Clock::time_point asked);
  const ClockSample& last_sample() const { return seen_; }

  // When renew() is to be called next. A third of a lease after the last time: two may fail.
  Clock::time_point renewal_due() const { return renewal_due_; }
  void renew_soon() { renewal_due_ = Clock::time_point(); }

  // Adds the renewing of all that is held, but for those being settled in the same pipeline. If the answer to the last
  // renewal never came, that one is repeated as it was: at most one is unconfirmed.
  void renew(redis::Pipeline& pipeline, const store::Store& store);
  bool is_unconfirmed() const { return !renewal_.members.empty(); }

  // Reads the answers. What turned out to be another's, or gone, is not held any more, and returned. Throws if Redis
  // refused (part of) it: that part stays unconfirmed.
  std::vector<DeliveryPtr> read_renewals();

  // Those whose handler has been running for longer than `most`. Not held any more: their leases run out.
  std::vector<DeliveryPtr> expire_overrunning(milliseconds most);

 private:
  struct Renewal {
    std::vector<DeliveryPtr> members;
    std::int64_t new_end_us = 0;
    Clock::time_point trusted;  // by our clock surely not after new_end_us
    Clock::time_point asked;
    bool repeats = false;  // it confirms an end that was chosen earlier: the next one must follow soon
    std::vector<store::Answer<store::Renewed>> answers;
  };

  void begin_renewal();
  bool holds(const DeliveryPtr& delivery) const;
  void keep_unconfirmed(const Renewal& renewal, std::size_t first);
  void apply(const Renewal& renewal, const store::Renewed& renewed, std::size_t first, std::vector<DeliveryPtr>& lost);

  const milliseconds lease_;
  std::unordered_map<std::string, DeliveryPtr> held_;
  Renewal renewal_;
  Clock::time_point renewal_due_;

  ClockSample seen_;
};

}  // namespace delayqueue
