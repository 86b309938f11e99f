// Tests of dqctl schedule.
#include "preamble.h"
#include "screen.h"

#include <delayqueue/schedules.h>

namespace {

TEST_CASE("schedule: add, ls, show, pause, resume and rm, as tables and as JSON") {
  const std::string queue = fresh_queue();
  expect(run({"schedule", "add", queue, "nightly", "--cron", "0 3 * * *", "--payload", "all", "--header", "k=v",
              "--missed", "all", "--overlap", "allow", "--retries", "7", "--ttl", "1h"}),
         0, {out_has("nightly is created; next: ")});
  expect(run({"schedule", "add", queue, "poll", "--every", "5m"}), 0, {out_has("poll is created")});
  expect(run({"schedule", "add", queue, "poll", "--every", "5m"}), 0, {out_has("poll is unchanged")});
  expect(run({"schedule", "add", queue, "poll", "--every", "6m"}), 0, {out_has("poll is changed")});
  const auto listed = run({"schedule", "ls", queue});
  CHECK(has(listed.out, "0 3 * * *"));
  CHECK(has(listed.out, "every 6m"));
  const json all = parse_json(run({"schedule", "ls", queue, "-o", "json"}).out).at("schedules");
  REQUIRE(all.size() == 2);
  CHECK(all.at(0).at("name") == "nightly");
  CHECK(all.at(0).at("state") == "active");
  CHECK(all.at(0).at("missed") == "all");
  CHECK(all.at(0).at("overlap") == "allow");
  CHECK(all.at(0).at("retries") == 7);
  CHECK(all.at(0).at("ttl_ms") == 3'600'000);
  CHECK(all.at(1).at("every_ms") == 360'000);
  CHECK(all.at(1).at("behind_ms") == 0);
  const std::string id = all.at(0).at("next_id");
  CHECK(has(run({"show", queue, id}).out, "all"));
  expect(run({"schedule", "show", queue, "nightly"}), 0, {out_has("missed    all"), out_has("payload   all")});
  expect(run({"schedule", "pause", queue, "nightly"}), 0, {out_has("state     paused")});
  expect(run({"show", queue, id}), 3, {});
  expect(run({"schedule", "resume", queue, "nightly"}), 0, {out_has("state     active")});
  expect(run({"schedule", "rm", queue, "nightly"}), 0, {out_has("removed nightly")});
  expect(run({"schedule", "rm", queue, "nightly"}), 3, {err_has("has no schedule nightly")});
  expect(run({"forget", queue}), 1, {err_has("it has schedules (1)")});
}

TEST_CASE("schedule: next and --dry-run show times, and need no server with --cron") {
  const auto times =
      run({"--uri", "unix:///nowhere", "schedule", "next", "--cron", "0 9 * * MON", "-n", "3", "-o", "json"});
  CHECK(times.code == 0);
  CHECK(parse_json(times.out).at("times").size() == 3);
  expect(run({"--uri", "unix:///nowhere", "schedule", "add", "q", "n", "--every", "1h", "--dry-run"}), 0,
         {out_has("NEXT")});
  const std::string queue = fresh_queue();
  REQUIRE(run({"schedule", "add", queue, "poll", "--every", "5m"}).code == 0);
  CHECK(parse_json(run({"schedule", "next", queue, "poll", "-o", "json"}).out).at("times").size() == 5);
}

TEST_CASE("schedule: wrong arguments end with exit code 2 and the place of the mistake") {
  expect(run({"schedule", "next", "--cron", "0 9 31 2 *"}), 2, {err_has("character 5")});
  expect(run({"schedule", "what", "q"}), 2, {err_has("expected add, ls")});
  expect(run({"schedule", "add", "q", "n"}), 2, {err_has("--cron or --every")});
  expect(run({"schedule", "add", "q", "n", "--every", "10ms"}), 2, {err_has("every")});
  expect(run({"schedule", "add", "q"}), 2, {err_has("NAME: expected")});
  expect(run({"schedule", "ls"}), 2, {err_has("QUEUE")});
  expect(run({"schedule", "ls", "q", "n"}), 2, {err_has("expected none")});
  expect(run({"schedule", "add", "q", "n", "--every", "1h", "--header", "dq-x=1"}), 2, {err_has("reserved")});
  expect(run({"schedule", "add", "q", "n", "--every", "1h", "--missed", "some"}), 2, {err_has("--missed")});
}

TEST_CASE("schedules R27: an exported occurrence is imported with its headers; one that is stored again exists") {
  const std::string queue = fresh_queue(), other = fresh_queue();
  REQUIRE(run({"schedule", "add", queue, "tick", "--every", "1h", "--payload", "x"}).code == 0);
  const std::string id = parse_json(run({"schedule", "show", queue, "tick", "-o", "json"}).out).at("next_id");
  const auto with_input = [](const std::string& input) {
    DqctlOptions options;
    options.input = input;
    return options;
  };
  const std::string lines = run({"export", queue}).out;
  CHECK(has(lines, id));
  const DqctlOptions exported = with_input(lines);
  expect(run({"import", other, "-"}, exported), 0, {});
  CHECK(has(run({"show", other, id}).out, "dq-schedule"));
  run({"import", queue, "-"}, exported);
  CHECK(run({"cancel", queue, id}).code == 0);
  expect(run({"import", queue, "-"}, exported), 0, {});
  CHECK(has(run({"show", queue, id}).out, "tick"));
  expect(
      run({"send", queue, "--ndjson", "-"}, with_input(R"({"payload":"x","headers":[{"name":"dq-x","value":"1"}]})")),
      1, {err_has("reserved")});
}

TEST_CASE("schedule: doctor finds schedules that consumers do not keep going, and repairs what it can") {
  const std::string queue = fresh_queue(), base = "dp:" + queue;
  REQUIRE(run({"schedule", "add", queue, "a", "--every", "1h"}).code == 0);
  REQUIRE(run({"schedule", "add", queue, "b", "--every", "1h"}).code == 0);
  REQUIRE(run({"doctor", queue}).code == 0);
  test::redis().cmd({"ZREM", base + ":schedules:next", "a"});
  test::redis().cmd({"ZADD", base + ":schedules:next", "5", "gone", "6", std::string(300, 'x')});
  test::redis().cmd({"HSET", base + ":schedules", "later", "1 active\nspread=5\nevery=60000\npayload="});
  const auto found = run({"doctor", queue});
  CHECK(has(found.out, "schedule_without_slot"));
  CHECK(has(found.out, "slot_without_schedule"));
  CHECK(has(found.out, "invalid_schedule"));
  run({"doctor", queue, "--repair", "--yes"});
  const auto again = run({"doctor", queue});
  CHECK_FALSE(has(again.out, "schedule_without_slot"));
  CHECK_FALSE(has(again.out, "slot_without_schedule"));
  CHECK(has(again.out, "invalid_schedule"));
  CHECK(delayqueue::Schedules(delayqueue::Client(test::server().url()), queue).find("a")->next);
}

}  // namespace
