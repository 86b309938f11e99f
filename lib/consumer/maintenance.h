// Periodic work on a queue that any of its consumers may do: deletes garbage, trims the dead letters, and removes
// metadata of messages that are gone. Also removes the TTL of the bodies of new dead letters. Each step is bounded; if more is left, another follows at once. Used by the
// consumer's thread only.
#pragma once

#include "consumer/round_trip.h"
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
    milliseconds interval{2000};  // between looks for garbage and at the number of dead letters
    milliseconds dead_retention{0};
    std::uint64_t dead_limit = 0;  // 0: none
  };

  // `trimmed` is called with the number of dead letters that were deleted, if there were any.
  Maintenance(const Rules& rules, std::function<void(std::size_t)> trimmed)
      : rules_(rules), trimmed_(std::move(trimmed)) {}

  Clock::time_point due() const {
    return garbage_.empty() ? std::min({garbage_due_, trim_due_, metadata_due_}) : Clock::time_point();
  }

  // These messages became dead letters. They are kept for dead_retention, so the TTL of their bodies is to be removed.
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
  void scan_metadata(RoundTrip& round_trip, const store::Store& store, const std::string& key, std::string& cursor);

  const Rules rules_;
  const std::function<void(std::size_t)> trimmed_;
  Clock::time_point garbage_due_, trim_due_, metadata_due_;
  std::vector<std::string> to_persist_;  // ids of dead letters whose bodies still have a TTL
  std::vector<std::string> garbage_;     // to be deleted
  std::vector<std::string> metadata_;    // ids of metadata, to be removed if their messages are gone
  std::string attempts_cursor_ = "0";
  std::string reasons_cursor_ = "0";
};

}  // namespace delayqueue
