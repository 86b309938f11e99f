// Detects jumps of Redis' clock. Used by the consumer's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace delayqueue {

// A sample of Redis' clock, read between two times of this machine's steady clock.
struct ClockSample {
  std::int64_t now_us = 0;  // 0: none yet
  std::chrono::steady_clock::time_point sent_at, answered;
};

class ClockMonitor {
 public:
  struct Jump {
    std::chrono::microseconds by{0};  // at least: less what the times of the round trips may explain
    bool other_server = false;        // first seen on a new connection: it may be another server
  };

  // Compares a sample with the last one. A jump is a difference of more than 1 s (5 s on a new connection) from the
  // time that passed on this machine, plus a thousandth of that time, because clocks differ in speed. Ignores a sample
  // that is not newer than the last one.
  std::optional<Jump> observe(const ClockSample& sample);

  void new_connection() { new_connection_ = true; }

 private:
  ClockSample last_;
  bool new_connection_ = false;
};

// The jump, and its effect on a queue.
std::string to_text(const ClockMonitor::Jump& jump, const std::string& where);

}  // namespace delayqueue
