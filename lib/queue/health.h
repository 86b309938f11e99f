// Whether requests to a server, or about a part of it, succeed; and when to try again after a failure. For one thread.
#pragma once

#include "os/resources.h"
#include "redis/failure.h"

#include <delayqueue/message.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>

namespace delayqueue {

// Failures in a row: the pause before the next attempt, and the text for the log.
class ReconnectBackoff {
 public:
  using Clock = std::chrono::steady_clock;

  // Pauses double from `shortest` to `longest`, less a random part of up to a half, so that consumers that lost the
  // same server do not all connect again at the same time.
  struct Pauses {
    milliseconds shortest;
    milliseconds longest;
  };

  // Another attempt failed. Returns the text for the log: from the second failure on it has their duration and number.
  // `since`: of a first failure, when the server was last heard of, or expected to answer.
  std::string failed(const std::string& what, const Pauses& pauses, Clock::time_point now,
                     std::optional<Clock::time_point> since = std::nullopt) {
    if (!failing_ && now - healthy_since_ >= kHealth * pause_) {
      attempts_ = 0;
      pause_ = milliseconds(0);
    }
    if (attempts_++ == 0) since_ = since.value_or(now);
    failing_ = true;
    pause_ = std::min(std::max(2 * pause_, pauses.shortest), pauses.longest);
    next_ = now + pause_ - pause_ * std::uniform_int_distribution<int>(0, 50)(random_) / 100;
    return is_new() ? what : what + " (" + duration_text(now) + ")";
  }

  bool is_failing() const { return failing_; }

  // Whether the last failure was the first one, or the first after a time of health.
  bool is_new() const { return attempts_ == 1; }

  // "for 12 s, 5 attempts".
  std::string duration_text(Clock::time_point now) const {
    const auto ms = std::chrono::duration_cast<milliseconds>(now - since_).count();
    return "for " + (ms < 10'000 ? std::to_string(ms) + " ms" : std::to_string(ms / 1000) + " s") + ", " +
           std::to_string(attempts_) + (attempts_ == 1 ? " attempt" : " attempts");
  }

  // The time until the next attempt; not positive: now.
  Clock::duration left(Clock::time_point now) const { return is_failing() ? next_ - now : Clock::duration::zero(); }

  // Ends the current pause. The pauses after further failures stay as they are.
  void retry_now() { next_ = Clock::time_point(); }

  // An attempt succeeded. The pause after a next failure is a short one only after a time of health: each attempt may
  // succeed at first, and fail a moment later.
  void succeeded(Clock::time_point now) {
    if (std::exchange(failing_, false)) healthy_since_ = now;
  }

 private:
  static constexpr int kHealth = 10;  // times the last pause

  std::uint64_t attempts_ = 0;
  milliseconds pause_{0};
  bool failing_ = false;
  Clock::time_point since_, next_, healthy_since_;
  std::minstd_rand random_{random_seed()};
};

// The pauses after this failure. `lease`: of messages whose leases can be renewed when requests succeed again; unset:
// there are none.
ReconnectBackoff::Pauses pauses_after(const redis::Failure& failure, std::optional<milliseconds> lease = std::nullopt);

enum class Health {
  away,     // no connection is used
  joining,  // the first requests on a connection have succeeded
  works,    // so have others, since the last failure
  failing,  // a request has failed since then
};

// The health of one connection, or of what is used over it, with the pause after a failure.
class HealthMonitor {
 public:
  using Clock = ReconnectBackoff::Clock;

  Health state() const { return state_; }
  bool works() const { return state_ == Health::works; }

  void join() { state_ = Health::joining; }
  void leave() { state_ = Health::away; }

  // A request has succeeded, or an attempt to connect. Returns the text for the log if this ends a failure.
  std::optional<std::string> succeeded(const std::string& where);
  // Requests succeed that do not show that all others do.
  void joined_only() {
    if (state_ == Health::joining && backoff_.is_failing()) state_ = Health::failing;
  }

  // Returns the text for the log. `since`: see ReconnectBackoff.
  std::string failed(const std::string& what, const ReconnectBackoff::Pauses& pauses,
                     std::optional<Clock::time_point> since = std::nullopt);
  bool is_failing() const { return backoff_.is_failing(); }
  // Whether the last failure was the first one, or the first after a time of health.
  bool is_new_failure() const { return backoff_.is_new(); }

  // The time until the next attempt; not positive: now.
  Clock::duration pause() const { return backoff_.left(Clock::now()); }
  void retry_now() { backoff_.retry_now(); }

 private:
  Health state_ = Health::away;
  ReconnectBackoff backoff_;
};

}  // namespace delayqueue
