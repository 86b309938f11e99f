// Wake-ups between consumers: this one is woken by markers, and wakes others. Used by the consumer's thread only.
#pragma once

#include "consumer/round_trip.h"
#include "consumer/wakeup_listener.h"
#include "queue/endpoint.h"
#include "store/moves.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

class Wakeups {
 public:
  // `name`: of this consumer, as a watcher. See WakeupListener.
  Wakeups(Endpoint& endpoint, std::string name, milliseconds patience)
      : name_(std::move(name)), keys_{endpoint.keys().wake}, listener_(endpoint, patience, nullptr) {}

  // ---- This consumer is woken.

  // Begins to wait for a marker, unless it waits already.
  void listen() noexcept { listener_.begin(keys_, true); }

  // For poll() while waiting; -1: not waiting.
  int fd() const { return listener_.fd(); }

  // Reads what the listener has received. Returns whether there may be messages that are due now. `full`: this consumer
  // can take no more; `more_ready`: it left messages behind.
  bool read(bool full, bool more_ready);

  // Whether read() has found, since the last call, that there may be messages in ready.
  bool found_ready() { return std::exchange(ready_, false); }

  // Whether other consumers rely on this one to take what is due next, as pending2ready has answered.
  void set_watcher(bool watches) { is_watcher_ = watches; }
  bool is_watcher() const { return is_watcher_; }
  store::Watcher as_watcher(std::optional<milliseconds> poll_interval) const {
    return {name_, poll_interval};
  }

  // ---- It wakes others.

  void wake_another() { wake_another_ = true; }

  // Ends the waiting for good: the consumer stops. A marker that has just arrived wakes another one.
  void leave() noexcept {
    listener_.begin_leaving();
    if (listener_.leave(WakeupListener::Clock::now() + WakeupListener::kFarewell)) wake_another_ = true;
  }

  // Whether add() has something to add.
  bool has_requests(bool stopping) const { return wake_another_ || (stopping && is_watcher_); }

  // Adds the requests that wake others.
  void add(RoundTrip& round_trip, const store::Store& store, bool stopping);

  void disconnect() { listener_.end(); }

 private:
  const std::string name_;
  const std::vector<std::string> keys_;
  WakeupListener listener_;
  bool ready_ = false;               // a marker for a message in ready was received
  bool wake_another_ = false;        // with the next round trip
  bool clear_wake_ = false;          // another program wrote into the key `wake`
  bool overflow_signalled_ = false;  // another consumer was woken, since there is more than this one can take
  bool is_watcher_ = false;
};

}  // namespace delayqueue
