// Schedules of recurring messages, as they are stored in partition 0. The scripts compare and write; the callers
// compute the slots. Moves has the calls.
#pragma once

#include <delayqueue/message.h>

#include "store/keys.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::store {

inline constexpr std::size_t kMostSchedules = 10'000;         // of a queue
inline constexpr std::size_t kLongestScheduleName = 128;      // bytes
inline constexpr std::size_t kLongestScheduleText = 131'072;  // bytes; scripts read no longer one
inline constexpr std::size_t kMostOccurrences = 100;          // that one call stores

// The headers of an occurrence that tell of its schedule: its name, its slot in ms, and whether it is left out while an
// earlier one is alive ("skip").
inline constexpr char kScheduleHeader[] = "dq-schedule";
inline constexpr char kSlotHeader[] = "dq-slot";
inline constexpr char kOverlapHeader[] = "dq-overlap";

// The occurrences of a schedule that a call stores: messages that are alike, except for their slots and ids.
struct Occurrences {
  std::vector<std::int64_t> slots_ms{};  // in ascending order; at most kMostOccurrences
  std::string_view payload{};
  const Headers* headers = nullptr;  // of the definition; null: none
  int retries = 3;
  std::chrono::milliseconds ttl{0};
  bool skips = false;  // occurrences do not overlap
};

// A call of advance.lua.
struct Advance {
  std::string_view name{};
  // As they were read. slot_ms: unset: the schedule has none.
  std::int64_t generation = 0;
  std::optional<std::int64_t> slot_ms{};
  std::optional<std::int64_t> last_ms{};  // the slot of the newest new occurrence; unset: the schedule ends
  bool takes_back = false;                // the occurrence of slot_ms, if it waits
  bool stays = false;                     // that one, since all that were missed are made up for
  bool is_ahead = false;                  // slot_ms is too far in the future, since the clock was set back
  Occurrences occurrences{};
};

// 'a' advanced; or, and nothing was written: 'c' another generation, or not active; 'm' another slot; 'p' the queue is
// paused; 'e' the slot has not passed.
struct Advanced {
  char outcome = 'e';
  std::size_t stored = 0;   // occurrences
  bool taken_back = false;  // the one that waited
};

// What schedule.lua does.
enum class ScheduleMode { set, pause, resume, remove };

// A call of schedule.lua.
struct ScheduleChange {
  std::string_view name{};
  ScheduleMode mode = ScheduleMode::set;
  std::int64_t generation = 0;            // as it was read; 0: there is none, or its text cannot be read
  std::optional<std::int64_t> slot_ms{};  // as it was read
  std::string_view definition{};          // for `set`
  // For `set` and `resume`: the first one; without one the schedule has ended.
  Occurrences occurrences{};
};

// 'w' written; 's' nothing was to be changed; 'g' there is no such schedule; 'c' another caller has changed it: call
// again with what is stored; 'f' the queue has as many schedules as it may have.
struct ScheduleChanged {
  char outcome = 'c';
  std::string text{};                     // that is stored now
  std::optional<std::int64_t> slot_ms{};  // now
};

// A schedule as it was read.
struct StoredSchedule {
  std::string name{};
  std::optional<std::int64_t> slot_ms{};  // of its newest occurrence; unset: it has none
  std::string text{};                     // "<generation> <state>\n<definition>"; empty: none, or too long
};

// The parts of a text. generation 0: it cannot be read, or there is none. They refer to the text.
struct ScheduleText {
  std::int64_t generation = 0;
  std::string_view state{}, definition{};
};
ScheduleText parsed_schedule(std::string_view text);

struct ReadSchedules {
  std::int64_t now_us = 0;
  // Until the next one is due or, if it is paused, until the pause ends; unset: not known.
  std::optional<std::chrono::microseconds> next{};
  bool more = false;    // there may be more of those that are due
  bool paused = false;  // the queue has active schedules, and is paused
  std::vector<StoredSchedule> schedules{};
};

// What a consumer does with an occurrence, of those that do not overlap.
enum class Begun { handle, skip, wait };

// The id of an occurrence: a UUID of version 5, so it belongs to partition 0 and is the same on every host.
std::string occurrence_id(const Keys& keys, std::string_view name, std::int64_t slot_ms);

// The packed headers of an occurrence.
std::string occurrence_headers(const Occurrences& occurrences, std::string_view name, std::int64_t slot_ms);

// The schedule and the slot in ms that the headers of a message name; unset: it is no occurrence. Another program may
// have written any headers.
struct OccurrenceNames {
  std::string schedule;
  std::int64_t slot_ms = 0;
  bool skips = false;
};
std::optional<OccurrenceNames> occurrence_of(const Headers& headers);

// Whether a text is an id of version 5: a hint that it is an occurrence.
bool may_be_occurrence(std::string_view id);

}  // namespace delayqueue::store
