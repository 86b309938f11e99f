#include "schedules/slots.h"

#include "support/test.h"

#include <ctime>
#include <random>

namespace delayqueue::schedules {
namespace {

constexpr std::int64_t kHour = 3600;

// "2026-11-29 12:00:00" in UTC as seconds since 1970, and back.
std::int64_t utc_of(const std::string& text) {
  std::tm tm{};
  REQUIRE(::strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &tm) != nullptr);
  return ::timegm(&tm);
}

std::string utc_text(std::int64_t moment) {
  const std::time_t seconds = moment;
  std::tm tm{};
  ::gmtime_r(&seconds, &tm);
  char text[64];
  REQUIRE(std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm) > 0);
  return text;
}

// The slots from `from` until before `end`.
std::vector<std::string> slots_between(const std::string& cron, const Zone& zone, const std::string& from,
                                       const std::string& end) {
  std::vector<std::string> slots;
  const Cron expression(cron);
  for (std::int64_t at = utc_of(from);;) {
    const auto slot = first_slot(expression, zone, at);
    if (!slot || *slot >= utc_of(end)) return slots;
    slots.push_back(utc_text(*slot));
    at = *slot + 1;
  }
}

using Texts = std::vector<std::string>;

// A zone like Berlin in the spring and the autumn of 2027: an hour ahead of UTC, two from 28 March to 31 October.
const Zone kBerlin(kHour, {{1'806'195'600, 2 * kHour}, {1'824'944'400, kHour}});

Texts in_spring(const std::string& cron) {
  return slots_between(cron, kBerlin, "2027-03-27 23:30:00", "2027-03-28 03:00:00");
}

Texts in_autumn(const std::string& cron) {
  return slots_between(cron, kBerlin, "2027-10-30 22:30:00", "2027-10-31 03:00:00");
}

TEST_CASE("cron R31: a local time that the clock skips counts as the moment of the jump, once") {
  // Clocks go from 2:00 to 3:00 at 01:00 in UTC.
  CHECK(in_spring("30 2 * * *") == Texts{"2027-03-28 01:00:00"});
  CHECK(in_spring("0 2 * * *") == Texts{"2027-03-28 01:00:00"});
  CHECK(in_spring("0,30 2 * * *") == Texts{"2027-03-28 01:00:00"});
  CHECK(in_spring("*/15 2 * * *") == Texts{"2027-03-28 01:00:00"});
  CHECK(in_spring("59 59 2 * * *") == Texts{"2027-03-28 01:00:00"});
  CHECK(in_spring("30 2,3 * * *") == Texts{"2027-03-28 01:00:00", "2027-03-28 01:30:00"});
  CHECK(in_spring("0 2,3 * * *") == Texts{"2027-03-28 01:00:00"});
  CHECK(in_spring("0 3 * * *") == Texts{"2027-03-28 01:00:00"});
  CHECK(in_spring("30 1 * * *") == Texts{"2027-03-28 00:30:00"});
  CHECK(in_spring("0 */2 * * *") == Texts{"2027-03-28 01:00:00", "2027-03-28 02:00:00"});
}

TEST_CASE("cron R31: an expression for every hour loses what the clock skips") {
  CHECK(in_spring("30 * * * *") ==
        Texts{"2027-03-27 23:30:00", "2027-03-28 00:30:00", "2027-03-28 01:30:00", "2027-03-28 02:30:00"});
  CHECK(in_spring("30 0-23 * * *") == in_spring("30 * * * *"));
  CHECK(in_spring("*/30 * * * *").size() == 7);
}

TEST_CASE("cron R31: a repeated local time counts once, unless the expression is an interval") {
  // Clocks go from 3:00 back to 2:00 at 01:00 in UTC.
  CHECK(in_autumn("30 2 * * *") == Texts{"2027-10-31 00:30:00"});
  CHECK(in_autumn("0 2 * * *") == Texts{"2027-10-31 00:00:00"});
  CHECK(in_autumn("0,30 2 * * *") == Texts{"2027-10-31 00:00:00", "2027-10-31 00:30:00"});
  CHECK(in_autumn("0 1-3 * * *") == Texts{"2027-10-30 23:00:00", "2027-10-31 00:00:00", "2027-10-31 02:00:00"});
  CHECK(in_autumn("0 3 * * *") == Texts{"2027-10-31 02:00:00"});
  CHECK(in_autumn("30 * * * *") == Texts{"2027-10-30 22:30:00", "2027-10-30 23:30:00", "2027-10-31 00:30:00",
                                         "2027-10-31 01:30:00", "2027-10-31 02:30:00"});
  CHECK(in_autumn("30 0-23 * * *") == in_autumn("30 * * * *"));
  CHECK(in_autumn("*/30 2 * * *") ==
        Texts{"2027-10-31 00:00:00", "2027-10-31 00:30:00", "2027-10-31 01:00:00", "2027-10-31 01:30:00"});
  CHECK(in_autumn("0 */2 * * *") == Texts{"2027-10-31 00:00:00", "2027-10-31 01:00:00"});
  CHECK(in_autumn("*/20 0 2 * * *").size() == 6);
}

TEST_CASE("cron R31: a day that a place skips counts as the moment of the jump") {
  // Samoa went from 29 December 2011 to 31 December: from UTC-10 to UTC+14, at 10:00 in UTC.
  const Zone samoa(-10 * kHour, {{1'325'239'200, 14 * kHour}});
  const auto slots = [&](const std::string& cron) {
    return slots_between(cron, samoa, "2011-12-29 12:00:00", "2011-12-31 12:00:00");
  };
  CHECK(slots("0 9 * * *") == Texts{"2011-12-29 19:00:00", "2011-12-30 10:00:00", "2011-12-30 19:00:00"});
  CHECK(slots("0 9 30 * *") == Texts{"2011-12-30 10:00:00"});
  CHECK(slots("0 0 * * *") == Texts{"2011-12-30 10:00:00", "2011-12-31 10:00:00"});
  CHECK(slots("0 */12 * * *") ==
        Texts{"2011-12-29 22:00:00", "2011-12-30 10:00:00", "2011-12-30 22:00:00", "2011-12-31 10:00:00"});
}

TEST_CASE("cron R31: changes that follow each other within hours, of any size") {
  // By the definition: second by second.
  std::mt19937 random(20261129);
  const auto draw = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  constexpr std::int64_t kFrom = 1'800'000'000;
  constexpr std::int64_t kSpan = 4 * 86'400;
  const Texts expressions = {"0 2 * * *",   "30 1-3 * * *", "*/20 2 * * *", "30 * * * *", "0 */3 * * *",
                             "0 0 1,3 * *", "0 12 * * 5",   "0 0 L * *",    "0 4 15 * ?", "59 23 * * *"};
  for (int round = 0; round < 60; ++round) {
    std::vector<Zone::Change> changes;
    for (std::int64_t at = kFrom; at < kFrom + kSpan;) {
      at += 60 * draw(10, 1500);
      changes.push_back({at, 900 * draw(-8, 8)});
    }
    const Zone zone(900 * draw(-8, 8), changes);
    for (const std::string& text : expressions) {
      const Cron cron(text);
      std::vector<std::int64_t> expected;
      LocalTime seen = std::numeric_limits<LocalTime>::min();  // clocks have shown the times before it
      for (const Zone::Period& period : zone.periods()) {
        const LocalTime begin = period.begin + period.offset;
        if (&period == &zone.periods()[0]) seen = begin;
        const std::int64_t from = std::max(period.begin, kFrom);
        for (std::int64_t at = from; at < std::min(period.end, kFrom + kSpan); at += 60) {
          const LocalTime local = at + period.offset;
          const bool repeated = local < seen;
          bool is_slot = cron.first(local) == local && (cron.is_interval() || !repeated);
          if (at == period.begin && seen < begin)
            is_slot = is_slot || (!cron.is_every_hour() && cron.first(seen) < begin);
          if (is_slot) expected.push_back(at);
        }
        seen = std::max(seen, period.end + period.offset);
      }
      std::vector<std::int64_t> slots;
      for (auto slot = first_slot(cron, zone, kFrom); slot && *slot < kFrom + kSpan;) {
        slots.push_back(*slot);
        slot = first_slot(cron, zone, *slot + 1);
      }
      CAPTURE(round);
      CAPTURE(text);
      CHECK(slots == expected);
    }
  }
}

TEST_CASE("cron R30: slots are from 1970 to the end of 2199 in UTC, in every zone") {
  const Zone east(14 * kHour);
  const Zone west(-12 * kHour);
  const Cron daily("0 0 * * *");
  CHECK(first_slot(daily, east, 0) == 10 * kHour);
  CHECK(first_slot(daily, west, 0) == 12 * kHour);
  CHECK(first_slot(Cron("0 12 31 12 *"), west, 0) == 0);  // noon of 31 December 1969 there
  CHECK(first_slot(Cron("0 0 1 1 *"), east, kEndOfSlots - 14 * kHour) == kEndOfSlots - 14 * kHour);
  CHECK_FALSE(first_slot(Cron("0 0 1 1 *"), west, kEndOfSlots - kHour).has_value());
  CHECK_FALSE(first_slot(Cron("0 0 1 1 *"), Zone(0), kEndOfSlots - kHour).has_value());
  CHECK_FALSE(first_slot(daily, east, kEndOfSlots).has_value());

  constexpr std::int64_t kLast = 7'258'118'399'000;
  const Slots slots("* * * * * *", milliseconds(0), "UTC");
  CHECK(slots.next(kLast - 1) == kLast);
  CHECK_FALSE(slots.next(kLast).has_value());
  CHECK_FALSE(slots.next(std::numeric_limits<std::int64_t>::max()).has_value());
  CHECK(slots.next(std::numeric_limits<std::int64_t>::min()) == 0);
  CHECK(slots.last(-1, std::numeric_limits<std::int64_t>::max()) == kLast);
}

TEST_CASE("slots R33: hosts with different data go on from each other's slots; at worst a day has two") {
  const Zone without_summer(kHour);  // data from before, or after, a country changed its mind
  const Cron daily("0 10 * * *");
  std::mt19937 random(33);
  for (int round = 0; round < 50; ++round) {
    std::map<std::int64_t, int> slots_of_day;
    std::int64_t at = utc_of("2027-01-01 00:00:00");
    const std::int64_t end = utc_of("2028-01-01 00:00:00");
    while (true) {
      const auto slot = first_slot(daily, random() % 2 == 0 ? kBerlin : without_summer, at);
      REQUIRE(slot.has_value());
      if (*slot >= end) break;
      ++slots_of_day[*slot / 86'400];
      at = *slot + 1;
    }
    CHECK(slots_of_day.size() == 365);  // no day without
    for (const auto& [day, slots] : slots_of_day) CHECK(slots <= 2);
  }
}

TEST_CASE("slots R29: the slots of `every` are the multiples since 1970") {
  const Slots slots("", 7s, "UTC");
  CHECK(slots.next(std::numeric_limits<std::int64_t>::min()) == 0);
  CHECK(slots.next(-1) == 0);
  CHECK(slots.next(0) == 7'000);
  CHECK(slots.next(6'999) == 7'000);
  CHECK(slots.next(7'000) == 14'000);
  CHECK(slots.last(-1, 6'999) == 0);
  CHECK(slots.last(-1, 7'000) == 7'000);
  CHECK_FALSE(slots.last(7'000, 13'999).has_value());
  CHECK(slots.last(0, 21'500, 2) == std::vector<std::int64_t>{14'000, 21'000});
  CHECK(slots.last(0, 21'500, 100) == std::vector<std::int64_t>{7'000, 14'000, 21'000});
  CHECK(slots.last(0, 21'500, 0).empty());

  const Slots odd("", 1'500ms, "UTC");
  CHECK(odd.next(1'000) == 1'500);
  CHECK(odd.next(1'800'000'000'000) == 1'800'000'001'500);

  const Slots century("", std::chrono::hours(24 * 365 * 100), "UTC");
  CHECK(century.next(1'800'000'000'000) == 3'153'600'000'000);
  CHECK_FALSE(century.next(6'307'200'000'000).has_value());
  CHECK(century.last(-1, std::numeric_limits<std::int64_t>::max()) == 6'307'200'000'000);
  CHECK_FALSE(century.next(std::numeric_limits<std::int64_t>::max()).has_value());
}

TEST_CASE("slots R17: the last passed slot, by bisection") {
  std::mt19937_64 random(17);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  int found = 0;
  for (const std::string cron : {"*/7 * * * *", "0 9 * * MON-FRI", "0 0 1 * *", "*/13 * * * * *", "30 2 * * *"}) {
    const Slots slots(cron, milliseconds(0), "UTC");
    for (int round = 0; round < 300; ++round) {
      const std::int64_t after = draw(1'700'000'000'000, 1'900'000'000'000);
      const std::int64_t until = after + draw(-1'000, std::int64_t{1} << draw(10, 31));
      const auto last = slots.last(after, until);
      CAPTURE(cron);
      CAPTURE(after);
      CAPTURE(until);
      if (!last) {
        CHECK(slots.next(after).value() > until);
        continue;
      }
      ++found;
      CHECK(*last > after);
      CHECK(*last <= until);
      CHECK(slots.next(*last - 1) == last);  // it is a slot
      CHECK(slots.next(*last).value() > until);

      const std::vector<std::int64_t> three = slots.last(after, until, 3);
      CHECK(three.back() == *last);
      CHECK(slots.next(three.front() - 1) == three.front());
      for (std::size_t i = 1; i < three.size(); ++i) CHECK(slots.next(three[i - 1]) == three[i]);
      if (three.size() < 3) CHECK(slots.next(after) == three.front());
    }
  }
  CHECK(found > 500);
}

TEST_CASE("slots R17: after a month, the last hundred slots of a schedule for each second") {
  const Slots slots("* * * * * *", milliseconds(0), "UTC");
  constexpr std::int64_t kNow = 1'790'000'000'500;
  const auto last = slots.last(kNow - 30LL * 86'400'000, kNow, 100);
  REQUIRE(last.size() == 100);
  CHECK(last.back() == 1'790'000'000'000);
  CHECK(last.front() == 1'790'000'000'000 - 99'000);
}

TEST_CASE("slots: neither or both of cron and every, and a zone with every, are refused") {
  const auto refusal = [](const std::string& cron, milliseconds every, const std::string& zone) {
    return thrown([&] { Slots(cron, every, zone); });
  };
  CHECK(refusal("", 0s, "UTC") == "invalid_argument: cron: empty, and every is 0 ms; expected one of them");
  CHECK(refusal("@daily", 5s, "UTC") == "invalid_argument: every: 5000 ms, but cron is set; expected only one of them");
  CHECK(refusal("", 999ms, "UTC") == "invalid_argument: every: 999 ms; expected at least 1000 ms");
  CHECK(refusal("", -5s, "UTC") == "invalid_argument: every: -5000 ms; expected at least 1000 ms");
  CHECK(refusal("", std::chrono::hours(24 * 366 * 100), "UTC") ==
        "invalid_argument: every: 3162240000000 ms; expected at most a hundred years");
  CHECK(refusal("", 5s, "Europe/Berlin") ==
        "invalid_argument: zone: \"Europe/Berlin\"; expected UTC with every, which counts from 1970 in UTC");
  CHECK(refusal("", 5s, "a\nb") ==
        "invalid_argument: zone: \"a\\x0ab\"; expected UTC with every, which counts from 1970 in UTC");
  CHECK(refusal("0 9 31 2 *", 0s, "UTC") ==
        "invalid_argument: cron \"0 9 31 2 *\": at character 5: no such date: it never occurs");
  CHECK(refusal("@daily", 0s, "") ==
        "invalid_argument: zone \"\": no name of a time zone; expected a name such as \"Europe/Berlin\"");
}

}  // namespace
}  // namespace delayqueue::schedules
