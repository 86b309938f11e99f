// Tests of dqctl pause, resume and drain.
#include "preamble.h"

namespace {

TEST_CASE("pause, resume: they print the end and the reason, as a table and as JSON; a missing queue is exit code 3") {
  const std::string queue = fresh_queue();
  delayqueue::Producer(test::server().url(), queue).send("x");
  delayqueue::Inspector inspector(test::server().url(), queue);
  expect(
      run({"pause", queue, "--why", "database\nmaintenance"}), 0,
      {out_is(queue + " is paused until dqctl resume: database\\nmaintenance\n"), err_has("Go library do not pause")});
  CHECK(inspector.paused()->reason == "database\nmaintenance");
  const json report = parse_json(run({"pause", queue, "--for", "10m", "--replace", "-o", "json"}).out);
  CHECK(holds(report, {{"paused", true}, {"why", ""}}));
  CHECK(has(report.at("until").get<std::string>(), "Z"));
  CHECK(inspector.paused()->until);
  CHECK(run({"resume", queue}).out == queue + " is resumed\n");
  CHECK(run({"resume", queue}).out == queue + " was not paused\n");
  CHECK(!inspector.counts().paused);
  CHECK(parse_json(run({"resume", queue, "-o", "ndjson"}).out).at("until").is_null());
  for (const char* command : {"pause", "resume", "drain"}) {
    CHECK(run({command, queue + "x"}).code == 3);
    CHECK(run({command}).code == 2);
  }
}

TEST_CASE("drain: it waits for ready, retry and unack messages, and not for pending ones that are due later") {
  const std::string queue = fresh_queue();
  delayqueue::Producer producer(test::server().url(), queue);
  const auto later = delayed(1h);
  producer.send("later", later);
  CHECK(run({"drain", queue}).code == 0);
  for (int i = 0; i < 20; ++i) producer.send("now");
  expect(run({"drain", queue, "--timeout", "300ms"}), 5,
         {out_is(queue + " is not drained: 20 ready, 0 unack, 0 retry\n")});
  run({"pause", queue});
  const Ran paused = expect(run({"drain", queue, "--timeout", "1ms", "-o", "json"}), 5);
  CHECK(has(paused.err, "the queue is paused"));
  const json report = parse_json(paused.out);
  CHECK(holds(report, {{"drained", false}, {"ready", 20}, {"paused", true}}));
  run({"resume", queue});
  Dqctl drain({"drain", queue});
  delayqueue::Consumer consumer(test::server().url(), queue,
                                [](const delayqueue::Message&) { return delayqueue::ack(); });
  consumer.start();
  expect(drain.wait(), 0, {out_is(queue + " is drained\n")});
  CHECK(test::counts(queue).pending == 1);
}

TEST_CASE("drain: it does not wait for stale ids in a list, and SIGINT ends it") {
  const std::string queue = fresh_queue();
  delayqueue::Producer producer(test::server().url(), queue);
  CHECK(producer.cancel(producer.send("x").id) == delayqueue::State::ready);
  CHECK(test::counts(queue).ready == 1);
  CHECK(run({"drain", queue, "--timeout", "10s"}).code == 0);
  producer.send("y");
  run({"pause", queue});
  Dqctl drain({"drain", queue});
  REQUIRE(drain.wait_for("is paused"));
  drain.signal(SIGINT);
  CHECK(drain.wait().code == 130);
}

}  // namespace

TEST_CASE("pause: --for 0s is refused, because it would mean a pause without end") {
  const std::string queue = fresh_queue();
  delayqueue::Producer(test::server().url(), queue).send("x");
  expect(run({"pause", queue, "--for", "0s"}), 2, {err_has("--for: '0s'; expected at least 1ms")});
  CHECK_FALSE(test::counts(queue).paused);
}

TEST_CASE("pause: who has set it and since when is stored, and shown by pause, stats and stuck, with its end") {
  const std::string queue = fresh_queue(), settings = "dp:" + queue + ":settings";
  delayqueue::Producer(test::server().url(), queue).send("x");
  delayqueue::Inspector inspector(test::server().url(), queue);
  const json report = parse_json(run({"pause", queue, "--for", "30m", "--why", "migration", "-o", "json"}).out);
  const std::string who = report.at("by");
  CHECK(has(who, "@"));
  CHECK(report.at("since").is_string());
  CHECK(inspector.paused()->who == who);
  REQUIRE(inspector.paused()->since.has_value());
  CHECK(*inspector.paused()->since <= inspector.counts().now);
  CHECK(*inspector.paused()->since > inspector.counts().now - 5min);
  REQUIRE(inspector.counts().paused_until.has_value());
  CHECK(*inspector.counts().paused_until > inspector.counts().now + 25min);
  const std::string by = ", set by " + who + ' ';
  CHECK(has(run({"stats", queue}).out, "paused: migration, ends in 29m"));
  CHECK(has(run({"stats", queue}).out, by));
  CHECK(has(run({"stuck", queue, "--look", "1ms"}).out, by));
  CHECK(has(run({"pause", queue}).err, "; it was set by " + who));
  const json row = parse_json(run({"stats", queue, "-o", "ndjson"}).out);
  CHECK(holds(row, {{"paused_by", who}, {"paused_since", report.at("since")}}));
  CHECK(has(run({"metrics", queue}).out, "delayqueue_pause_left_seconds{queue=\"" + queue + "\"} 17"));

  // A program that does not know the field sets a later pause, and one that knows no generations writes the key.
  test::redis().cmd({"HINCRBY", settings, "pause", "2"});
  CHECK(inspector.paused()->who.empty());
  test::redis().cmd({"HDEL", settings, "pause"});
  CHECK_FALSE(inspector.paused()->since.has_value());
  CHECK(inspector.paused()->reason == "migration");
  test::redis().cmd({"PERSIST", "dp:" + queue + ":paused"});
  CHECK_FALSE(inspector.counts().paused_until.has_value());
  CHECK(parse_json(run({"stats", queue, "-o", "ndjson"}).out).at("paused_by").is_null());
  for (const char* wrong : {"", "1", "x y", "99999999999999999999 me", "-1 me"}) {
    test::redis().cmd({"HSET", settings, "paused_by", wrong});
    CHECK(inspector.paused()->who.empty());
  }
}

TEST_CASE("drain: it reports how many messages are left, and whether they get fewer, also without a terminal") {
  const std::string queue = fresh_queue();
  delayqueue::Producer(test::server().url(), queue).send("x");
  Dqctl drain({"drain", queue, "--timeout", "1m"});
  CHECK(drain.wait_for("1 message is left"));
  drain.signal(SIGINT);
  CHECK(drain.wait().code == 130);
}

TEST_CASE("pause: another pause is shown and refused without --replace") {
  const std::string queue = fresh_queue();
  delayqueue::Producer(test::server().url(), queue).send("x");
  delayqueue::Inspector inspector(test::server().url(), queue);
  CHECK(run({"pause", queue, "--why", "migration"}).code == 0);
  expect(run({"pause", queue, "--for", "1s", "--why", "mine"}), 1,
         {err_has("is paused already, without an end: migration; --replace sets this pause instead")});
  CHECK(inspector.paused()->reason == "migration");
  CHECK(parse_json(run({"pause", queue, "-o", "json"}).out).contains("error"));
  CHECK(run({"pause", queue, "--for", "1h", "--why", "mine", "--replace"}).code == 0);
  CHECK(inspector.paused()->reason == "mine");
  CHECK(has(run({"pause", queue}).err, "is paused already, until "));
}
