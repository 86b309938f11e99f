#include "support/test.h"

#include "schedules/advancer.h"

namespace delayqueue::schedules {
namespace {

constexpr std::int64_t kMinutes = 60'000;
constexpr std::int64_t kNoon = 1'800'000'000'000 / (60 * kMinutes) * 60 * kMinutes;  // a whole hour

// A schedule for each minute. Times are minutes from kNoon.
Schedule minutely(Missed missed = Missed::last) {
  Schedule schedule;
  schedule.every = 1min;
  schedule.missed = missed;
  return schedule;
}

store::StoredSchedule stored(const Schedule& schedule, std::optional<std::int64_t> minutes,
                             const std::string& name = "tick", const std::string& state = "active") {
  store::StoredSchedule one;
  one.name = name;
  if (minutes) one.slot_ms = kNoon + *minutes * kMinutes;
  one.text = "5 " + state + "\n" + text_of(schedule);
  return one;
}

struct Warnings {
  std::vector<std::string> all;
  Advancer::Warn collect() {
    return [this](const std::string& name, const std::string& why) { all.push_back(name + ": " + why); };
  }
};

store::ReadSchedules found_at(double minutes, const std::vector<store::StoredSchedule>& schedules) {
  store::ReadSchedules found;
  found.now_us = (kNoon + static_cast<std::int64_t>(minutes * kMinutes)) * 1000;
  found.schedules = schedules;
  return found;
}

// "[-]" or "[T]" (takes the waiting one back), then the slots in minutes; "end" if there is no next one.
std::string plan_of(const Schedule& schedule, std::optional<std::int64_t> slot, double now) {
  Warnings warnings;
  Advancer advancer(warnings.collect());
  const Advancer::Plan plan = advancer.plan(found_at(now, {stored(schedule, slot)}));
  REQUIRE(warnings.all.empty());
  REQUIRE(plan.calls.size() == 1);
  const store::Advance& call = plan.calls[0]->call;
  std::string text = call.takes_back ? "T" : "-";
  for (const std::int64_t one : call.occurrences.slots_ms) text += " " + std::to_string((one - kNoon) / kMinutes);
  if (!call.last_ms) text += " end";
  if (call.last_ms) CHECK(*call.last_ms == call.occurrences.slots_ms.back());
  if (plan.look_again) text += " again";
  return text;
}

TEST_CASE("schedules R15: missed slots: none, the last one, or all of them") {
  CHECK(plan_of(minutely(Missed::none), 0, 7.5) == "T 8");
  CHECK(plan_of(minutely(Missed::last), 0, 7.5) == "T 7 8");
  CHECK(plan_of(minutely(Missed::all), 0, 7.5) == "- 1 2 3 4 5 6 7 8");
  CHECK(plan_of(minutely(Missed::last), 0, 7) == "T 7 8");
}

TEST_CASE("schedules R16: late by less than a period is not missed") {
  for (const Missed missed : {Missed::none, Missed::last, Missed::all})
    CHECK(plan_of(minutely(missed), 0, 0.9) == "- 1");
}

TEST_CASE("schedules R15: of all missed ones the newest 100, in calls that Redis answers fast") {
  Schedule schedule = minutely(Missed::all);
  std::string text = plan_of(schedule, 0, 1000.5);
  CHECK(text.substr(0, 10) == "- 901 902 ");
  CHECK(text.find(" 999 again") != std::string::npos);
  CHECK(plan_of(schedule, 999, 1000.5) == "- 1000 1001");  // as the next look finds it
  schedule.payload.assign(64 * 1024, 'x');
  CHECK(plan_of(schedule, 0, 9.5) == "- 1 2 3 4 again");
  CHECK(plan_of(schedule, 4, 9.5) == "- 5 6 7 8 again");
  CHECK(plan_of(schedule, 8, 9.5) == "- 9 10");
}

TEST_CASE("schedules R15: what a TTL has ended is not made up") {
  Schedule schedule = minutely(Missed::all);
  schedule.ttl = 150s;
  CHECK(plan_of(schedule, 0, 7.25) == "- 5 6 7 8");
  schedule.missed = Missed::last;
  schedule.every = 60min;
  schedule.ttl = 1min;
  CHECK(plan_of(schedule, 0, 61.5) == "T 120");
}

TEST_CASE("schedules R26: no slot is later than until, and then the schedule ends") {
  Schedule schedule = minutely(Missed::all);
  schedule.until = std::chrono::system_clock::time_point(milliseconds(kNoon + 3 * kMinutes));
  CHECK(plan_of(schedule, 0, 0.5) == "- 1");
  CHECK(plan_of(schedule, 2, 2.5) == "- 3");
  CHECK(plan_of(schedule, 3, 3.5) == "- end");
  CHECK(plan_of(schedule, 0, 9.5) == "- 1 2 3 end");
  schedule.missed = Missed::last;
  CHECK(plan_of(schedule, 0, 9.5) == "T 3 end");
}

TEST_CASE("schedules R12: a lost slot becomes the next one; one that is more than 25 h behind the next one, too") {
  Warnings warnings;
  Advancer advancer(warnings.collect());
  const auto repairs = [&](std::optional<std::int64_t> slot, const std::string& state = "active") {
    return advancer.repair(found_at(0.5, {stored(minutely(), slot, "tick", state)}));
  };
  CHECK(repairs(1).empty());
  CHECK(repairs(-3).empty());  // a look will find it
  CHECK(repairs(1 + 25 * 60).empty());
  CHECK(repairs(std::nullopt, "paused").empty());
  CHECK(repairs(std::nullopt, "ended").empty());
  const auto lost = repairs(std::nullopt);
  REQUIRE(lost.size() == 1);
  CHECK(lost[0]->call.last_ms == kNoon + kMinutes);
  CHECK_FALSE(lost[0]->call.slot_ms);
  CHECK_FALSE(lost[0]->call.is_ahead);
  const auto ahead = repairs(2 + 25 * 60);
  REQUIRE(ahead.size() == 1);
  CHECK(ahead[0]->call.is_ahead);
  CHECK(ahead[0]->call.last_ms == kNoon + kMinutes);
  CHECK(warnings.all.empty());
}

TEST_CASE("schedules R11: what cannot be read is reported once, passed over by offset, and never written to") {
  Warnings warnings;
  Advancer advancer(warnings.collect());
  store::StoredSchedule later = stored(minutely(), 0, "later");
  later.text = "5 active\njitter=5\npayload=";
  store::StoredSchedule gone{"gone", kNoon, ""};
  const store::ReadSchedules found =
      found_at(0.5, {later, gone, stored(minutely(), 0), stored(minutely(), 0, "paused", "paused")});
  for (int i = 0; i < 3; ++i) {
    advancer.restart();
    const Advancer::Plan plan = advancer.plan(found);
    REQUIRE(plan.calls.size() == 1);
    CHECK(plan.calls[0]->name == "tick");
    CHECK(advancer.offset() == 2);  // of those at the head
    CHECK(warnings.all.size() == 3);
  }
  CHECK(warnings.all[0].find("later: the stored definition: the key jitter is unknown") == 0);
  later.text[0] = '6';  // another generation
  advancer.plan(found_at(0.5, {later}));
  CHECK(warnings.all.size() == 4);
  for (int i = 0; i < 5000; ++i) advancer.plan(found_at(0.5, {{std::to_string(i), kNoon, "x"}}));
  CHECK(warnings.all.size() == 1000);
}

}  // namespace
}  // namespace delayqueue::schedules
