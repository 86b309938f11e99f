// Tests of dqctl stats.
#include "preamble.h"

namespace {

void fill(const std::string& queue) {
  test::empty_server();
  test::send(queue, {"a", "b"}, 1h);
  test::send(queue, {"c", "d", "e"});
  test::hold(queue, -30s);
  test::hold(queue, 30s);
  test::make_dead(queue, {"f"}, "r");
}

}  // namespace

TEST_CASE("stats: it shows every state with its ages, and the totals") {
  fill("my queue:eu");
  test::redis().cmd({"ZADD", "dp:my queue:eu:pending", "1000", "0190f7c2-5b1f-7000-8000-000000000001"});
  const Ran ran = expect(run({"stats", "my queue:eu"}), 0, {err_is("")});
  CHECK(ran.out.find("my queue:eu  2") == 0);
  CHECK(has(ran.out, "\nSTATE    COUNT\n"));
  CHECK(has(ran.out, "\npending      3  1 due but not taken, the oldest "));
  CHECK(has(ran.out, "\nready        3  the first was sent "));
  CHECK(has(ran.out, "\nunack        2  1 lease ended and not taken back, the oldest 3"));
  CHECK(has(ran.out, "\nretry        0\n"));
  CHECK(has(ran.out, "\ndead         1  the oldest became a dead letter "));
  CHECK(has(ran.out, "\nTOTAL          COUNT\nsent               8\n"));

  const json document = parse_json(run({"stats", "my queue:eu", "-o", "json"}).out);
  REQUIRE(document.at("queues").size() == 1);
  const json row = document.at("queues")[0];
  CHECK(holds(row, {{"queue", "my queue:eu"},
                    {"pending", 3},
                    {"due", 1},
                    {"unack", 2},
                    {"overdue", 1},
                    {"oldest_due", "1970-01-01T00:16:40.000Z"}}));
  CHECK(row.at("oldest_ready_sent").get<std::string>().size() == 24);
  CHECK(holds(row, {{"oldest_retry_sent", nullptr}, {"paused", false}}));
  CHECK(row.at("totals").at("sent") == 8);
  CHECK(row.at("rates") == nullptr);
}

TEST_CASE("stats: it counts the ids that were removed because they are no UUIDs") {
  test::empty_server();
  test::send("q", {"x"});
  test::redis().cmd({"LPUSH", "dp:q:ready", "no-uuid-1", "no-uuid-2"});
  test::redis().cmd({"HSET", "dp:q:retry:cnt", "no-uuid-1", "3", "no-uuid-2", "3"});
  delayqueue::Consumer consumer(test::server().url(), "q", [](const auto&) { return delayqueue::ack(); });
  consumer.start();
  REQUIRE(eventually([&] { return consumer.metrics().stats.acked == 1 && consumer.metrics().stats.foreign == 2; }));
  CHECK(consumer.stop());
  CHECK(has(run({"stats", "q"}).out, "\nforeign            2\n"));
  CHECK(parse_json(run({"stats", "q", "-o", "ndjson"}).out).at("totals").at("foreign") == 2);
}

TEST_CASE("stats: it shows a pause with its reason and end") {
  test::empty_server();
  delayqueue::QueueAdmin(test::server().url(), "q").pause({1h, "the shop is\n closed"});
  CHECK(has(run({"stats", "q"}).out, "paused: the shop is\\n closed, ends in 59m"));
  const json row = parse_json(run({"stats", "q", "-o", "ndjson"}).out);
  CHECK(holds(row, {{"paused", true}, {"paused_why", "the shop is\n closed"}}));
  CHECK(row.at("paused_until").is_string());
}

TEST_CASE("stats: --watch prints the counts again and again, with rates, for several queues") {
  test::empty_server();
  test::send("a", {"x"});
  test::send("b", {"x"});
  Dqctl running({"stats", "a", "b", "--watch", "300ms", "-o", "ndjson"});
  REQUIRE(running.wait_for("\n"));
  test::send("a", test::numbered(30));
  REQUIRE(running.wait_for("\"sent\":31"));
  running.signal(SIGINT);
  const Ran ran = expect(running.wait(), 0);
  std::vector<json> rows;
  for (std::size_t at = 0; at < ran.out.size(); at = ran.out.find('\n', at) + 1) {
    rows.push_back(parse_json(ran.out.substr(at, ran.out.find('\n', at) - at)));
  }
  REQUIRE(rows.size() >= 4);
  REQUIRE(rows.size() % 2 == 0);
  CHECK(rows[0].at("rates") == nullptr);
  std::size_t at = 0;  // the first line after all 31 were sent
  while (rows[at].at("totals").at("sent") != 31) ++at;
  CHECK(rows[at].at("queue") == "a");
  const double rate = rows[at].at("rates").at("sent");
  CHECK(rate > 1);
  CHECK(rate <= 101);  // 30 messages in at least 300 ms
  CHECK(rows[at + 1].at("rates").at("sent") == 0);
  const Ran table = run({"stats", "a", "--watch", "50ms", "--count", "2"});
  CHECK(has(table.out, "  RATE\n"));
  CHECK(has(table.out, "0.0/s\n"));
}

TEST_CASE("stats: --watch continues after a restart of the server, and ends at Ctrl-C") {
  delayqueue::PrivateServer server;
  delayqueue::Producer(server.url(), "q").send("x");
  DqctlOptions options;
  options.environment["DELAYQUEUE_URI"] = server.url();
  Dqctl running({"stats", "q", "--watch", "50ms", "-o", "ndjson"}, options);
  REQUIRE(running.wait_for("\"pending\""));
  server.kill();
  REQUIRE(running.wait_for("dqctl: "));
  server.restart();
  CHECK(running.wait_for("\"rates\":{"));
  running.signal(SIGINT);
  CHECK(running.wait().code == 0);
}

TEST_CASE(
    "stats: exit code 4 if one of several queues is missing, 2 for wrong arguments, 1 for a key of a wrong type") {
  test::empty_server();
  test::send("q", {"x"});
  CHECK(run({"stats"}).code == 2);
  CHECK(run({"stats", "q", "nowhere"}).code == 4);
  CHECK(run({"stats", "q", "--count", "2"}).code == 2);
  CHECK(run({"stats", "q", "--watch", "0s"}).code == 2);
  CHECK(run({"stats", "q", "--watch", "often"}).code == 2);
  test::redis().cmd({"SET", "dp:q:unack", "something else"});
  expect(run({"stats", "q"}), 1, {err_has("dqctl doctor")});
}
