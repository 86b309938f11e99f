// Waits for the marker that wakes one idle consumer. Used by the consumer's thread only.
//
// A producer that sends a message that is due now, or before all pending ones, puts a marker into the key `wake`. Idle
// consumers block on that key with BZPOPMIN, and one of them receives the marker. That consumer moves and takes
// messages. If the next pending message is due before its next poll, it also writes into the key `watch` that it will
// look at that time (pending2ready.lua), and the others stay idle. So a message wakes one consumer, and is delivered on
// time with any poll_interval. A watcher that is busy at that time, or stops, leaves the marker for another consumer.
//
// Nothing depends on the marker. It may be lost with the consumer that received it; a watcher may die (the key `watch`
// expires soon after the time it names); a connection may be dead without notice. Each of these delays a message by at
// most a poll_interval, because every consumer polls that often. Publish/subscribe would wake all consumers, and would
// miss those that are disconnected. A timer in every process would need a notice of every change, and would wake all,
// too.
#pragma once

#include "queue/endpoint.h"
#include "redis/connection.h"
#include "store/moves.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace delayqueue {

class WakeupListener {
 public:
  using Clock = std::chrono::steady_clock;

  // `name`: of this consumer, as a watcher.
  WakeupListener(Endpoint& endpoint, std::string name, milliseconds patience)
      : endpoint_(endpoint), patience_(patience), name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  // Begins to wait, unless it waits already. It has its own connection, because a blocked one can do nothing else.
  // Failures are not logged: the main connection reports the same ones.
  void begin() noexcept;

  // For poll() while waiting; -1: not waiting.
  int fd() const { return waiting_ ? connection_->fd() : -1; }

  // Whether the marker was received since the last call, or another member of the key, which another program wrote.
  bool found() noexcept;

  // Whether another program's member was received since the last call. There may be a million more: delete the key.
  bool found_foreign() noexcept { return std::exchange(foreign_, false); }

  // Whether a marker for a message in ready, not in pending, was received since the last call: its score is 0.
  bool found_ready() noexcept { return std::exchange(ready_, false); }

  void end() { drop(milliseconds(0)); }

  // Ends the waiting for good. After this call Redis sends this consumer no marker. True if it had just received one:
  // wake another consumer then.
  bool leave() noexcept;

 private:
  void drop_broken();
  void drop(milliseconds pause);

  Endpoint& endpoint_;
  const milliseconds patience_;  // timeout of a silent connection, and the longest pause between attempts to connect
  milliseconds pause_{0};
  const std::string name_;
  std::unique_ptr<redis::Connection> connection_;
  bool waiting_ = false;
  bool foreign_ = false;
  bool ready_ = false;
  Clock::time_point until_;       // the answer is late after this time
  Clock::time_point connect_at_;  // not before this time
};

}  // namespace delayqueue
