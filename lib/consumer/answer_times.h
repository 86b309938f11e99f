// AnswerTimes: how long a server takes to answer the requests of a lane, and when an answer is late. Used by the
// consumer's thread only.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>

namespace delayqueue {

class AnswerTimes {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  // A request was sent.
  void begin() {
    if (under_way_++ == 0) waits_since_ = Clock::now();
  }
  // A request has its answer, or is dropped.
  void end() {
    if (under_way_ > 0) --under_way_;
    waits_since_ = Clock::now();
  }

  // A take had its answer after this time. Returns whether that was late.
  bool measure(Clock::duration took) {
    const bool late = took >= patience();
    const Seconds seconds(took);
    usual_ = usual_.count() > 0 ? 0.9 * usual_ + 0.1 * seconds : seconds;
    shortest_ = shortest_.count() > 0 ? std::min(shortest_, seconds) : seconds;
    return late;
  }

  bool is_late() const { return under_way_ > 0 && Clock::now() - waits_since_ >= patience(); }
  // When the answers under way are late; nullopt: there are none, or they are late already.
  std::optional<Clock::time_point> late_at() const {
    return under_way_ > 0 && !is_late() ? std::optional(waits_since_ + patience()) : std::nullopt;
  }

  // A running average of the measured takes, and the shortest of them: about a round trip. 0: none was measured.
  Seconds usual() const { return usual_; }
  Seconds shortest() const { return shortest_; }

 private:
  // An answer is late after kUsualTimes times the usual time, but not before kShortestPatience, and in any case after
  // kLongestPatience.
  static constexpr int kUsualTimes = 4;
  static constexpr std::chrono::milliseconds kShortestPatience{50};
  static constexpr std::chrono::milliseconds kLongestPatience{500};

  Clock::duration patience() const {
    return std::clamp<Clock::duration>(std::chrono::duration_cast<Clock::duration>(kUsualTimes * usual_),
                                       kShortestPatience, kLongestPatience);
  }

  std::size_t under_way_ = 0;
  Clock::time_point waits_since_;  // when the first of them was sent, or the last answer arrived
  Seconds usual_{0};               // running average
  Seconds shortest_{0};
};

}  // namespace delayqueue
