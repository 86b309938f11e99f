// Waits to be told that there is something to take. Used by the consumer's thread only.
//
// Whoever sends what is due soon puts a marker into the key `wake`; consumers with free hands block on it with BZPOPMIN,
// and one of them gets it. A marker that is lost with its finder, or a link that is dead without telling, costs at most
// a poll_interval: nothing depends on being woken. Publish and subscribe would wake all of them, and tell nothing to
// those who were just away.
#pragma once

#include "endpoint.h"
#include "redis/connection.h"
#include "store/store.h"

#include <chrono>
#include <memory>

namespace delayqueue {

class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  Watch(Endpoint& endpoint, milliseconds patience) : endpoint_(endpoint), patience_(patience) {}

  // Begins to wait if it does not yet; on a connection of its own, since a blocked one can do nothing else. A failure
  // is not worth a word: the consumer's other connection tells it, too.
  void begin() noexcept;

  // To be polled while waiting; -1: not waiting.
  int fd() const { return waiting_ ? connection_->fd() : -1; }

  // True if the marker was found since the last call.
  bool found() noexcept;

  void end() { drop(milliseconds(0)); }

 private:
  void drop_broken();
  void drop(milliseconds pause);

  Endpoint& endpoint_;
  const milliseconds patience_;  // with a silent link, and the longest pause between attempts to connect
  milliseconds pause_{0};
  std::unique_ptr<redis::Connection> connection_;
  bool waiting_ = false;
  Clock::time_point until_;       // the answer must have come by then
  Clock::time_point connect_at_;  // not sooner
};

}  // namespace delayqueue
