// A trouble that lasts: how long to wait before the next attempt, and what to say of it when. Of one thread.
#pragma once

#include <delayqueue/options.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <set>
#include <string>

namespace delayqueue {

class ReconnectBackoff {
 public:
  using Clock = std::chrono::steady_clock;

  // Pauses double from `shortest` up to `longest`, less a random part of up to a half: many who lost the same server
  // must not come back at the same moment.
  struct Pauses {
    milliseconds shortest;
    milliseconds longest;
  };

  struct Line {
    Severity severity;
    std::string text;
  };

  // One more attempt failed. What is new, or was not said for a minute, is a warning; what was said is for debugging.
  Line failed(const std::string& what, const Pauses& patience, Clock::time_point now) {
    if (attempts_++ == 0) since_ = said_since_ = now;
    pause_ = std::min(std::max(2 * pause_, patience.shortest), patience.longest);
    next_ = now + pause_ - pause_ * std::uniform_int_distribution<int>(0, 50)(random_) / 100;
    if (now - said_since_ >= kSayAgain) {
      said_.clear();
      said_since_ = now;
    }
    const bool loud = said_.size() < kMostSaid && said_.insert(without_numbers(what)).second;
    return {loud ? Severity::warning : Severity::debug, attempts_ == 1 ? what : what + " (" + duration_text(now) + ")"};
  }

  bool is_failing() const { return attempts_ > 0; }

  // How long it lasts, and how many attempts it took.
  std::string duration_text(Clock::time_point now) const {
    const auto ms = std::chrono::duration_cast<milliseconds>(now - since_).count();
    return "for " + (ms < 10'000 ? std::to_string(ms) + " ms" : std::to_string(ms / 1000) + " s") + ", " +
           std::to_string(attempts_) + (attempts_ == 1 ? " attempt" : " attempts");
  }

  // Until the next attempt is due; not positive: now.
  Clock::duration left(Clock::time_point now) const { return is_failing() ? next_ - now : Clock::duration::zero(); }

  void succeeded() {
    attempts_ = 0;
    pause_ = milliseconds(0);
    said_.clear();
  }

 private:
  static constexpr std::chrono::minutes kSayAgain{1};
  static constexpr std::size_t kMostSaid = 8;  // different ones a minute

  // "no answer for 3001 ms" and "no answer for 3002 ms" are the same.
  static std::string without_numbers(std::string text) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    text.erase(std::remove_if(text.begin(), text.end(), is_digit), text.end());
    return text;
  }

  std::uint64_t attempts_ = 0;
  milliseconds pause_{0};
  Clock::time_point since_, said_since_, next_;
  std::set<std::string> said_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace delayqueue
