// Settles deliveries: sends their verdicts to Redis. Used by the consumer's thread only.
#pragma once

#include "consumer/delivery.h"
#include "consumer/round_trip.h"
#include "store/moves.h"

#include <delayqueue/backoff.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

class Settler {
 public:
  // The deliveries that one request settled.
  struct Outcome {
    std::vector<InFlightPtr> acked, expired, foreign, nacked, snoozed, stale;
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
  // Redis refused to settle are held back; otherwise their leases would end while Redis refuses.
  std::size_t settle(RoundTrip& round_trip, const store::Store& store, bool renews);
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

  using Removal = store::Answer<store::Outcomes> (store::Store::*)(redis::Pipeline&,
                                                                   const std::vector<store::Receipt>&) const;

  void add_removals(RoundTrip& round_trip, const store::Store& store, Removal remove,
                    const std::vector<InFlightPtr>& members);
  void add_nacks(RoundTrip& round_trip, const store::Store& store, std::vector<InFlightPtr> members);
  void add_snoozes(RoundTrip& round_trip, const store::Store& store, std::vector<InFlightPtr> members);
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
