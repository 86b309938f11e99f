// Tests of dqctl events.
#include "preamble.h"

#include "work_support.h"

using test::text_lines;

namespace {

// A queue with a producer that reports events.
struct ReportedQueue {
  explicit ReportedQueue(const std::string& url = test::server().url())
      : producer({url, test::reporting_events()}, name) {
    producer.send("x");
  }

  const std::string name = fresh_queue();
  delayqueue::Producer producer;
};

}  // namespace

TEST_CASE("events: each event is printed at once on its own line, until Ctrl-C") {
  ReportedQueue queue;
  Dqctl events({"events", queue.name, "--follow", "--utc"});
  REQUIRE(events.wait_for("listening; only processes with report_events"));
  queue.producer.send_batch({"a", "b"});
  REQUIRE(events.wait_for("sent"));
  events.signal(SIGINT);
  const Ran ran = expect(events.wait(), 0);
  const auto lines = text_lines(ran.out);
  REQUIRE(lines.size() >= 2);
  CHECK(has(lines[0], "TIME"));
  CHECK(has(lines[0], "EVENT      COUNT"));
  CHECK(has(lines[1], "sent           2"));
  CHECK(has(lines[1], "Z  "));
}

TEST_CASE("events: every kind is printed as a line of JSON, and --limit ends it") {
  ReportedQueue queue;
  Dqctl events({"events", queue.name, "--limit", "4", "-o", "ndjson"});
  REQUIRE(events.wait_for("listening"));
  const auto once = with(&delayqueue::SendOptions::retries, 0);
  delayqueue::Consumer consumer({test::server().url(), test::reporting_events()}, queue.name,
                                [](const delayqueue::Message& message) {
                                  return message.payload() == "x" ? delayqueue::ack() : delayqueue::nack();
                                });
  consumer.start();
  queue.producer.send("y", once);
  const Ran ran = expect(events.wait(), 0);
  std::map<std::string, std::uint64_t> counts;
  for (const std::string& line : text_lines(ran.out)) {
    const json event = parse_json(line);
    CHECK(has(event.at("time").get<std::string>(), "Z"));
    counts[event.at("event").get<std::string>()] += event.at("count").get<std::uint64_t>();
  }
  CHECK(text_lines(ran.out).size() == 4);
  CHECK(counts["delivered"] >= 1);
}

TEST_CASE("events: --for ends it, a silent channel is explained once, and -o json prints one document") {
  ReportedQueue queue;
  const Ran ran = expect(run({"events", queue.name, "--for", "3500ms", "-o", "json"}), 0);
  CHECK(parse_json(ran.out) == json{{"queue", queue.name}, {"events", json::array()}});
  CHECK(has(ran.err, "no event so far: does any producer or consumer of " + queue.name + " set report_events"));
  CHECK(text_lines(ran.err).size() == 2);
}

TEST_CASE("events: it reconnects to a server that stops and restarts") {
  delayqueue::PrivateServer server;
  ReportedQueue queue(server.url());
  Dqctl events({"events", queue.name}, with(&DqctlOptions::environment, {{"DELAYQUEUE_URI", server.url()}}));
  REQUIRE(events.wait_for("listening;"));
  server.kill();
  REQUIRE(events.wait_for("events are lost until it is back"));
  server.restart();
  REQUIRE(events.wait_for("listening again"));
  queue.producer.send("x");
  REQUIRE(events.wait_for("sent"));
  events.signal(SIGTERM);
  CHECK(events.wait().code == 0);
}

TEST_CASE("events: a missing queue, an unreachable server and wrong arguments have their exit codes") {
  expect(run({"events", "not there"}), 3, {err_has("queue 'not there' is not at ")});
  const auto nowhere = with(&DqctlOptions::environment, {{"DELAYQUEUE_URI", "redis://127.0.0.1:1"}});
  CHECK(run({"events", "q"}, nowhere).code == 1);
  CHECK(run({"events"}).code == 2);
  CHECK(has(run({"events", "q", "--for", "soon"}).err, "--for: 'soon'"));
  CHECK(has(run({"events", "--help"}).out, "dqctl events orders --follow"));
}
