// Tests of dqctl metrics.
#include "preamble.h"

#include "support/command_times.h"
#include "support/partitioned.h"

namespace {

// The value of the sample of this series; less than 0: there is none.
double sample(const std::string& page, const std::string& series) {
  const std::size_t at = ("\n" + page).find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::strtod(page.c_str() + at + series.size() + 1, nullptr);
}

}  // namespace

TEST_CASE("metrics: the page has every state, the ages and the totals of all queues") {
  test::empty_server();
  test::send("orders", {"a", "b"}, 1h);
  test::send("orders", {"c", "d", "e"});
  test::hold("orders", -30s);
  test::hold("orders", 30s);
  test::send("mails", {"x"});
  test::redis().cmd({"ZADD", "dp:orders:pending", "1000", "0190f7c2-5b1f-7000-8000-000000000001"});
  test::redis().cmd({"HSET", "dp:orders:stats", "acked", "12345678901"});
  delayqueue::QueueAdmin(test::server().url(), "mails").pause();
  const Ran ran = expect(run({"metrics"}), 0, {err_is("")});
  CHECK(sample(ran.out, "delayqueue_up{queue=\"orders\"}") == 1);
  CHECK(sample(ran.out, "delayqueue_messages{queue=\"orders\",state=\"pending\"}") == 3);
  CHECK(sample(ran.out, "delayqueue_messages{queue=\"orders\",state=\"ready\"}") == 3);
  CHECK(sample(ran.out, "delayqueue_messages{queue=\"orders\",state=\"unack\"}") == 2);
  CHECK(sample(ran.out, "delayqueue_messages{queue=\"orders\",state=\"retry\"}") == 0);
  CHECK(sample(ran.out, "delayqueue_messages{queue=\"orders\",state=\"dead\"}") == 0);
  CHECK(sample(ran.out, "delayqueue_messages{queue=\"orders\",state=\"garbage\"}") == 0);
  CHECK(sample(ran.out, "delayqueue_messages{queue=\"mails\",state=\"ready\"}") == 1);
  CHECK(sample(ran.out, "delayqueue_due_messages{queue=\"orders\"}") == 1);
  CHECK(sample(ran.out, "delayqueue_overdue_leases{queue=\"orders\"}") == 1);
  CHECK(sample(ran.out, "delayqueue_overdue_seconds{queue=\"orders\"}") > 1e9);
  CHECK(sample(ran.out, "delayqueue_overdue_seconds{queue=\"mails\"}") == 0);
  const double lease = sample(ran.out, "delayqueue_oldest_lease_overdue_seconds{queue=\"orders\"}");
  CHECK(lease >= 30);
  CHECK(lease < 90);
  CHECK(sample(ran.out, "delayqueue_paused{queue=\"orders\"}") == 0);
  CHECK(sample(ran.out, "delayqueue_paused{queue=\"mails\"}") == 1);
  CHECK(sample(ran.out, "delayqueue_partitions{queue=\"orders\"}") == 1);
  CHECK(sample(ran.out, "delayqueue_acked_total{queue=\"orders\"}") == 12345678901.0);
  CHECK(sample(ran.out, "delayqueue_sent_total{queue=\"mails\"}") == 1);
  CHECK(sample(ran.out, "delayqueue_redis_round_trip_seconds{queue=\"orders\"}") > 0);
}

TEST_CASE("metrics: the latency is that of the probe; without messages it is 0, and unknown is no sample") {
  test::empty_server();
  const std::string id = test::send("q", {"x"}).front();
  const std::string series = "delayqueue_queue_latency_seconds{queue=\"q\"}";
  CHECK(sample(run({"metrics", "q"}).out, series) >= 0);
  test::redis().cmd({"HSET", "dp:q:stats", "probe", id + " 1000000000000000"});  // the year 2001
  CHECK(sample(run({"metrics", "q"}).out, series) > 7e8);
  test::redis().cmd({"HDEL", "dp:q:stats", "probe"});
  CHECK(sample(run({"metrics", "q"}).out, series) == -1);
  test::redis().cmd({"DEL", "dp:q:ready"});
  CHECK(sample(run({"metrics", "q"}).out, series) == 0);
}

TEST_CASE("metrics: -o json and -o ndjson are refused, because the page is no JSON") {
  test::empty_server();
  test::send("orders", {"x"});
  for (const char* form : {"json", "ndjson"}) {
    CAPTURE(form);
    expect(run({"metrics", "-o", form}), 2, {err_has("expected dqctl stats -o json"), out_lacks("delayqueue_up")});
  }
  CHECK(run({"metrics", "-o", "table"}).code == 0);
}

TEST_CASE("metrics: limits, as deliveries a second, and what holds the queue back; nothing of a queue without limits") {
  const std::string queue = fresh_queue();
  delayqueue::Producer(test::server().url(), queue).send("x");
  const auto of_queue = [&](const std::string& name, const std::string& limit = "") {
    const std::string labels = "queue=\"" + queue + '"' + (limit.empty() ? "" : ",limit=\"" + limit + '"');
    return sample(run({"metrics", queue}).out, "delayqueue_" + name + '{' + labels + '}');
  };
  CHECK(of_queue("limit", "rate") == -1);
  CHECK(of_queue("running") == -1);
  CHECK(of_queue("rate_wait_seconds") == -1);
  REQUIRE(run({"limit", queue, "--rate", "90/m", "--burst", "3", "--running", "50"}).code == 0);
  CHECK(of_queue("limit", "rate") == 1.5);
  CHECK(of_queue("limit", "burst") == 3);
  CHECK(of_queue("limit", "running") == 50);
  CHECK(of_queue("running") == 0);
  CHECK(of_queue("rate_wait_seconds") == 0);
}

TEST_CASE("metrics: named queues only, each once") {
  test::empty_server();
  test::send("orders", {"x"});
  test::send("mails", {"x"});
  const Ran ran = expect(run({"metrics", "orders", "orders"}), 0, {out_lacks("mails")});
  std::size_t samples = 0;
  for (const std::string& line : test::text_lines(ran.out)) samples += line.rfind("delayqueue_up{", 0) == 0;
  CHECK(samples == 1);
}

TEST_CASE("metrics: a queue that cannot be read has delayqueue_up 0 and nothing else, and the others are there") {
  test::empty_server();
  test::send("orders", {"x"});
  test::send("mails", {"x"});
  test::redis().cmd({"DEL", "dp:mails:unack"});
  test::redis().cmd({"SET", "dp:mails:unack", "something else"});
  const Ran ran = expect(run({"metrics"}), 4);
  CHECK(sample(ran.out, "delayqueue_up{queue=\"mails\"}") == 0);
  CHECK(sample(ran.out, "delayqueue_up{queue=\"orders\"}") == 1);
  CHECK(sample(ran.out, "delayqueue_messages{queue=\"mails\",state=\"ready\"}") == -1);
  CHECK(sample(ran.out, "delayqueue_messages{queue=\"orders\",state=\"ready\"}") == 1);
  CHECK(has(ran.err, "mails: "));
  CHECK(has(ran.err, "dqctl doctor"));
  const Ran missing = expect(run({"metrics", "orders", "nowhere"}), 4);
  CHECK(sample(missing.out, "delayqueue_up{queue=\"nowhere\"}") == 0);
  CHECK(run({"metrics", "nowhere"}).code == 3);
}

TEST_CASE("metrics: names of queues are escaped, so that no name can forge a line or control a terminal") {
  test::empty_server();
  test::send("a\"b\\c", {"x"});
  test::redis().cmd({"SADD", "dp:queues", "dp:x\"} 1\ndelayqueue_up{queue=\"y", "dp:\x1b[2J", "dp:\xff\xc2\x9b"});
  const Ran ran = run({"metrics"});
  CHECK(has(ran.out, "delayqueue_up{queue=\"a\\\"b\\\\c\"} 1\n"));
  CHECK_FALSE(has(ran.out, "\ndelayqueue_up{queue=\"y"));
  CHECK_FALSE(has(ran.out, "\x1b"));
  CHECK_FALSE(has(ran.out, "\xff"));
  CHECK_FALSE(has(ran.out, "\xc2\x9b"));
}

TEST_CASE("metrics: of all queues, those with names over 1,024 bytes are left out, and stderr says so") {
  test::empty_server();
  const std::string longest(1024, 'a'), longer(1025, 'b');
  test::redis().cmd({"SADD", "dp:queues", "dp:" + longest, "dp:" + longer});
  const Ran ran = expect(run({"metrics"}), 0);
  CHECK(sample(ran.out, "delayqueue_up{queue=\"" + longest + "\"}") == 1);
  CHECK_FALSE(has(ran.out, longer));
  CHECK(has(ran.err, "1 queue is left out: names over 1,024 bytes"));
  test::send(longer, {"x"});
  const Ran named = run({"metrics", longer});
  CHECK(sample(named.out, "delayqueue_up{queue=\"" + longer + "\"}") == 1);
  CHECK(named.err.empty());
}

TEST_CASE("metrics: without any queue the page is empty, and stderr says so; without a server it is exit code 1") {
  test::empty_server();
  expect(run({"metrics"}), 0, {out_is(""), err_has("no queue is at ")});
  expect(run({"metrics"}, at("unix:///nonexistent/redis.sock")), 1, {out_is("")});
}

TEST_CASE("metrics: the number of requests does not depend on the number of messages") {
  test::empty_server();
  const auto calls = [] {
    test::redis().cmd({"CONFIG", "RESETSTAT"});
    CHECK(run({"metrics", "q"}).code == 0);
    return test::command_times(test::redis()).calls;
  };
  test::send("q", {"x"});
  const long long few = calls();
  for (int i = 0; i < 10; ++i) test::send("q", test::numbered(1000));
  CHECK(calls() == few);
  CHECK(few == 2);
}

TEST_CASE("metrics: a queue with partitions has one series: the sums, and the worst of the ages") {
  test::empty_server();
  test::Partitioned queue(4);
  for (const unsigned partition : {0U, 1U}) queue.to.send(partition, "x");
  const std::string oldest = queue.to.send(3, "x");
  test::redis().cmd({"HSET", queue.to.keys(3).stats, "probe", oldest + " 1000000000000000"});
  queue.to.send(2, "x", 1h);
  test::redis().cmd({"ZADD", queue.to.keys(2).pending, "1000", queue.to.id(2)});
  const Ran ran = expect(run({"metrics", queue.name}), 0);
  const std::string label = "{queue=\"" + queue.name + "\"";
  CHECK(sample(ran.out, "delayqueue_partitions" + label + "}") == 4);
  CHECK(sample(ran.out, "delayqueue_messages" + label + ",state=\"ready\"}") == 3);
  CHECK(sample(ran.out, "delayqueue_messages" + label + ",state=\"pending\"}") == 2);
  CHECK(sample(ran.out, "delayqueue_overdue_seconds" + label + "}") > 1e9);
  CHECK(sample(ran.out, "delayqueue_queue_latency_seconds" + label + "}") > 7e8);
}
