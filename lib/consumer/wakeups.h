// Wake-ups in both directions: a consumer is woken by markers, and wakes others. Used by the consumer's thread only.
#pragma once

#include "consumer/link.h"
#include "consumer/plan.h"
#include "consumer/served_queue.h"
#include "queue/endpoint.h"
#include "queue/health.h"
#include "redis/connection.h"
#include "store/moves.h"

#include <delayqueue/consumer.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace delayqueue {

// ---- WakeupListener -------------------------------------------------------------------------------------------------

// Waits for the markers that wake one idle consumer.
//
// A producer that sends a message that is due now, or before all pending ones, puts a marker into the key `wake`. Idle
// consumers block on that key with BZPOPMIN, and one of them receives the marker. That consumer moves and takes
// messages. If the next pending message is due before its next poll, it also writes into the key `watch` that it will
// look at that time (pending2ready.lua), and the others stay idle. So a message wakes one consumer, and is delivered on
// time with any poll_interval. A watcher that is busy at that time, or stops, leaves the marker for another consumer.
//
// A consumer of several queues waits for the keys `wake` of all of them with one BZPOPMIN. In a Cluster the keys of two
// queues may be on two nodes, so that each queue needs a listener.
//
// Nothing depends on the marker. It may be lost with the consumer that received it; a watcher may die (the key `watch`
// expires soon after the time it names); a connection may be dead without notice. Each of these delays a message by at
// most a poll_interval, because every consumer polls that often. Publish/subscribe would wake all consumers, and would
// miss those that are disconnected. A timer in every process would need a notice of every change, and would wake all,
// too.
class WakeupListener {
 public:
  using Clock = std::chrono::steady_clock;

  // A member of a key `wake` or `wakes`, which was received and is not in the key any more.
  struct Marker {
    std::string key;
    std::string member;
    std::string due;       // the score
    bool ready = false;    // for a message in ready, not in pending: its score is 0
    bool foreign = false;  // another program wrote the member of `wake`
  };

  // Connects to the server of this endpoint, whose queue need not be one of those that it waits for. With `calls` in
  // another thread, after whose end begin() is to be called again.
  WakeupListener(Endpoint& endpoint, milliseconds patience, BackgroundCalls* calls)
      : endpoint_(endpoint), patience_(patience) {
    if (calls != nullptr) opening_.emplace(*calls);
  }

  // From now on it connects in other threads.
  void connect_in_background(BackgroundCalls& calls) {
    if (!opening_) opening_.emplace(calls);
  }

  // Begins to wait for a member of any of these keys, unless it waits already. It has its own connection, because a
  // blocked one can do nothing else. Failures are not logged: the main connection reports the same ones.
  // `all`: these are the keys of all its queues. If not, the wait is short, so that the others are soon among them.
  // `emptied`: those of the keys that may have many members. All of them are taken when the wait ends: BZPOPMIN alone
  // returns the least one, so under load the markers of some partitions would never be received.
  void begin(const std::vector<std::string>& keys, bool all, const std::vector<std::string>& emptied = {}) noexcept;

  // Whether begin() would do something now: it need not wait for a thread that connects.
  bool may_begin(Clock::time_point now) const { return now >= (waiting_ ? until_ : connect_at_) && !is_opening(); }

  // For poll() while waiting; -1: not waiting.
  int fd() const { return waiting_ ? connection_->fd() : -1; }

  // Whether the last attempt to wait did not fail.
  bool works() const { return connection_ != nullptr; }

  // Whether Redis refused to wait for this key.
  bool leaves_out(const std::string& key) const { return refused_.count(key) > 0; }

  // The next member that was received, if there is one.
  std::optional<Marker> read() noexcept;

  // Closes the connection, and waits for the thread that makes one.
  void end();

  // What was received before the end: wake other consumers then. `may_be_lost`: Redis may have sent others.
  struct Left {
    std::deque<Marker> markers{};
    bool may_be_lost = false;
  };

  // Ends the waiting for good, in two steps, so that several can leave at the same time. After leave() Redis sends this
  // consumer no marker.
  static constexpr milliseconds kFarewell{200};  // for Redis to notice the end of the connection
  void begin_leaving() noexcept;
  Left leave(Clock::time_point until) noexcept;

 private:
  bool is_opening() const { return opening_ && connection_ == nullptr && opening_->is_waiting(); }
  void receive_until(Clock::time_point deadline);
  void read(redis::Reply answer);
  void add_marker(const std::string& key, redis::Reply member, redis::Reply due);
  bool has_connected();
  void check_keys();
  void read_check(redis::Reply answer);
  void drop_broken();
  void drop(Clock::duration pause);

  Endpoint& endpoint_;
  const milliseconds patience_;  // timeout of a silent connection, and the longest pause between attempts to connect
  ReconnectBackoff backoff_;
  std::unique_ptr<redis::Connection> connection_;
  std::optional<BackgroundCall<std::unique_ptr<redis::Connection>>> opening_;
  bool waiting_ = false;              // for an answer
  std::vector<std::string> keys_;     // it waits for these
  std::vector<std::string> emptied_;  // some of these
  std::size_t unread_ = 0;            // answers to BZPOPMIN, and to ZPOPMIN for each of emptied_
  bool is_refused_ = false;           // the answer to BZPOPMIN was an error
  std::deque<Marker> markers_;        // received, for read()
  std::size_t unchecked_ = 0;         // the last of these, whose answers to check_keys() are missing
  std::size_t first_ = 0;             // the first key of the next wait: Redis looks at them in their order
  std::set<std::string> refused_;     // keys that Redis refused, and that are left out until refused_until_
  Clock::time_point refused_until_;
  Clock::time_point until_;       // the answer is late after this time
  Clock::time_point connect_at_;  // not before this time
  Clock::time_point connected_at_;
};

// ---- Wakeups --------------------------------------------------------------------------------------------------------

// Wake-ups of one partition, in both directions: the consumer is woken by markers, and wakes others.
class Wakeups {
 public:
  explicit Wakeups(ServedPartition& partition) : partition_(partition) {}

  // ---- This consumer is woken.

  // The WakeupListener has received a marker for this partition.
  void receive(const WakeupListener::Marker& marker);

  // Writes what plan() has to know of it.
  void describe(planning::LaneView& view) const {
    view.woken = received_.has_value();
    view.woken_for_ready = received_ && received_->ready;
  }

  // Returns what was received since the last call. If there is something, there may be messages that are due now.
  // Call it also if there is nothing. `full`: this consumer can take no more; `more_ready`: it left messages behind.
  std::optional<WakeupListener::Marker> read(bool full, bool more_ready);

  // Whether other consumers rely on this one to take what is due next, as pending2ready has answered.
  void set_watcher(bool watches) { is_watcher_ = watches; }
  // This consumer stops, and Redis may have sent it a marker that did not arrive.
  void expect_lost_marker() { lost_marker_ = true; }
  // The connection was lost: what others rely on is decided again.
  void leave() { is_watcher_ = lost_marker_ = false; }
  store::Watcher as_watcher(std::optional<milliseconds> poll_interval) const {
    return {partition_.queue.consumer, poll_interval};
  }

  // ---- It wakes others.

  void wake_another() { wake_another_ = true; }

  // Whether add() has something to add; and whether some of that wakes another consumer.
  bool has_requests(bool stopping) const { return wakes(stopping) || (is_home() && partition_.queue.clears_wakes); }
  bool wakes(bool stopping) const {
    return wake_another_ || (stopping && (is_watcher_ || lost_marker_ || received_)) ||
           (is_home() && !partition_.queue.markers.empty());
  }

  // Adds the requests that wake others. Returns whether one removes a key of markers: other programs wrote there.
  bool add(RoundTrip& round_trip, bool stopping);

  // Takes the marker that a move may have left in a partition above 0, to wake another consumer with it.
  void forward_marker(RoundTrip& round_trip);

 private:
  // Of all partitions only 0 has keys that consumers wait for.
  bool is_home() const { return partition_.number == 0; }
  bool add_markers(RoundTrip& round_trip);

  ServedPartition& partition_;
  std::optional<WakeupListener::Marker> received_;
  bool wake_another_ = false;        // with the next round trip
  bool clear_wake_ = false;          // another program wrote into the key `wake`
  bool overflow_signalled_ = false;  // another consumer was woken, since there is more than this one can take
  bool is_watcher_ = false;
  bool lost_marker_ = false;
};

}  // namespace delayqueue
