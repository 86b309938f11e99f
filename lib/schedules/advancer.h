// Advancer: computes how the schedules of a queue go on. A consumer, or Schedules::advance(), reads and calls.
#pragma once

#include "schedules/definition.h"
#include "store/schedules.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue::schedules {

// A call of Moves::advance(), and what it refers to.
struct PlannedAdvance {
  PlannedAdvance(std::string its_name, Definition its_definition)
      : name(std::move(its_name)), definition(std::move(its_definition)) {}
  PlannedAdvance(const PlannedAdvance&) = delete;
  PlannedAdvance& operator=(const PlannedAdvance&) = delete;

  const std::string name;
  const Definition definition;
  store::Advance call{};
  bool is_part = false;  // more slots have passed than one call stores: look again at once
};
using PlannedAdvancePtr = std::shared_ptr<const PlannedAdvance>;

// The occurrences of a definition, whose slots are to be added. They refer to the schedule.
store::Occurrences occurrences_of(const Schedule& schedule);

// The first slot after `after_ms`, unless it is later than `until`.
std::optional<std::int64_t> next_slot(const Definition& definition, std::int64_t after_ms);

// A schedule whose text cannot be read, as of a later version, is never written to. It is reported once, and passed
// over by an offset, so that many of them do not hide those behind them. Not thread-safe.
class Advancer {
 public:
  using Warn = std::function<void(const std::string& name, const std::string& why)>;

  explicit Advancer(Warn warn) : warn_(std::move(warn)) {}

  // For Moves::due_schedules().
  static constexpr std::size_t kMostInLook = 100;
  std::size_t offset() const { return offset_; }
  // The next look begins at the head again: schedules may have come there, or the broken ones have been removed.
  void restart() { offset_ = 0; }

  struct Plan {
    std::vector<PlannedAdvancePtr> calls{};
    bool look_again = false;  // more schedules may be due
  };
  // `found`: the answer to a look with offset().
  Plan plan(const store::ReadSchedules& found);

  // For some schedules, due or not: those whose slot was lost, or is far ahead since Redis' clock was set back.
  std::vector<PlannedAdvancePtr> repair(const store::ReadSchedules& some);

 private:
  std::shared_ptr<PlannedAdvance> read(const store::StoredSchedule& stored, std::string_view expected_state);
  void report(const store::StoredSchedule& stored, std::int64_t generation, const std::string& why);

  static constexpr std::size_t kMostBroken = 1000;

  const Warn warn_;
  std::size_t offset_ = 0;
  std::set<std::pair<std::string, std::int64_t>> broken_;  // names and generations that were reported
};

}  // namespace delayqueue::schedules
