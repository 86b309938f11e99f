// Failures in a row: the pause before the next attempt, and what to log when. For one thread.
#pragma once

#include "os/resources.h"

#include <delayqueue/events.h>
#include <delayqueue/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>

namespace delayqueue {

class ReconnectBackoff {
 public:
  using Clock = std::chrono::steady_clock;

  // Pauses double from `shortest` to `longest`, less a random part of up to a half, so that consumers that lost the
  // same server do not all connect again at the same time.
  struct Pauses {
    milliseconds shortest;
    milliseconds longest;
  };

  struct Line {
    Severity severity;
    std::string text;
  };

  // Another attempt failed. A text is a warning the first time and after each minute, otherwise it is for debugging.
  // `since`: of a first failure, when the server was last heard of, or expected to answer.
  Line failed(const std::string& what, const Pauses& pauses, Clock::time_point now,
              std::optional<Clock::time_point> since = std::nullopt) {
    if (attempts_++ == 0) {
      since_ = since.value_or(now);
      warned_since_ = now;
    }
    pause_ = std::min(std::max(2 * pause_, pauses.shortest), pauses.longest);
    next_ = now + pause_ - pause_ * std::uniform_int_distribution<int>(0, 50)(random_) / 100;
    if (now - warned_since_ >= kWarnAgain) {
      warned_.clear();
      warned_since_ = now;
    }
    const bool is_warning = warned_.size() < kMostWarned && warned_.insert(without_numbers(what)).second;
    return {is_warning ? Severity::warning : Severity::debug,
            attempts_ == 1 ? what : what + " (" + duration_text(now) + ")"};
  }

  bool is_failing() const { return attempts_ > 0; }

  // "for 12 s, 5 attempts".
  std::string duration_text(Clock::time_point now) const {
    const auto ms = std::chrono::duration_cast<milliseconds>(now - since_).count();
    return "for " + (ms < 10'000 ? std::to_string(ms) + " ms" : std::to_string(ms / 1000) + " s") + ", " +
           std::to_string(attempts_) + (attempts_ == 1 ? " attempt" : " attempts");
  }

  // The time until the next attempt; not positive: now.
  Clock::duration left(Clock::time_point now) const { return is_failing() ? next_ - now : Clock::duration::zero(); }

  void succeeded() {
    attempts_ = 0;
    pause_ = milliseconds(0);
    warned_.clear();
  }

 private:
  static constexpr std::chrono::minutes kWarnAgain{1};
  static constexpr std::size_t kMostWarned = 8;  // different warnings a minute

  // "no answer for 3001 ms" and "no answer for 3002 ms" are one warning.
  static std::string without_numbers(std::string text) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    text.erase(std::remove_if(text.begin(), text.end(), is_digit), text.end());
    return text;
  }

  std::uint64_t attempts_ = 0;
  milliseconds pause_{0};
  Clock::time_point since_, warned_since_, next_;
  std::set<std::string> warned_;
  std::minstd_rand random_{random_seed()};
};

}  // namespace delayqueue
