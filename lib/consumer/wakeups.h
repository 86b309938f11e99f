// Wake-ups of one partition, in both directions: the consumer is woken by markers, and wakes others. Used by the
// consumer's thread only.
#pragma once

#include "consumer/link.h"
#include "consumer/plan.h"
#include "consumer/served_partition.h"
#include "consumer/wakeup_listener.h"
#include "store/moves.h"

#include <optional>

namespace delayqueue {

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

  // Adds the requests that wake others.
  void add(RoundTrip& round_trip, bool stopping);

  // Takes the marker that a move may have left in a partition above 0, to wake another consumer with it.
  void forward_marker(RoundTrip& round_trip);

 private:
  // Of all partitions only 0 has keys that consumers wait for.
  bool is_home() const { return partition_.number == 0; }
  void add_markers(RoundTrip& round_trip);

  ServedPartition& partition_;
  std::optional<WakeupListener::Marker> received_;
  bool wake_another_ = false;        // with the next round trip
  bool clear_wake_ = false;          // another program wrote into the key `wake`
  bool overflow_signalled_ = false;  // another consumer was woken, since there is more than this one can take
  bool is_watcher_ = false;
  bool lost_marker_ = false;
};

}  // namespace delayqueue
