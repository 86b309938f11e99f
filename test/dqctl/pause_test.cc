// Tests of dqctl pause, resume and drain.
#include <doctest/doctest.h>

#include "parse_json.h"
#include "queue.h"
#include "support/text.h"

namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::has;
using test::Ran;
using test::run;

TEST_CASE("pause, resume: they print the end and the reason, as a table and as JSON; a missing queue is exit code 3") {
  const std::string queue = test::fresh_queue();
  delayqueue::Producer(test::server().url(), queue).send("x");
  delayqueue::Inspector inspector(test::server().url(), queue);
  const Ran ran = run({"pause", queue, "--why", "database\nmaintenance"});
  CHECK(ran.code == 0);
  CHECK(ran.out == queue + " is paused until dqctl resume: database\\nmaintenance\n");
  CHECK(has(ran.err, "Go library do not pause"));
  CHECK(inspector.paused()->reason == "database\nmaintenance");
  const json report = test::parse_json(run({"pause", queue, "--for", "10m", "--replace", "-o", "json"}).out);
  CHECK(report.at("paused") == true);
  CHECK(report.at("why") == "");
  CHECK(has(report.at("until").get<std::string>(), "Z"));
  CHECK(inspector.paused()->until);
  CHECK(run({"resume", queue}).out == queue + " is resumed\n");
  CHECK(run({"resume", queue}).out == queue + " was not paused\n");
  CHECK(!inspector.counts().paused);
  CHECK(test::parse_json(run({"resume", queue, "-o", "ndjson"}).out).at("until").is_null());
  for (const char* command : {"pause", "resume", "drain"}) {
    CHECK(run({command, queue + "x"}).code == 3);
    CHECK(run({command}).code == 2);
  }
}

TEST_CASE("drain: it waits for ready, retry and unack messages, and not for pending ones that are due later") {
  const std::string queue = test::fresh_queue();
  delayqueue::Producer producer(test::server().url(), queue);
  delayqueue::SendOptions later;
  later.delay = 1h;
  producer.send("later", later);
  CHECK(run({"drain", queue}).code == 0);
  for (int i = 0; i < 20; ++i) producer.send("now");
  const Ran late = run({"drain", queue, "--timeout", "300ms"});
  CHECK(late.code == 5);
  CHECK(late.out == queue + " is not drained: 20 ready, 0 unack, 0 retry\n");
  run({"pause", queue});
  const Ran paused = run({"drain", queue, "--timeout", "1ms", "-o", "json"});
  CHECK(paused.code == 5);
  CHECK(has(paused.err, "the queue is paused"));
  const json report = test::parse_json(paused.out);
  CHECK(report.at("drained") == false);
  CHECK(report.at("ready") == 20);
  CHECK(report.at("paused") == true);
  run({"resume", queue});
  test::Dqctl drain({"drain", queue});
  delayqueue::Consumer consumer(test::server().url(), queue,
                                [](const delayqueue::Message&) { return delayqueue::ack(); });
  consumer.start();
  const Ran ran = drain.wait();
  CHECK(ran.code == 0);
  CHECK(ran.out == queue + " is drained\n");
  CHECK(test::counts(queue).pending == 1);
}

TEST_CASE("drain: it does not wait for stale ids in a list, and SIGINT ends it") {
  const std::string queue = test::fresh_queue();
  delayqueue::Producer producer(test::server().url(), queue);
  CHECK(producer.cancel(producer.send("x").id) == delayqueue::State::ready);
  CHECK(test::counts(queue).ready == 1);
  CHECK(run({"drain", queue, "--timeout", "10s"}).code == 0);
  producer.send("y");
  run({"pause", queue});
  test::Dqctl drain({"drain", queue});
  REQUIRE(drain.wait_for("is paused"));
  drain.signal(SIGINT);
  CHECK(drain.wait().code == 130);
}

}  // namespace

TEST_CASE("pause: --for 0s is refused, because it would mean a pause without end") {
  const std::string queue = test::fresh_queue();
  delayqueue::Producer(test::server().url(), queue).send("x");
  const Ran ran = run({"pause", queue, "--for", "0s"});
  CHECK(ran.code == 2);
  CHECK(has(ran.err, "--for: '0s'; expected at least 1ms"));
  CHECK_FALSE(test::counts(queue).paused);
}

TEST_CASE("pause: another pause is shown and refused without --replace") {
  const std::string queue = test::fresh_queue();
  delayqueue::Producer(test::server().url(), queue).send("x");
  delayqueue::Inspector inspector(test::server().url(), queue);
  CHECK(run({"pause", queue, "--why", "migration"}).code == 0);
  const Ran refused = run({"pause", queue, "--for", "1s", "--why", "mine"});
  CHECK(refused.code == 1);
  CHECK(has(refused.err, "is paused already, without an end: migration; --replace sets this pause instead"));
  CHECK(inspector.paused()->reason == "migration");
  CHECK(test::parse_json(run({"pause", queue, "-o", "json"}).out).contains("error"));
  CHECK(run({"pause", queue, "--for", "1h", "--why", "mine", "--replace"}).code == 0);
  CHECK(inspector.paused()->reason == "mine");
  CHECK(has(run({"pause", queue}).err, "is paused already, until "));
}
