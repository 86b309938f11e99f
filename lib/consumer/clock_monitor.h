// Notices when Redis' clock jumps. Used by the consumer's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace delayqueue {

// Redis' clock said `now_us` somewhere between asked and answered, which are our steady clock's.
struct ClockSample {
  std::int64_t now_us = 0;  // 0: not seen yet
  std::chrono::steady_clock::time_point asked, answered;
};

class ClockMonitor {
 public:
  struct Jump {
    std::chrono::microseconds by{0};  // at least; what the trips of the answers may explain is taken off
    bool other_server = false;        // seen first on a new connection: the server may be another
  };

  // Compares with the last look. A jump: more than 1 s more, or less, than our steady clock went on (and a thousandth of
  // that, for clocks go differently); on a new connection more than 5 s. The same sight again is no news.
  std::optional<Jump> look(const ClockSample& sight);

  void new_connection() { new_connection_ = true; }

 private:
  ClockSample last_;
  bool new_connection_ = false;
};

// What happened, and what it means for a queue.
std::string to_text(const ClockMonitor::Jump& jump, const std::string& where);

}  // namespace delayqueue
