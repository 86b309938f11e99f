// Upkeep: what a lane does besides messages: it deletes what is finished, keeps the entry of its consumer in the
// registry, and copies the layout and the pause. Used by the consumer's thread only.
#pragma once

#include "consumer/delivery.h"
#include "consumer/link.h"
#include "consumer/served_queue.h"
#include "store/keys.h"
#include "store/layout.h"
#include "store/moves.h"
#include "store/pause.h"
#include "store/registry.h"

#include <delayqueue/client.h>
#include <delayqueue/consumer.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

// ---- Maintenance ----------------------------------------------------------------------------------------------------

// Periodic work on a queue; each of its consumers does it. Deletes garbage, trims the dead letters, deletes the
// metadata and unique keys of messages that are gone and values that are too long for metadata, and removes the TTL of
// the bodies of new dead letters. In a queue with limits it frees the places of messages that are not in flight. Each
// step is bounded; if more is left, the next step follows at once.
class Maintenance {
 public:
  using Clock = std::chrono::steady_clock;

  struct Rules {
    milliseconds interval{2000};     // between two samples of garbage, and two trims to dead_limit
    milliseconds dead_retention{0};  // older dead letters are deleted
    std::uint64_t dead_limit = 0;    // most dead letters to keep; 0: no limit
    milliseconds seldom{10'000};     // between two trims to dead_retention, and two samples of metadata or of places
  };

  // `trimmed` is called with the number of dead letters that were deleted, if there were any.
  Maintenance(const Rules& rules, std::function<void(std::size_t)> trimmed)
      : rules_(rules), trimmed_(std::move(trimmed)) {}

  Clock::time_point due() const {
    return garbage_.empty() ? std::min({garbage_due_, trim_due_, metadata_due_, places_due_}) : Clock::time_point();
  }

  // Dead letters may have become older than dead_retention.
  void trim_is_due() { trim_due_ = {}; }

  // Queues dead letters of unack2retry, so that add() removes the TTL of their bodies (nack and bury remove it
  // themselves).
  void queue_persist(const std::vector<std::string>& ids) {
    to_persist_.insert(to_persist_.end(), ids.begin(), ids.end());
  }
  bool has_to_persist() const { return !to_persist_.empty(); }

  // There may be entries of messages in flight that have left it without freeing their places.
  void places_are_due() {
    places_due_ = {};
    place_ = 0;
    walks_places_ = true;
  }

  // Adds the requests that are due. While `stopping`, only those of queue_persist(). `paced`: the queue has limits.
  // Returns whether that may free places of messages in flight.
  bool add(RoundTrip& round_trip, const store::Moves& moves, bool stopping, bool paced);

 private:
  void add_persisting(RoundTrip& round_trip, const store::Moves& moves);
  void sample_garbage(RoundTrip& round_trip, const store::Moves& moves);
  void trim(RoundTrip& round_trip, const store::Moves& moves, std::optional<milliseconds> older_than,
            std::int64_t leave);
  void correct_places(RoundTrip& round_trip, const store::Moves& moves);
  void end_walk();
  void clean_metadata(RoundTrip& round_trip, const store::Moves& moves);
  void clean_keys(RoundTrip& round_trip, const store::Moves& moves);
  void sample_metadata(RoundTrip& round_trip, const store::Moves& moves, const std::string& key);

  const Rules rules_;
  const std::function<void(std::size_t)> trimmed_;
  Clock::time_point garbage_due_, trim_due_, metadata_due_;
  Clock::time_point places_due_ = Clock::time_point::max();  // the maximum: the queue has no limits
  std::vector<std::string> to_persist_;                      // ids of dead letters whose bodies still have a TTL
  std::vector<std::string> garbage_;                         // to be deleted
  std::vector<std::string> places_;                          // ids in `running`, which leave it if they have no lease
  std::size_t place_ = 0;                                    // the rank of the next of these
  bool walks_places_ = false;                                // without pauses, until a walk over all finds none
  std::size_t gone_places_ = 0;                              // in this walk
  std::vector<std::string> metadata_;                        // ids of metadata, which goes if their messages are gone
  std::vector<std::string> key_names_;                       // unique keys, whose entries go if no message holds them
};

// ---- RegistryEntry --------------------------------------------------------------------------------------------------

// The entry of a consumer in the registry of a queue: see store/registry.h.

// What a consumer does at one moment, for its entry in the registry of one queue.
class ConsumerActivity {
 public:
  // `busy`: handlers that run; with a handler of a Delivery: deliveries that are outstanding. Of all its queues.
  explicit ConsumerActivity(std::size_t busy) : busy_(busy) {}

  // A delivery of the queue that it holds. It must live until write_to().
  void add(const InFlightMessage& delivery);

  void write_to(store::ConsumerEntry& entry) const;

 private:
  std::size_t busy_, in_flight_ = 0;
  std::vector<std::pair<Lease::Clock::time_point, const InFlightMessage*>>
      longest_;  // running or fetched, the longest first
};

// The part of a consumer's entries that does not change. `concurrency` 0: it writes no entries.
store::ConsumerEntry profile_of(const ConsumerOptions& options, const std::deque<ServedQueue>& queues);

// The registry is for operators only. So it causes no further round trip, a failure is logged once and fails nothing
// else, and no call waits for it.
class RegistryEntry {
 public:
  using Clock = std::chrono::steady_clock;

  // `interval`: between two writes, if it has something to send anyway.
  RegistryEntry(ServedPartition& partition, milliseconds interval) : partition_(partition), interval_(interval) {}

  // Whether the entry should be written with this round trip, which has all its other requests.
  bool is_due(const RoundTrip& round_trip) const;
  void add(RoundTrip& round_trip, const ConsumerActivity& activity);

  // Whether there may be an entry.
  bool is_written() const { return written_; }
  // Removes the entry. The answer does not matter.
  void add_removal(RoundTrip& round_trip);

  // The connection was lost, or replaced: perhaps another server has no entry.
  void leave() { due_ = {}; }

 private:
  void finish(const store::Answer<bool>& written, const std::string& where);
  void failed(const std::string& why, const std::string& where);

  ServedPartition& partition_;
  const milliseconds interval_;
  Clock::time_point due_;
  bool written_ = false;
  bool failed_ = false;  // the last time
};

// How often the consumer of so many queues writes each of its entries.
milliseconds registry_interval(milliseconds poll_interval, std::size_t queues);

// ---- PartitionCopies ------------------------------------------------------------------------------------------------

// The copies of the layout, of the pause and of the limits that a partition of a queue has: reads them, and updates
// those that are behind.

// Pause and limits are set in partition 0, and consumers copy them. So that neither a new partition nor one whose
// server was away opens a paused queue, or exceeds the limits, no message is taken from a partition before its copies
// are those of the latest generation that is known here. While partition 0 is away, a partition without a copy of the
// pause is not served; one without a copy of the limits counts as without limits.
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
  // Whether the copies of the pause or of the limits should be updated at once.
  bool is_urgent() const { return copies_pause() || copies_limits(); }

  // Whether messages may be taken from the partition. If it is paused, a take returns none.
  bool may_take() const {
    const bool read = pause_.generation >= 0 && limits_.generation >= 0;
    return partition_.number == 0 ||
           (read && !is_behind(pause_, latest_pause()) && !is_behind(limits_, latest_limits()));
  }

  // The connection was lost, or replaced.
  void leave();

 private:
  // A copy in this partition, as it was last seen.
  struct Copy {
    std::int64_t generation = -1;
    bool under_way = false;  // a request to update it
  };

  std::int64_t latest_pause() const { return partition_.queue.pause.generation(); }
  std::int64_t latest_limits() const { return partition_.queue.limits.generation; }
  bool is_behind(const Copy& copy, std::int64_t latest) const {
    return partition_.number > 0 && copy.generation < latest;
  }
  bool copies_pause() const { return is_behind(pause_, latest_pause()) && !pause_.under_way; }
  bool copies_limits() const { return is_behind(limits_, latest_limits()) && !limits_.under_way; }
  void learn(store::PauseState copy);
  void learn(const store::Limits& copy);
  void read_pause(RoundTrip& round_trip);
  void read_limits(RoundTrip& round_trip);
  void copy_pause(RoundTrip& round_trip);
  void copy_limits(RoundTrip& round_trip);

  ServedPartition& partition_;
  std::chrono::steady_clock::time_point due_;
  std::optional<store::Keys> next_keys_;  // of partition 0: those of partition 1, if they are on the same server
  bool may_read_next_ = true;
  Copy pause_, limits_;
};

}  // namespace delayqueue
