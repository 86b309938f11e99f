// The copies of the layout and of the pause that a partition of a queue has: reads them, and updates those that are
// behind. Used by the consumer's thread only.
#pragma once

#include "consumer/link.h"
#include "consumer/served_partition.h"
#include "store/keys.h"
#include "store/layout.h"
#include "store/pause.h"

#include <delayqueue/options.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace delayqueue {

// A pause is set in partition 0, and consumers copy it. So that neither a new partition nor one whose server was away
// opens a paused queue, no message is taken from a partition before its copy is that of the latest generation, or,
// while partition 0 is away, at least once was.
class PartitionCopies {
 public:
  explicit PartitionCopies(ServedPartition& partition);

  // Takes the copy of the layout that was read when the queue was checked on a connection.
  void learn(const store::Layout& copy);

  // Adds requests that read the copies; `layout`: whether that of the layout, too. `poll_interval`: of partition 0.
  void add_reading(RoundTrip& round_trip, bool layout, milliseconds poll_interval);
  bool reading_is_due() const { return std::chrono::steady_clock::now() >= due_; }
  void read_soon() { due_ = {}; }

  // Adds requests that update the copies.
  void add_updates(RoundTrip& round_trip);
  // Whether the copy of the pause should be updated at once.
  bool is_urgent() const { return is_behind() && !copies_pause_; }

  // Whether messages may be taken from the partition. If it is paused, a take returns none.
  bool may_take() const { return partition_.number == 0 || (pause_generation_ >= 0 && !is_behind()); }

  // The connection was lost, or replaced.
  void leave();

 private:
  bool is_behind() const { return partition_.number > 0 && pause_generation_ < partition_.queue.pause.generation(); }
  void learn(store::PauseState copy);
  void read_pause(RoundTrip& round_trip);
  void copy_pause(RoundTrip& round_trip);

  ServedPartition& partition_;
  std::chrono::steady_clock::time_point due_;
  std::optional<store::Keys> next_keys_;  // of partition 0: those of partition 1, if they are on the same server
  bool may_read_next_ = true;
  std::int64_t pause_generation_ = -1;  // of the copy here, as it was last seen
  bool copies_pause_ = false;           // a request to update it is under way
};

}  // namespace delayqueue
