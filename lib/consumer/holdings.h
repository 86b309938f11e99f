// What a consumer holds of one lane: the leases of its deliveries, and the verdicts that are to be sent. Used by the
// consumer's thread only.
#pragma once

#include "consumer/clock_monitor.h"
#include "consumer/delivery.h"
#include "consumer/link.h"
#include "store/moves.h"

#include <delayqueue/consumer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace delayqueue {

// The deliveries that are held, and the renewal of their leases.
class LeaseKeeper {
 public:
  using Clock = Lease::Clock;

  // `lost` is called with deliveries that turn out to belong to another consumer, or to be gone. They are not held any
  // more then.
  LeaseKeeper(milliseconds lease, std::function<void(const std::vector<InFlightPtr>&)> lost)
      : lease_(lease), lost_(std::move(lost)) {}

  bool empty() const { return held_.empty(); }
  std::size_t size() const { return held_.size(); }
  // Calls the function with each delivery that is held.
  template <class Function>
  void for_each(Function function) const {
    for (const auto& one : held_) function(*one.second);
  }

  // A delivery of the same message that is held already is lost: its lease has ended, or was ended.
  void add(const InFlightPtr& delivery);
  void remove(const InFlightPtr& delivery);

  // Takes a sample of Redis' clock: `now_us` is from the answer to a request that was sent at `sent_at`.
  void observe_clock(std::int64_t now_us, Clock::time_point sent_at);
  const ClockSample& last_sample() const { return sample_; }

  // When renew() is to be called next: a third of a lease after the last round began, so that two renewals may fail. A
  // round renews all that was held when it began, and until then the next call is due at once.
  Clock::time_point renewal_due() const { return renewal_due_; }
  void renew_soon() { renewal_due_ = Clock::time_point(); }

  // Adds the renewal of all that is held, or of the next `most` of it, except for deliveries that are settled in the
  // same pipeline. If the answer to the last renewal never came, or Redis refused it, that renewal is repeated as it
  // was: whether it ran is not known.
  void renew(RoundTrip& round_trip, const store::Moves& moves,
             std::size_t most = std::numeric_limits<std::size_t>::max());
  bool is_unconfirmed() const { return !unconfirmed_.members.empty(); }

  // Loses the deliveries whose handler has been running for longer than `most`, and returns them: their leases are not
  // renewed any more, so they run out.
  std::vector<InFlightPtr> lose_overrunning(milliseconds most);

 private:
  struct Renewal {
    std::vector<InFlightPtr> members;
    std::int64_t new_end_us = 0;
    Clock::time_point trusted;  // by this machine's clock, and not after new_end_us by Redis'
    Clock::time_point sent_at;
    bool repeats = false;  // the end was chosen earlier: the next renewal must follow soon
  };

  Renewal new_renewal(std::size_t most);
  bool holds(const InFlightPtr& delivery) const;
  void lose(const InFlightPtr& delivery);
  void finish(const Renewal& renewal, std::size_t first, const store::Answer<store::Renewed>& answer);
  void keep_unconfirmed(const Renewal& renewal, std::size_t first);

  const milliseconds lease_;
  const std::function<void(const std::vector<InFlightPtr>&)> lost_;
  std::unordered_map<std::string, InFlightPtr> held_;
  Renewal unconfirmed_;                // no members: none
  std::vector<InFlightPtr> to_renew_;  // of those held when the last round of renewals began
  Clock::time_point round_began_;
  Clock::time_point renewal_due_;
  ClockSample sample_;
};

// Settles deliveries: sends their verdicts to Redis.
class Settler {
 public:
  // The deliveries that one request settled.
  struct Outcome {
    std::vector<InFlightPtr> acked, expired, skipped, foreign, nacked, snoozed, pauses, stale;
    InFlightPtr paused_queue{};                 // of the pauses, the one that has paused the queue; null: it was paused
    std::vector<InFlightPtr> dead_lettered;     // these are among the nacked, too
    milliseconds soonest{milliseconds::max()};  // shortest backoff among the nacked
  };

  Settler(Backoff backoff, std::function<void(const Outcome&)> settled)
      : backoff_(std::move(backoff)), settled_(std::move(settled)) {}

  bool empty() const { return waiting_.empty(); }
  std::size_t size() const { return waiting_.size(); }

  // Takes a delivery whose handler has returned, or whose body is gone.
  void add(const InFlightPtr& delivery) {
    waiting_.push_back(delivery);
    delivery->change(SettlingEvent::decide);
  }

  // Adds requests for the oldest deliveries that wait, at most kMostBatches * kBatch, and returns the number of these
  // deliveries. A delivery that is being settled cannot be renewed. So if the round trip also `renews`, deliveries that
  // Redis refused to settle are held back; otherwise their leases would end while Redis refuses. `paced`: the queue has
  // limits.
  std::size_t settle(RoundTrip& round_trip, const store::Moves& moves, bool renews, bool paced);
  bool holds_back() const { return holds_back_; }

  // Impossible waits that a handler or the backoff returned, and the waits used instead, since the last call. Each kind
  // is reported once a minute.
  std::vector<std::string> warnings() { return std::exchange(warnings_, {}); }

 private:
  // The deliveries of one request.
  struct Batch {
    Verdict::Kind kind;
    std::vector<InFlightPtr> members;
    std::vector<milliseconds> delays{};  // of nacks
  };

  void add_removals(RoundTrip& round_trip, const store::Moves& moves, store::Removal removal,
                    const std::vector<InFlightPtr>& members);
  void add_nacks(RoundTrip& round_trip, const store::Moves& moves, std::vector<InFlightPtr> members);
  void add_snoozes(RoundTrip& round_trip, const store::Moves& moves, std::vector<InFlightPtr> members);
  void add_pauses(RoundTrip& round_trip, const store::Moves& moves, std::vector<InFlightPtr> members);
  void expect(RoundTrip& round_trip, const store::Answer<store::Outcomes>& answer, Batch batch);
  void finish(const Batch& batch, const store::Answer<store::Outcomes>& answer);
  void drop(const Batch& batch);
  void sort(const Batch& batch, const store::Outcomes& outcomes, Outcome& outcome);
  milliseconds delay_of(const InFlightMessage& delivery);
  milliseconds sensible(milliseconds after, const char* kind);
  void warn(const char* kind, std::string line);

  const Backoff backoff_;
  const std::function<void(const Outcome&)> settled_;
  std::deque<InFlightPtr> waiting_;
  bool holds_back_ = false;
  std::map<std::string, std::optional<std::chrono::steady_clock::time_point>> warned_;  // by kind
  std::vector<std::string> warnings_;
};

}  // namespace delayqueue
