// Periodic work on a queue; each of its consumers does it. Deletes garbage, trims the dead letters, deletes the
// metadata of messages that are gone and values that are too long for metadata, and removes the TTL of the bodies of
// new dead letters. Each step is bounded; if more is left, the next step follows at once. Used by the consumer's thread
// only.
#pragma once

#include "consumer/link.h"
#include "store/moves.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

class Maintenance {
 public:
  using Clock = std::chrono::steady_clock;

  struct Rules {
    milliseconds interval{2000};     // between two samples of garbage, and two trims to dead_limit
    milliseconds dead_retention{0};  // older dead letters are deleted
    std::uint64_t dead_limit = 0;    // most dead letters to keep; 0: no limit
    milliseconds seldom{10'000};     // between two trims to dead_retention, and two samples of metadata
  };

  // `trimmed` is called with the number of dead letters that were deleted, if there were any.
  Maintenance(const Rules& rules, std::function<void(std::size_t)> trimmed)
      : rules_(rules), trimmed_(std::move(trimmed)) {}

  Clock::time_point due() const {
    return garbage_.empty() ? std::min({garbage_due_, trim_due_, metadata_due_}) : Clock::time_point();
  }

  // Queues dead letters of unack2retry, so that add() removes the TTL of their bodies (nack and bury remove it
  // themselves).
  void queue_persist(const std::vector<std::string>& ids) {
    to_persist_.insert(to_persist_.end(), ids.begin(), ids.end());
  }
  bool has_to_persist() const { return !to_persist_.empty(); }

  // Adds the requests that are due. While `stopping`, only those of queue_persist().
  void add(RoundTrip& round_trip, const store::Store& store, bool stopping);

 private:
  void add_persisting(RoundTrip& round_trip, const store::Store& store);
  void sample_garbage(RoundTrip& round_trip, const store::Store& store);
  void trim(RoundTrip& round_trip, const store::Store& store, std::optional<milliseconds> older_than,
            std::int64_t leave);
  void clean_metadata(RoundTrip& round_trip, const store::Store& store);
  void sample_metadata(RoundTrip& round_trip, const store::Store& store, const std::string& key);

  const Rules rules_;
  const std::function<void(std::size_t)> trimmed_;
  Clock::time_point garbage_due_, trim_due_, metadata_due_;
  std::vector<std::string> to_persist_;  // ids of dead letters whose bodies still have a TTL
  std::vector<std::string> garbage_;     // to be deleted
  std::vector<std::string> metadata_;    // ids of metadata, which goes if their messages are gone
};

}  // namespace delayqueue
