// Retries possible poison messages one at a time. Used by the consumer's thread only.
//
// A message whose last delivery ended with its lease may have killed its process. Delivered together with others, it
// would cost all of them a retry each time. So a consumer runs one such message at a time, of all its queues, until it
// has run for a lease: a message that kills its process at once has done so by then. Other messages in retry do not
// wait behind possible poison messages for long: the guard scans retry for them.
#pragma once

#include "consumer/delivery.h"
#include "consumer/plan.h"
#include "store/moves.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace delayqueue {

// The possible poison messages that run in one consumer. The guards of its queues share it.
class PoisonRuns {
 public:
  // Whether another one may run beside those that run already: each has run for a lease of its queue.
  bool may_add() const;
  // And no take of another guard may return one.
  bool may_add(const void* guard) const { return (expected_by_ == nullptr || expected_by_ == guard) && may_add(); }

  // `lease`: of its queue.
  void add(const InFlightPtr& delivery, milliseconds lease) { running_.push_back({delivery, lease}); }

  // These were handled, or will not be.
  void forget(const std::vector<InFlightPtr>& done);

  // A take of this guard may return one, until expect_none().
  void expect_one(const void* guard) { expected_by_ = guard; }
  bool expects_one(const void* guard) const { return expected_by_ == guard; }
  void expect_none(const void* guard) {
    if (expected_by_ == guard) expected_by_ = nullptr;
  }

 private:
  struct Running {
    InFlightPtr delivery;
    milliseconds lease;
  };

  std::vector<Running> running_;
  const void* expected_by_ = nullptr;
};

class PoisonGuard {
 public:
  using Clock = std::chrono::steady_clock;

  PoisonGuard(milliseconds lease, PoisonRuns& runs) : lease_(lease), runs_(runs) {}
  ~PoisonGuard() { runs_.expect_none(this); }
  PoisonGuard(const PoisonGuard&) = delete;
  PoisonGuard& operator=(const PoisonGuard&) = delete;

  // Whether another possible poison message may run beside those that run already.
  bool may_take() const { return runs_.may_add(this); }

  // Whether retry has nothing to take, as far as is known: all in it may be poison, and one runs.
  bool blocks_retry() const { return rescan_at_ && !may_take() && Clock::now() < *rescan_at_; }

  // When to scan for other messages, if no other tick is due.
  Clock::time_point rescan_due() const {
    return may_hide_others_ && blocks_retry() ? *rescan_at_ : Clock::time_point::max();
  }

  // Writes what plan() has to know of it.
  void describe(planning::LaneView& view) const;

  // A take with these limits was sent. Until it is answered or dropped, no other guard takes possible poison.
  void sent(const store::TakeLimits& limits) {
    if (limits.retry_max > 0 && limits.poison_max > 0) runs_.expect_one(this);
  }
  void ended() { runs_.expect_none(this); }

  // Reads the answer to a take from retry; `deliveries` are its messages.
  void read(const store::TakeLimits& limits, const store::Taken& taken, const std::vector<InFlightPtr>& deliveries);

  // Messages came into retry: they may be behind possible poison messages.
  void retry_grew() { may_hide_others_ = true; }

  // These were handled, or will not be.
  void forget(const std::vector<InFlightPtr>& done) { runs_.forget(done); }

 private:
  const milliseconds lease_;
  PoisonRuns& runs_;
  bool owed_ = false;                           // the last take met possible poison, and was to take none
  bool may_hide_others_ = false;                // retry may hold other messages than those met
  bool scanning_ = false;                       // takes pass over possible poison, a part of it each
  std::size_t left_ = 0;                        // to pass over
  std::optional<Clock::time_point> rescan_at_;  // unset: no possible poison was met
};

}  // namespace delayqueue
