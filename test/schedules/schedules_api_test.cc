#include "support/test.h"

#include <delayqueue/schedules.h>

namespace delayqueue {
namespace {

Schedule hourly_job(const std::string& payload = "p") {
  Schedule schedule;
  schedule.every = 1h;
  schedule.payload = payload;
  return schedule;
}

TEST_CASE("schedules R1: names have 1 to 128 bytes of UTF-8, without control characters and a leading \"-\"") {
  Queue queue;
  Schedules schedules(queue.client, queue.name);
  for (const std::string& name : {std::string(), std::string(129, 'x'), std::string("-x"), std::string("a\nb"),
                                  std::string("\xff"), std::string("\xc2\x80"), std::string("a\0b", 3)}) {
    CHECK_THROWS_AS(schedules.set(name, hourly_job()), std::invalid_argument);
    CHECK_THROWS_AS(static_cast<void>(schedules.remove(name)), std::invalid_argument);
    CHECK_THROWS_AS(static_cast<void>(schedules.find(name)), std::invalid_argument);
  }
  CHECK(thrown([&] { schedules.set("a\nb", hourly_job()); }).find("name \"a\\x0ab\"") != std::string::npos);
  for (const std::string& name : {std::string(128, 'x'), std::string("a b-\xc3\xa4")}) {
    CHECK(schedules.set(name, hourly_job()) == SetResult::created);
    CHECK(schedules.find(name)->name == name);
  }
  CHECK_THROWS_AS(schedules.set("x", Schedule()), std::invalid_argument);
  CHECK(test::redis().cmd({"HLEN", queue.base + ":schedules"}) == 2);
}

TEST_CASE("schedules R23, R24, R26: set, pause, resume, remove, find and list") {
  Queue queue;
  Schedules schedules(queue.client, queue.name);
  CHECK_FALSE(schedules.find("a"));
  CHECK(schedules.list().empty());
  CHECK_FALSE(schedules.pause("a"));
  CHECK_FALSE(schedules.resume("a"));
  CHECK_FALSE(schedules.remove("a"));
  CHECK(schedules.set("b", hourly_job()) == SetResult::created);
  CHECK(schedules.set("a", hourly_job("other")) == SetResult::created);
  CHECK(schedules.set("a", hourly_job("other")) == SetResult::unchanged);
  CHECK(schedules.set("a", hourly_job("third")) == SetResult::changed);
  CHECK(queue.inspector.counts().pending == 2);
  const std::vector<ScheduleInfo> list = schedules.list();
  REQUIRE(list.size() == 2);
  CHECK(list[0].name == "a");
  CHECK(list[0].schedule.payload == "third");
  CHECK(list[0].state == ScheduleState::active);
  CHECK(list[0].problem.empty());
  CHECK(list[0].behind == 0ms);
  REQUIRE(list[0].next);
  CHECK(*list[0].next > std::chrono::system_clock::now());
  const auto message = queue.inspector.find(list[0].next_id);
  REQUIRE(message);
  CHECK(message->payload == "third");
  CHECK(schedules.pause("a"));
  CHECK(schedules.find("a")->state == ScheduleState::paused);
  CHECK_FALSE(schedules.find("a")->next);
  CHECK(queue.inspector.counts().pending == 1);
  CHECK(schedules.set("a", hourly_job("third")) == SetResult::unchanged);
  CHECK(schedules.resume("a"));
  CHECK(schedules.find("a")->state == ScheduleState::active);
  CHECK(schedules.remove("a"));
  CHECK_FALSE(schedules.find("a"));
  CHECK(queue.inspector.counts().pending == 1);
  Schedule past = hourly_job();
  past.until = std::chrono::system_clock::now() - 1min;
  CHECK(schedules.set("past", past) == SetResult::created);
  CHECK(schedules.find("past")->state == ScheduleState::ended);
  CHECK(schedules.advance() == 0);
}

TEST_CASE("schedules R27: forget refuses a queue with schedules, and they can be removed") {
  Queue queue;
  Schedules schedules(queue.client, queue.name);
  CHECK(schedules.set("a", hourly_job()) == SetResult::created);
  CHECK(queue.inspector.counts().known);
  CHECK(schedules.pause("a"));
  const Remains remains = queue.admin.forget();
  CHECK(remains.schedules == 1);
  CHECK_FALSE(remains.none());
  CHECK(schedules.remove("a"));
  CHECK(queue.admin.forget().none());
}

TEST_CASE("schedules R13: advance() does what consumers do") {
  Queue queue;
  Schedules schedules(queue.client, queue.name);
  Schedule schedule = hourly_job();
  schedule.missed = Missed::all;
  CHECK(schedules.set("a", schedule) == SetResult::created);
  const auto next = *schedules.find("a")->next;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(next.time_since_epoch()).count();
  // As if nothing had looked for 250 hours.
  test::redis().cmd({"ZADD", queue.base + ":schedules:next", std::to_string(seconds - 250 * 3600), "a"});
  CHECK(schedules.find("a")->behind > 248h);
  CHECK(schedules.advance() == 100);  // the newest; the next one exists
  CHECK(*schedules.find("a")->next == next);
  CHECK(schedules.advance() == 0);
  CHECK(queue.inspector.counts().pending == 101);
}

TEST_CASE("schedules: a definition that cannot be read is shown with its problem, and can be replaced or removed") {
  Queue queue;
  Schedules schedules(queue.client, queue.name);
  for (const std::string& text : {std::string("x"), std::string("1 active\nspread=1\npayload="),
                                  std::string("1 unknown\nevery=60000\npayload="), std::string(200'000, 'x')}) {
    test::redis().cmd({"HSET", queue.base + ":schedules", "a", text});
    const std::vector<ScheduleInfo> list = schedules.list();
    REQUIRE(list.size() == 1);
    CHECK_FALSE(list[0].problem.empty());
    CHECK(schedules.set("a", hourly_job()) != SetResult::unchanged);
    CHECK(schedules.find("a")->problem.empty());
    test::redis().cmd({"HSET", queue.base + ":schedules", "a", text});
    CHECK(schedules.remove("a"));
    CHECK(schedules.list().empty());
  }
}

TEST_CASE("schedules R25: callers at the same time: one state remains, and one message for the next slot") {
  Queue queue;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Schedules schedules(queue.client, queue.name);
      for (int n = 0; n < 15; ++n) {
        try {
          static_cast<void>(schedules.set("a", hourly_job(i % 2 == 0 ? "even" : "odd")));
        } catch (const ConnectionError& e) {  // 10 attempts
          CHECK(std::string(e.what()).find("other callers have changed it") != std::string::npos);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Schedules schedules(queue.client, queue.name);
  const auto info = schedules.find("a");
  REQUIRE(info);
  CHECK(queue.inspector.counts().pending == 1);
  CHECK(queue.inspector.find(info->next_id)->payload == info->schedule.payload);
}

}  // namespace
}  // namespace delayqueue
