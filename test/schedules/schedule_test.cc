#include "support/test.h"

#include "schedules/schedule.h"

namespace delayqueue {
namespace {

using std::chrono::system_clock;

system_clock::time_point at_ms(std::int64_t ms) { return system_clock::time_point(milliseconds(ms)); }

std::vector<std::int64_t> ms_of(const std::vector<system_clock::time_point>& times) {
  std::vector<std::int64_t> result;
  for (const auto time : times) {
    result.push_back(std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count());
  }
  return result;
}

using Times = std::vector<std::int64_t>;

Schedule hourly() { return with(&Schedule::cron, "0 * * * *"); }

TEST_CASE("schedule: its defaults, and the names of its enumerations") {
  CHECK(to_string(Schedule().missed) == std::string("last"));
  CHECK(to_string(Schedule().overlap) == std::string("skip"));
  CHECK(to_string(Missed::none) == std::string("none"));
  CHECK(to_string(Missed::all) == std::string("all"));
  CHECK(to_string(Overlap::allow) == std::string("allow"));
  CHECK(Schedule().zone == "UTC");
}

TEST_CASE("next_times: the first slots later than a time") {
  const auto noon = at_ms(1'790'000'000'000);  // 2026-09-21 14:13:20 in UTC
  CHECK(ms_of(next_times(hourly(), noon, 2)) == Times{1'790'002'800'000, 1'790'006'400'000});
  CHECK(ms_of(next_times(hourly(), at_ms(1'790'002'800'000), 1)) == Times{1'790'006'400'000});
  CHECK(ms_of(next_times(hourly(), at_ms(1'790'002'799'999), 1)) == Times{1'790'002'800'000});
  CHECK(ms_of(next_times(with(&Schedule::every, 5min), noon, 2)) == Times{1'790'000'100'000, 1'790'000'400'000});
  CHECK(next_times(hourly(), noon, 0).empty());
  CHECK(next_times(hourly(), noon, 10'000).size() == 10'000);
  CHECK(thrown([&] { next_times(hourly(), noon, 10'001); }) ==
        "invalid_argument: count: 10001; expected at most 10000");
}

TEST_CASE("next_times: from any time, and until the end of the schedule") {
  CHECK(ms_of(next_times(hourly(), system_clock::time_point::min(), 2)) == Times{0, 3'600'000});
  CHECK(next_times(hourly(), system_clock::time_point::max(), 2).empty());
  CHECK(ms_of(next_times(hourly(), at_ms(7'258'118'399'999 - 3'600'000), 2)) == Times{7'258'114'800'000});
  Schedule schedule = hourly();
  schedule.until = at_ms(7'200'000);
  CHECK(ms_of(next_times(schedule, at_ms(0), 10)) == Times{3'600'000, 7'200'000});
  schedule.until = at_ms(7'199'999);
  CHECK(ms_of(next_times(schedule, at_ms(0), 10)) == Times{3'600'000});
  CHECK(next_times(schedule, at_ms(3'600'000), 10).empty());
}

TEST_CASE("next_times: threads may call it at the same time") {
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        if (next_times(hourly(), at_ms(0), 3).size() == 3) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 400);
}

TEST_CASE("schedule R1: what a schedule may not hold") {
  const auto refusal = [](const std::function<void(Schedule&)>& change) {
    Schedule schedule = hourly();
    change(schedule);
    const std::string error = thrown([&] { schedules::checked(schedule); });
    CHECK(thrown([&] { next_times(schedule, at_ms(0), 1); }) == error);
    return error;
  };
  CHECK(refusal([](Schedule& s) { s.cron = "0 9 31 2 *"; }) ==
        "invalid_argument: cron \"0 9 31 2 *\": at character 5: no such date: it never occurs");
  CHECK(refusal([](Schedule& s) { s.zone = "Berlin!"; }) ==
        "invalid_argument: zone \"Berlin!\": no name of a time zone; expected a name such as \"Europe/Berlin\"");
  CHECK(refusal([](Schedule& s) { s.every = 1s; }) ==
        "invalid_argument: every: 1000 ms, but cron is set; expected only one of them");
  CHECK(refusal([](Schedule& s) { s.payload.assign(65'536, 'p'); }) == "nothing");
  CHECK(refusal([](Schedule& s) { s.payload.assign(65'537, 'p'); }) ==
        "invalid_argument: payload: 65537 bytes; expected at most 65536");
  CHECK(refusal([](Schedule& s) { s.retries = -1; }) == "invalid_argument: retries: -1; expected 0 or more");
  CHECK(refusal([](Schedule& s) { s.retries = 0; }) == "nothing");
  CHECK(refusal([](Schedule& s) { s.ttl = 0ms; }) == "invalid_argument: ttl: 0 ms; expected at least 1 ms");
  CHECK(refusal([](Schedule& s) { s.ttl = 1ms; }) == "nothing");
  CHECK(refusal([](Schedule& s) { s.until = at_ms(-1); }) ==
        "invalid_argument: until: -1 ms after 1970; expected a time from 1970 to the end of 2199");
  CHECK(has(refusal([](Schedule& s) { s.until = at_ms(7'258'118'400'000); }), "invalid_argument: until: "));
  CHECK(refusal([](Schedule& s) { s.until = at_ms(0); }) == "nothing");  // long passed: the schedule has ended
}

TEST_CASE("schedule R1: its headers leave room for those of the library") {
  Schedule schedule = hourly();
  for (int i = 0; i < 60; ++i) schedule.headers.set("name" + std::to_string(i), "value");
  CHECK(thrown([&] { schedules::checked(schedule); }) == "nothing");
  schedule.headers.set("name60", "value");
  CHECK(thrown([&] { schedules::checked(schedule); }) == "invalid_argument: headers: 61 headers; expected at most 60");
  schedule.headers = {{"name", std::string(7'161, 'v')}};
  CHECK(thrown([&] { schedules::checked(schedule); }) == "nothing");
  schedule.headers = {{"name", std::string(7'162, 'v')}};
  CHECK(thrown([&] { schedules::checked(schedule); }) ==
        "invalid_argument: headers: 7169 bytes; expected at most 7168");
}

}  // namespace
}  // namespace delayqueue
