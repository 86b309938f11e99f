// The last hour of each queue, minute by minute, in memory.
#pragma once

#include <delayqueue/inspector.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "output/json.h"

namespace dqctl {

// The events of a minute that the history has.
inline constexpr std::array<const char*, 5> kMinuteEvents = {"sent", "delivered", "acked", "nacked", "dead_lettered"};

struct Minute {
  Time at{};                    // when it began
  delayqueue::Counts counts{};  // of its last reading
  // Events since the last reading of the minute before; unset: there is none, or the statistics were reset.
  std::array<std::optional<std::uint64_t>, kMinuteEvents.size()> events{};
};

Object minute_object(const Minute& minute);

// How many messages of each queue were due, ready or in retry in the last hour.
struct WaitingHistory {
  std::vector<Time> minutes{};  // at most History::kMinutes, the oldest first
  // By queue: one number for each of the minutes, of its last reading; unset: there was none.
  std::map<std::string, std::vector<std::optional<std::uint64_t>>> queues{};
};

// Any number of threads may use it.
class History {
 public:
  static constexpr std::size_t kMinutes = 60;
  static constexpr std::size_t kMostQueues = 1000;

  // Adds a reading. now: by the clock of this machine, which does not jump if a queue moves to another server.
  void add(const std::string& queue, Time now, const delayqueue::Counts& counts);

  // Forgets all other queues.
  void keep_only(const std::set<std::string>& queues);

  std::vector<Minute> minutes(const std::string& queue) const;  // the oldest first
  std::size_t size(const std::string& queue) const;
  WaitingHistory waiting() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::deque<Minute>> queues_{};  // guarded by mutex_
  Time last_{};                                         // when the minute of the last add() began; guarded by mutex_
};

}  // namespace dqctl
