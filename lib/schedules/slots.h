// The slots of a schedule: the moments at which its messages are due, in milliseconds since 1970 in UTC.
#pragma once

#include "schedules/cron.h"
#include "schedules/zone.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue::schedules {

// When a schedule is due: by an expression and a zone, or at the multiples of a duration since 1970. All slots are from
// 1970 to the end of 2199. An immutable value, which several threads may use.
class Slots {
 public:
  // The members of a Schedule. Throws std::invalid_argument with the member, its value and the reason, and SetupError
  // if this machine cannot know the zone.
  Slots(const std::string& cron, std::chrono::milliseconds every, const std::string& zone);

  // The first slot later than `after`. Unset: there is none.
  std::optional<std::int64_t> next(std::int64_t after) const;

  // The last slot later than `after` and not later than `until`. Calls next() as often as the number of seconds between
  // them has binary digits: a schedule for each second costs no more after a month than one for each day.
  std::optional<std::int64_t> last(std::int64_t after, std::int64_t until) const;

  // The last slots of these, `most` at most; the earliest first.
  std::vector<std::int64_t> last(std::int64_t after, std::int64_t until, std::size_t most) const;

 private:
  std::optional<Cron> cron_;          // unset: multiples
  std::shared_ptr<const Zone> zone_;  // of cron_
  std::int64_t every_ = 0;
};

// The first slot of an expression in a zone at or after `from`; both are in seconds since 1970. A local time that a
// jump of the clock skips counts as the moment of the jump, and a repeated one counts once: see docs/recurring.md.
std::optional<std::int64_t> first_slot(const Cron& cron, const Zone& zone, std::int64_t from);

}  // namespace delayqueue::schedules
