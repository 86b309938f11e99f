// FailureLog: which failures are warnings, so that no lasting one floods the log. For one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace delayqueue {

// A new failure is a warning at once, and a lasting one is a warning each minute, whether it fails all the time or
// succeeds now and then. All sources of failures in a consumer share the number of lines.
class FailureLog {
 public:
  using Clock = std::chrono::steady_clock;
  using Source = const void*;  // only compared

  static constexpr std::chrono::minutes kMinute{1};
  static constexpr std::size_t kFirst = 5;  // most warnings in the first minute, and as many recoveries
  static constexpr std::size_t kLater = 1;  // the same in each later one

  // Whether this failure of the source is a warning. `is_new`: the source was in order for some time before it.
  bool warns(Source source, const std::string& text, bool is_new, Clock::time_point now) {
    begin_minute(now);
    Known& known = known_[source];
    if ((is_new && now - known.last >= kApart) || known.texts.size() >= kMostTexts) known.texts.clear();
    last_ = known.last = now;
    const auto [place, is_unknown] = known.texts.insert(without_numbers(text));
    if (warnings_ < most() && (is_unknown || !is_first_)) {
      ++warnings_;
      known.warned = true;
      return true;
    }
    if (is_unknown) known.texts.erase(place);  // a later one may be a warning
    return false;
  }

  // The source is in order. Whether to log that: there was a warning since the last time.
  bool tells_recovery(Source source, Clock::time_point now) {
    begin_minute(now);
    const auto known = known_.find(source);
    if (known == known_.end() || !known->second.warned || recoveries_ >= most()) return false;
    known->second.warned = false;
    ++recoveries_;
    return true;
  }

 private:
  // Partitions of a queue are one source, and begin to fail one after the other.
  static constexpr std::chrono::seconds kApart{10};
  static constexpr std::size_t kMostTexts = 32;

  struct Known {
    std::set<std::string> texts;  // that were warnings
    Clock::time_point last;
    bool warned = false;
  };

  // "no answer for 3001 ms" and "no answer for 3002 ms" are one warning.
  static std::string without_numbers(std::string text) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    text.erase(std::remove_if(text.begin(), text.end(), is_digit), text.end());
    return text;
  }

  std::size_t most() const { return is_first_ ? kFirst : kLater; }

  void begin_minute(Clock::time_point now) {
    if (minute_ && now - *minute_ < kMinute) return;
    is_first_ = !last_ || now - *last_ >= kMinute;
    minute_ = now;
    warnings_ = recoveries_ = 0;
  }

  std::map<Source, Known> known_;
  std::optional<Clock::time_point> minute_;  // the beginning of this one
  std::optional<Clock::time_point> last_;    // failure
  bool is_first_ = true;                     // no failure was in the minute before it
  std::size_t warnings_ = 0, recoveries_ = 0;
};

}  // namespace delayqueue
