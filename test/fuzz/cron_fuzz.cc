// A line with the name of a zone, and an expression: any bytes are slots or std::invalid_argument. Slots are whole
// seconds, later than what they follow, of dates and times of the expression, and the last one of a span is found.
#include "require.h"
#include "schedules/slots.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

using delayqueue::schedules::Cron;
using delayqueue::schedules::find_zone;
using delayqueue::schedules::first_slot;
using delayqueue::schedules::kEndOfSlots;
using delayqueue::schedules::kNever;
using delayqueue::schedules::LocalTime;
using delayqueue::schedules::Slots;
using delayqueue::schedules::Zone;

namespace {

constexpr std::int64_t kEnd = kEndOfSlots * 1000;

bool begins(const char* text, const char* with) { return std::strncmp(text, with, std::strlen(with)) == 0; }

// An error is one short line of printable characters.
void check_error(const std::exception& e, const char* with) {
  REQUIRE(begins(e.what(), with));
  REQUIRE(std::strlen(e.what()) < 2000);
  for (const char* c = e.what(); *c != '\0'; ++c) REQUIRE(*c >= ' ' && *c <= '~');
}

// A time from 1970 to 2199 that the input determines.
std::int64_t moment_of(const std::string& given) {
  std::uint64_t hash = 14'695'981'039'346'656'037U;
  for (const unsigned char c : given) hash = (hash ^ c) * 1'099'511'628'211U;
  return static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(kEndOfSlots));
}

void check_zone(const std::string& name) {
  try {
    const auto zone = find_zone(name);
    REQUIRE(!name.empty() && name.size() <= 64 && name.find("..") == std::string::npos && name[0] != '/');
    REQUIRE(!zone->periods().empty());
    std::int64_t end = zone->periods().front().begin;
    REQUIRE(end < 0);
    for (const Zone::Period& period : zone->periods()) {
      REQUIRE(period.begin == end);
      REQUIRE(period.end > period.begin);
      REQUIRE(period.offset > -86'400 && period.offset < 86'400);
      end = period.end;
    }
    REQUIRE(end == kEndOfSlots);
  } catch (const std::invalid_argument& e) {
    check_error(e, "zone \"");
  } catch (const delayqueue::SetupError& e) {
    check_error(e, "zone \"");
  }
}

std::optional<Slots> slots_of(const std::string& cron) {
  if (cron.empty()) return std::nullopt;
  try {
    return Slots(cron, std::chrono::milliseconds(0), "UTC");
  } catch (const std::invalid_argument& e) {
    check_error(e, "cron \"");
    return std::nullopt;
  }
}

void check_search(const Cron& cron, LocalTime from) {
  const LocalTime time = cron.first(from);
  REQUIRE(time >= from);
  REQUIRE(time == kNever || cron.first(time) == time);
  REQUIRE(cron.first((from + std::min(time, kEndOfSlots)) / 2) == time || from > kEndOfSlots);
  REQUIRE(cron.first(std::numeric_limits<LocalTime>::min()) <= time);
  REQUIRE(cron.first(std::numeric_limits<LocalTime>::max()) == kNever);
}

// An hour ahead, a year behind, and changes of all sizes in between.
const Zone& odd_zone() {
  static const Zone zone(3600, {{1'000'000'000, 7200},
                                {1'000'003'600, -39'600},
                                {1'500'000'000, 50'400},
                                {1'500'001'800, 1800},
                                {3'000'000'000, -43'200},
                                {5'000'000'000, 3601}});
  return zone;
}

void check_in_zone(const Cron& cron, std::int64_t from) {
  for (const std::int64_t change : {std::int64_t{1'000'000'000}, std::int64_t{1'500'000'000}, from}) {
    std::int64_t at = std::max<std::int64_t>(change - 90'000, 0);
    for (int i = 0; i < 5; ++i) {
      const auto slot = first_slot(cron, odd_zone(), at);
      if (!slot) break;
      REQUIRE(*slot >= at);
      REQUIRE(*slot < kEndOfSlots);
      REQUIRE(first_slot(cron, odd_zone(), *slot) == slot);
      at = *slot + 1;
    }
  }
}

void check_slots(const Slots& slots, std::int64_t after) {
  const auto next = slots.next(after);
  if (!next) return;
  REQUIRE(*next > after);
  REQUIRE(*next < kEnd);
  REQUIRE(*next % 1000 == 0);
  REQUIRE(slots.next(*next - 1) == next);
  const std::int64_t until = *next + (kEnd - *next) / 3;
  const auto last = slots.last(after, until);
  REQUIRE(last && *last >= *next && *last <= until);
  REQUIRE(slots.next(*last - 1) == last);
  const auto later = slots.next(*last);
  REQUIRE(!later || *later > until);
  const auto two = slots.last(after, until, 2);
  REQUIRE(two.back() == *last && two.size() == (*last == *next ? 1U : 2U));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string given(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(given.find('\n'), given.size());
  check_zone(given.substr(0, line));
  const std::string expression = given.substr(std::min(line + 1, given.size()));
  const auto slots = slots_of(expression);
  if (!slots) return 0;
  const std::int64_t moment = moment_of(given);
  const Cron cron(expression);
  check_search(cron, moment);
  check_in_zone(cron, moment);
  check_slots(*slots, moment * 1000);
  return 0;
}
