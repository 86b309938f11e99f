// Tests of dqctl limit.
#include "preamble.h"
#include "screen.h"

namespace {

TEST_CASE("limit: sets, changes, shows and removes limits, as a table and as JSON") {
  const std::string queue = fresh_queue();
  delayqueue::Producer(test::server().url(), queue).send("x");
  CHECK(run({"limit", queue}).out == queue + " has no limits\n");
  expect(run({"limit", queue, "--rate", "100/s", "--burst", "20"}), 0,
         {out_has("rate 100/s"), err_has("Go library do not keep limits")});
  expect(run({"limit", queue, "--running", "50"}), 0, {out_has("rate 100/s; at most 20 at once; 0 of 50 running")});
  const json shown = parse_json(run({"limit", queue, "-o", "json"}).out);
  CHECK(shown.at("rate").at("messages") == 100);
  CHECK(shown.at("rate").at("per_ms") == 1000);
  CHECK(shown.at("rate").at("burst") == 20);
  CHECK(shown.at("running") == 50);
  CHECK(has(run({"stats", queue}).out, "rate 100/s; 0 of 50 running"));
  const json stats = parse_json(run({"stats", queue, "-o", "json"}).out).at("queues").at(0);
  CHECK(stats.at("limits").at("text") == "rate 100/s; 0 of 50 running");
  CHECK(stats.at("limits").at("held_back").is_null());
  expect(run({"limit", queue, "--length", "1000"}), 0, {out_has("0 of 50 running; at most 1,000 messages")});
  CHECK(parse_json(run({"stats", queue, "-o", "json"}).out).at("queues").at(0).at("limits").at("length") == 1000);
  expect(run({"limit", queue, "--length", "1"}), 0, {out_has("at most 1 message")});
  expect(run({"send", queue, "y"}), 1, {err_has("the limit of its length")});
  CHECK(run({"limit", queue, "--none"}).out == queue + " has no limits\n");
  CHECK(parse_json(run({"limit", queue, "-o", "json"}).out).at("rate").is_null());
}

TEST_CASE("limit: stuck names the limit that holds a queue back, and not a missing consumer") {
  const std::string queue = fresh_queue();
  delayqueue::Producer producer(test::server().url(), queue);
  for (int i = 0; i < 3; ++i) producer.send("x");
  REQUIRE(run({"limit", queue, "--rate", "1/h", "--burst", "1"}).code == 0);
  delayqueue::Consumer consumer(test::server().url(), queue,
                                [](const delayqueue::Message&) { return delayqueue::ack(); });
  consumer.start();
  REQUIRE(test::eventually([&] { return has(run({"limit", queue}).out, "held back"); }, 30s));
  const auto stuck = run({"stuck", queue, "--warn", "1ms", "--crit", "2ms"});
  CHECK(stuck.code == 5);
  CHECK(has(stuck.out, "held back by its rate of 1 each 1h, next in "));
  CHECK(has(stuck.out, "dqctl limit " + queue));
  CHECK_FALSE(has(stuck.out, "no consumer"));
  CHECK(consumer.stop());
}

TEST_CASE("limit: top marks a queue that a limit holds back, and shows its limits in words") {
  test::empty_server();
  test::send("orders", {"a", "b"});
  test::hold("orders", 1h);
  test::send("mails", {"x"});
  REQUIRE(run({"limit", "orders", "--running", "1", "--rate", "100/s"}).code == 0);
  test::Screen screen({"top", "orders"});
  REQUIRE(screen.shows("orders [limit]"));
  CHECK(screen.shows("rate 100/s; 1 of 1 running"));
  REQUIRE(run({"limit", "orders", "--running", "2"}).code == 0);
  REQUIRE(screen.shows("limits: rate 100/s; 1 of 2 running"));
  CHECK(screen.shows_not("[limit]"));
  screen.type("\r");
  CHECK(screen.shows("5 dead 0   rate 100/s; 1 of 2"));
}

TEST_CASE("limit R30: doctor names consumers of versions that keep no limits, and says what no list has") {
  test::empty_server();
  test::send("orders", {"a"});
  const auto put = [](const std::string& id, const std::string& name, const std::string& version) {
    const auto time = test::redis().cmd({"TIME"}).strings();
    const long long now = std::stoll(time[0]) * 1'000'000 + std::stoll(time[1]);
    test::redis().cmd({"HSET", "dp:orders:consumers", "0197f3a4-5b6c-7d8e-9f01-00000000000" + id,
                       std::to_string(now + 60'000'000) + ' ' + std::to_string(now) + "\nname=" + name +
                           "\nhost=host3\npid=4711\nversion=" + version + "\nqueues=1\nqueue=orders\n"});
  };
  put("1", "old", "0.0.9");
  put("2", "strange", "new");
  put("3", "current", delayqueue::version());
  put("4", "later", "0.10.2");
  CHECK_FALSE(has(run({"doctor", "orders"}).out, "limits"));
  expect(run({"limit", "orders", "--running", "5"}), 0,
         {err_has("old, pid 4711 on host3, version 0.0.9, does not keep limits"), err_has("version new,")});
  const std::string out = run({"doctor", "orders", "--settle", "1ms"}).out;
  CHECK(has(out, "note        old, pid 4711 on host3, version 0.0.9, does not keep the limits of the queue"));
  CHECK(has(out, "note        strange, pid 4711 on host3, version new,"));
  CHECK(has(out, "workers of the Go library do not keep them"));
  CHECK_FALSE(has(out, "current,"));
  CHECK_FALSE(has(out, "later,"));
  CHECK(parse_json(run({"doctor", "orders", "--settle", "1ms", "-o", "json"}).out).at("without_limits").size() == 2);
}

TEST_CASE("limit: impossible values are refused with exit code 2, and a missing queue with 3") {
  const std::string queue = fresh_queue();
  delayqueue::Producer(test::server().url(), queue).send("x");
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{{"--rate", "100"},
                                                                                       {"--rate", "0/s"},
                                                                                       {"--rate", "1/2d"},
                                                                                       {"--rate", "x/s"},
                                                                                       {"--burst", "0"},
                                                                                       {"--burst", "5"},
                                                                                       {"--running", "0"},
                                                                                       {"--none", "--running", "5"},
                                                                                       {"--rate", "2000000/s"}}) {
    std::vector<std::string> words = {"limit", queue};
    words.insert(words.end(), options.begin(), options.end());
    CAPTURE(options.back());
    CHECK(run(words).code == 2);
  }
  CHECK(run({"limit", "nowhere", "--running", "5"}).code == 3);
}

}  // namespace
