// Waits to be told that there is something to take. Used by the consumer's thread only.
//
// Whoever sends what is due now, or before all that is pending, puts a marker into the key `wake`; consumers with free
// workers block on it with BZPOPMIN, and one of them gets it. It looks, and if the next message is due before it would
// look again anyway, it writes into the key `watch` that it will look then (pending2ready.lua): the others sleep on. So
// a message wakes one consumer, and comes on time however long poll_interval is. Who watches and has its workers full at
// that time, or stops, leaves the marker for another.
//
// Nothing depends on it. A marker that is lost with its finder, a watch that ended with its process (the key goes soon
// after the time it names), a link that is dead without telling: all cost at most a poll_interval, for every consumer
// looks so often by itself. Publish and subscribe would wake all of them, and tell nothing to those who were just away;
// a timer in each process that knows of a message would have to be told of every change in time, and wakes all, too.
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

  // `name`: of this consumer, among those who watch.
  WakeupListener(Endpoint& endpoint, std::string name, milliseconds patience)
      : endpoint_(endpoint), patience_(patience), name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  // Begins to wait if it does not yet; on a connection of its own, since a blocked one can do nothing else. A failure
  // is not worth a word: the consumer's other connection tells it, too.
  void begin() noexcept;

  // To be polled while waiting; -1: not waiting.
  int fd() const { return waiting_ ? connection_->fd() : -1; }

  // True if the marker was found since the last call; or something that another program put into its place.
  bool found() noexcept;

  // Whether that was so since the last call. There may be a million more: the key should go.
  bool found_foreign() noexcept { return std::exchange(foreign_, false); }

  void end() { drop(milliseconds(0)); }

  // Ends it for good, before a marker is left for others: once this returns Redis gives us none. True if it just had;
  // that one is owed to others, too.
  bool leave() noexcept;

 private:
  void drop_broken();
  void drop(milliseconds pause);

  Endpoint& endpoint_;
  const milliseconds patience_;  // with a silent link, and the longest pause between attempts to connect
  milliseconds pause_{0};
  const std::string name_;
  std::unique_ptr<redis::Connection> connection_;
  bool waiting_ = false;
  bool foreign_ = false;
  Clock::time_point until_;       // the answer must have come by then
  Clock::time_point connect_at_;  // not sooner
};

}  // namespace delayqueue
