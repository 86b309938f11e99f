#include "schedules/schedule.h"

#include "queue/option_checks.h"

#include <limits>
#include <stdexcept>
#include <utility>

namespace delayqueue {

using std::chrono::system_clock;

const char* DELAYQUEUE_ABI::to_string(Missed missed) {
  switch (missed) {
    case Missed::none:
      return "none";
    case Missed::last:
      return "last";
    case Missed::all:
      return "all";
  }
  return "last";
}

const char* DELAYQUEUE_ABI::to_string(Overlap overlap) { return overlap == Overlap::allow ? "allow" : "skip"; }

namespace schedules {
namespace {

constexpr std::size_t kMostTimes = 10'000;

// Checks a size or a number.
void check_at_most(const char* field, std::size_t value, const char* unit, std::size_t most) {
  if (value <= most) return;
  throw std::invalid_argument(field + (": " + std::to_string(value)) + unit + "; expected at most " +
                              std::to_string(most));
}

std::int64_t ms_of(system_clock::time_point time) {
  return std::chrono::floor<milliseconds>(time.time_since_epoch()).count();
}

}  // namespace

Slots checked(const Schedule& schedule) {
  Slots slots(schedule.cron, schedule.every, schedule.zone);
  check_at_most("payload", schedule.payload.size(), " bytes", kMostPayload);
  check_at_most("headers", schedule.headers.size(), " headers", kMostHeaders);
  check_at_most("headers", packed_headers(schedule.headers).size(), " bytes", kMostHeaderBytes);
  if (schedule.retries && *schedule.retries < 0) {
    throw std::invalid_argument("retries: " + std::to_string(*schedule.retries) + "; expected 0 or more");
  }
  if (schedule.ttl) check_at_least("ttl", *schedule.ttl, milliseconds(1));
  if (schedule.until) check_time("until", milliseconds(ms_of(*schedule.until)));
  return slots;
}

}  // namespace schedules

std::vector<system_clock::time_point> DELAYQUEUE_ABI::next_times(const Schedule& schedule,
                                                                 system_clock::time_point after, std::size_t count) {
  schedules::check_at_most("count", count, "", schedules::kMostTimes);
  const schedules::Slots slots = schedules::checked(schedule);
  const std::int64_t until =
      schedule.until ? schedules::ms_of(*schedule.until) : std::numeric_limits<std::int64_t>::max();
  std::vector<system_clock::time_point> times;
  auto slot = slots.next(schedules::ms_of(after));
  for (; slot && *slot <= until && times.size() < count; slot = slots.next(*slot)) {
    times.emplace_back(milliseconds(*slot));
  }
  return times;
}

}  // namespace delayqueue
