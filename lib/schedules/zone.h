// Time zones, by their names in the time zone database of the system. Only zone.cc knows the library that reads it.
#pragma once

#include "schedules/cron.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace delayqueue::schedules {

// 2200-01-01 in UTC, in seconds since 1970. All slots are before it: see store::kLatestUs.
inline constexpr std::int64_t kEndOfSlots = 7'258'118'400;

// The offsets from UTC that clocks in a place have, from 1970 to 2199: periods of one offset each. An immutable value.
class Zone {
 public:
  // A moment is in seconds since 1970 in UTC. An offset, in seconds, makes it local: it is positive east of Greenwich.
  struct Change {
    std::int64_t begin;
    std::int64_t offset;  // from then on
  };

  struct Period {
    std::int64_t begin;
    std::int64_t end;  // the period ends before it
    std::int64_t offset;
    // Clocks have shown the local times before this in earlier periods. If it is later than the local time at `begin`,
    // the times until then are repeated. If it is earlier, the times from it on are skipped.
    LocalTime seen;
  };

  // `changes` are in ascending order, from 1970 on.
  explicit Zone(std::int64_t first_offset, const std::vector<Change>& changes = {});

  // Ascending, without gaps. The first begins before 1970, and the last ends with kEndOfSlots.
  const std::vector<Period>& periods() const { return periods_; }

 private:
  std::vector<Period> periods_;
};

// The zone with this name. "UTC" is always there. The data of a zone is read once in a process, and kept. Thread-safe.
//
// Throws std::invalid_argument for a name that the database cannot have, or does not have: names come from users and
// from Redis, and no other file is opened for them. Throws SetupError if this machine has no time zone data, or the
// library was built without.
std::shared_ptr<const Zone> find_zone(const std::string& name);

}  // namespace delayqueue::schedules
