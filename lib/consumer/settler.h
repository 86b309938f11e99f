// Tells Redis how deliveries went. Used by the consumer's thread only.
#pragma once

#include "consumer/delivery.h"
#include "store/moves.h"

#include <delayqueue/options.h>

#include <chrono>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

class Settler {
 public:
  // What became of the deliveries of one pipeline.
  struct Outcome {
    std::vector<DeliveryPtr> acked, expired, foreign, nacked, gave_up, snoozed,
        stale;                                  // gave_up: among the nacked, too
    milliseconds soonest{milliseconds::max()};  // shortest backoff among the nacked
    std::exception_ptr refused;                 // Redis refused some: they wait on
  };

  explicit Settler(Backoff backoff) : backoff_(std::move(backoff)) {}

  bool empty() const { return waiting_.empty(); }
  std::size_t size() const { return waiting_.size(); }

  // Takes a delivery whose handler has spoken, or whose body is gone.
  void add(const DeliveryPtr& delivery) { waiting_.push_back(delivery); }

  // Adds requests for the oldest of what waits, at most kBatch; says for how many. What is being settled cannot be
  // renewed; so when this pipeline `renews`, what was refused before is held back, or its lease would end while it is
  // refused.
  std::size_t settle(redis::Pipeline& pipeline, const store::Store& store, bool renews);
  bool holds_back() const { return holds_back_; }

  Outcome read_answers();

  // Waits that a handler or the backoff asked for and that make no sense, and what was taken instead, since the last
  // call; each kind once a minute.
  std::vector<std::string> warnings() { return std::exchange(warnings_, {}); }

  // The answers will never come: all waits on, and is in doubt.
  void forget_answers();

 private:
  struct Step {
    Verdict::Kind kind;
    std::vector<DeliveryPtr> members;
    std::vector<milliseconds> delays;  // of nacks
    store::Answer<store::Outcomes> answer;
  };

  void add_acks(redis::Pipeline& pipeline, const store::Store& store, std::vector<DeliveryPtr> members);
  void add_expired(redis::Pipeline& pipeline, const store::Store& store, std::vector<DeliveryPtr> members);
  void add_foreign(redis::Pipeline& pipeline, const store::Store& store, std::vector<DeliveryPtr> members);
  void add_nacks(redis::Pipeline& pipeline, const store::Store& store, std::vector<DeliveryPtr> members);
  void add_snoozes(redis::Pipeline& pipeline, const store::Store& store, std::vector<DeliveryPtr> members);
  milliseconds delay_of(const Delivery& delivery);
  milliseconds sensible(milliseconds after, const char* kind);
  void warn(const char* kind, std::string line);
  void sort(const Step& step, const store::Outcomes& outcomes, Outcome& outcome);

  const Backoff backoff_;
  std::deque<DeliveryPtr> waiting_;
  std::vector<Step> steps_;  // of the pipeline under way
  bool holds_back_ = false;
  std::map<std::string, std::optional<std::chrono::steady_clock::time_point>> told_;  // by kind of complaint
  std::vector<std::string> warnings_;
};

}  // namespace delayqueue
