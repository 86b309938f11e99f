// What must be done now and then on a queue, by any consumer: delete garbage, trim dead letters, sweep notes on
// messages that are gone. Every step is bounded; where there is more, another follows. Used by the consumer's thread.
#pragma once

#include "store/moves.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

class Maintenance {
 public:
  using Clock = std::chrono::steady_clock;

  struct Rules {
    milliseconds interval{2000};  // between looks for garbage and at the number of dead letters
    milliseconds dead_retention{0};
    std::int64_t dead_limit = 0;  // 0: none
  };

  explicit Maintenance(const Rules& rules) : rules_(rules) {}

  Clock::time_point due() const {
    return garbage_.empty() ? std::min({garbage_due_, trim_due_, sweep_due_}) : Clock::time_point();
  }

  void work(redis::Pipeline& pipeline, const store::Store& store);

  // The dead letters that were trimmed.
  std::size_t read_answers();

  void forget_answers() { answers_ = {}; }

 private:
  struct Answers {
    std::optional<store::Answer<std::vector<std::string>>> garbage;
    std::vector<store::Answer<store::Purged>> trimmed;
    std::optional<store::Answer<std::pair<std::string, std::vector<std::string>>>> attempts, reasons;
  };

  void trim(redis::Pipeline& pipeline, const store::Store& store, std::optional<milliseconds> older_than,
            std::int64_t leave);
  void sweep(redis::Pipeline& pipeline, const store::Store& store);

  const Rules rules_;
  Clock::time_point garbage_due_, trim_due_, sweep_due_;
  std::vector<std::string> garbage_;  // to be deleted
  std::vector<std::string> notes_;    // to be swept if their messages are gone
  std::string attempts_cursor_ = "0";
  std::string reasons_cursor_ = "0";
  Answers answers_;
};

}  // namespace delayqueue
