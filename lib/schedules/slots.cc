#include "schedules/slots.h"

#include "queue/option_checks.h"
#include "redis/escaped.h"

#include <algorithm>
#include <stdexcept>

namespace delayqueue::schedules {
namespace {

constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kEnd = kEndOfSlots * kSecond;
constexpr std::chrono::milliseconds kShortest{kSecond};

}  // namespace

Slots::Slots(const std::string& cron, std::chrono::milliseconds every, const std::string& zone) {
  const std::string duration = std::to_string(every.count()) + " ms";
  if (cron.empty()) {
    if (every.count() == 0) throw std::invalid_argument("cron: empty, and every is 0 ms; expected one of them");
    check_at_least("every", every, kShortest);
    if (zone != "UTC") {
      throw std::invalid_argument("zone: \"" + redis::escaped(zone) +
                                  "\"; expected UTC with every, which counts from 1970 in UTC");
    }
    every_ = every.count();
    return;
  }
  if (every.count() != 0) {
    throw std::invalid_argument("every: " + duration + ", but cron is set; expected only one of them");
  }
  cron_.emplace(cron);
  zone_ = find_zone(zone);
}

std::optional<std::int64_t> Slots::next(std::int64_t after) const {
  if (after >= kEnd) return std::nullopt;
  after = std::max<std::int64_t>(after, -1);
  if (cron_) {
    const auto slot = first_slot(*cron_, *zone_, after < 0 ? 0 : after / kSecond + 1);
    return slot ? std::optional(*slot * kSecond) : std::nullopt;
  }
  const std::int64_t slot = after < 0 ? 0 : (after / every_ + 1) * every_;
  return slot < kEnd ? std::optional(slot) : std::nullopt;
}

std::optional<std::int64_t> Slots::last(std::int64_t after, std::int64_t until) const {
  until = std::min(until, kEnd - 1);
  std::optional<std::int64_t> last = next(after);
  if (!last || *last > until) return std::nullopt;
  if (!cron_) return until / every_ * every_;
  // The last slot is from *last to `latest`.
  std::int64_t latest = until;
  while (*last < latest) {
    const std::int64_t middle = *last + (latest - *last) / 2 / kSecond * kSecond;
    const auto later = next(middle);
    if (later && *later <= until) {
      last = later;
    } else {
      latest = middle;
    }
  }
  return last;
}

std::vector<std::int64_t> Slots::last(std::int64_t after, std::int64_t until, std::size_t most) const {
  std::vector<std::int64_t> slots;
  while (slots.size() < most) {
    const auto slot = last(after, slots.empty() ? until : slots.back() - 1);
    if (!slot) break;
    slots.push_back(*slot);
  }
  std::reverse(slots.begin(), slots.end());
  return slots;
}

std::optional<std::int64_t> first_slot(const Cron& cron, const Zone& zone, std::int64_t from) {
  const auto& periods = zone.periods();
  auto period = std::upper_bound(periods.begin(), periods.end(), from,
                                 [](std::int64_t moment, const Zone::Period& other) { return moment < other.end; });
  // The expression has no time from `sought` until `found`. So a search in one period serves those that follow.
  LocalTime sought = 0;
  LocalTime found = 0;
  const auto first = [&](LocalTime time) {
    if (time < sought || time > found || sought == found) {
      sought = time;
      found = cron.first(time);
    }
    return found;
  };
  for (; period != periods.end(); from = period->end, ++period) {
    const LocalTime begin = period->begin + period->offset;
    if (from == period->begin && period->seen < begin && !cron.is_every_hour() && first(period->seen) < begin) {
      return from;
    }
    const LocalTime local = from + period->offset;
    const std::int64_t slot = first(cron.is_interval() ? local : std::max(local, period->seen)) - period->offset;
    if (slot < period->end) return slot;
  }
  return std::nullopt;
}

}  // namespace delayqueue::schedules
