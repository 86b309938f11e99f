// Tests of dqctl workers, and of what show and stuck tell about consumers.
#include "preamble.h"

#include <signal.h>
#include <unistd.h>

#include "stuck.h"
#include "support/process.h"

namespace {

const std::string kFirst = "0197f3a4-5b6c-7d8e-9f01-000000000001";
const std::string kSecond = "0197f3a4-5b6c-7d8e-9f01-000000000002";

struct RunningFor {
  std::string id;
  std::chrono::milliseconds running;
};

// Writes an entry into the registry of the queue as the consumer would have written it `ago`.
void put_worker(const std::string& queue, const std::string& consumer, const std::string& host,
                const std::vector<RunningFor>& handlers = {}, std::chrono::milliseconds ago = 0ms) {
  const auto time = test::redis().cmd({"TIME"}).strings();
  const long long now = std::stoll(time[0]) * 1'000'000 + std::stoll(time[1]) - ago.count() * 1000;
  std::string entry = std::to_string(now + 60'000'000) + ' ' + std::to_string(now) + '\n';
  entry += "name=service\nhost=" + host + "\npid=4711\nversion=1.2.3\nqueues=22\nqueue=orders\nqueue=mails\n";
  entry += "busy=3\nconcurrency=8\nin_flight=5\n";
  for (const RunningFor& one : handlers)
    entry += "running=" + one.id + ' ' + std::to_string(one.running.count()) + '\n';
  test::redis().cmd({"HSET", "dp:" + queue + ":consumers", consumer, entry});
}

json workers(const std::vector<std::string>& arguments, int code = 0) {
  std::vector<std::string> words = {"workers", "-o", "json"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const Ran ran = run(words);
  CAPTURE(ran.err);
  CHECK(ran.code == code);
  return parse_json(ran.out);
}

// A service that is deployed again and again, each time under another name.
class Redeployed {
 public:
  Redeployed() : thread_([this] { run_consumers(); }) {}
  ~Redeployed() {
    ends_ = true;
    thread_.join();
  }
  Redeployed(const Redeployed&) = delete;
  Redeployed& operator=(const Redeployed&) = delete;

  int times() const { return times_; }

 private:
  void run_consumers() {
    for (; !ends_; ++times_) {
      const auto options = with(&delayqueue::ConsumerOptions::name, "service-" + std::to_string(times_));
      delayqueue::Consumer consumer(
          test::server().url(), "orders", [](const auto&) { return delayqueue::ack(); }, options);
      consumer.start();
      std::this_thread::sleep_for(50ms);
      static_cast<void>(consumer.stop());
    }
  }

  std::atomic<bool> ends_{false};
  std::atomic<int> times_{0};
  std::thread thread_;  // last: starts when all above is ready
};

}  // namespace

TEST_CASE("workers: a running consumer is shown, with this process") {
  test::empty_server();
  delayqueue::ConsumerOptions options;
  options.concurrency = 2;
  options.name = "orders-service";
  delayqueue::Consumer consumer(
      test::server().url(), "orders", [](const auto&) { return delayqueue::ack(); }, options);
  consumer.start();
  REQUIRE(eventually([&] { return test::redis().cmd({"EXISTS", "dp:orders:consumers"}) == 1; }, kPatience));
  const json found = workers({"orders"});
  CHECK(found.at("queue") == "orders");
  REQUIRE(found.at("workers").size() == 1);
  const json& worker = found.at("workers")[0];
  CHECK(holds(worker, {{"name", "orders-service"},
                       {"pid", ::getpid()},
                       {"version", delayqueue::version()},
                       {"queues", std::vector<std::string>{"orders"}},
                       {"busy", 0},
                       {"concurrency", 2}}));
  CHECK(worker.at("longest").empty());
  CHECK(has(run({"workers"}).out, std::to_string(::getpid()) + "  orders-service"));
  CHECK(consumer.stop());
  REQUIRE(eventually([&] { return test::redis().cmd({"EXISTS", "dp:orders:consumers"}) == 0; }, kPatience));
  expect(run({"workers", "orders"}), 0, {err_has("no consumer is registered in orders")});
}

TEST_CASE("workers: the table has host, process, version, queues, load, the longest running message, and last seen") {
  test::empty_server();
  test::send("orders", {"x"});
  put_worker("orders", kFirst, "web-1", {{kSecond, 192s}, {kFirst, 5s}}, 8s);
  const Ran ran = expect(run({"workers", "orders"}), 0);
  for (const char* part :
       {"HOST", "web-1", "4711", "service", "1.2.3", "orders, mails and 20 more", "3/8", "3m2", "s ago"}) {
    CHECK(has(ran.out, part));
  }
  CHECK(has(ran.out, kSecond));
  CHECK_FALSE(has(ran.out, kFirst));  // only the longest
  const json worker = workers({"orders"}).at("workers")[0];
  CHECK(holds(worker, {{"consumer", kFirst}, {"queue_count", 22}, {"in_flight", 5}}));
  REQUIRE(worker.at("longest").size() == 2);
  CHECK(holds(worker.at("longest")[0], {{"id", kSecond}, {"queue", "orders"}}));
  CHECK(worker.at("longest")[0].at("running_ms") >= 200'000);
  const auto lines = lines_of(run({"workers", "orders", "-o", "ndjson"}).out);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].at("host") == "web-1");
}

TEST_CASE("workers: without a queue a consumer of several is one row, with the sums and the longest of all") {
  test::empty_server();
  test::send("orders", {"x"});
  test::send("mails", {"x"});
  put_worker("orders", kFirst, "web-1", {{kSecond, 10s}});
  put_worker("mails", kFirst, "web-1", {{kFirst, 20s}});
  put_worker("mails", kSecond, "web-0");
  const json found = workers({});
  REQUIRE(found.at("workers").size() == 2);
  CHECK(found.at("errors").empty());
  CHECK(found.at("workers")[0].at("host") == "web-0");
  const json& both = found.at("workers")[1];
  CHECK(both.at("in_flight") == 10);
  REQUIRE(both.at("longest").size() == 2);
  CHECK(holds(both.at("longest")[0], {{"queue", "mails"}, {"id", kFirst}}));
}

TEST_CASE("workers: of a consumer whose entries differ the later one is shown") {
  test::empty_server();
  test::send("orders", {"x"});
  test::send("mails", {"x"});
  put_worker("orders", kFirst, "web-1", {}, 8s);
  put_worker("mails", kFirst, "web-2");
  const json found = workers({}).at("workers");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("host") == "web-2");
}

TEST_CASE("workers: while a service starts again and again under other names, each answer has one of them at most") {
  test::empty_server();
  test::send("orders", {"x"}, 1h);
  std::size_t listed = 0;
  const Redeployed service;
  while (service.times() < 20) {
    const json found = workers({"orders"}).at("workers");
    CHECK(found.size() <= 1);
    for (const json& worker : found) {
      ++listed;
      CHECK(worker.at("damaged") == false);
      CHECK(has(worker.at("name"), "service-"));
    }
    CHECK(run({"stuck", "orders", "--look", "10ms"}).code == 0);
  }
  CHECK(listed > 0);
}

TEST_CASE("workers: with a thousand of them dqctl takes less than five seconds") {
  for (const int count : {1, 100, 1000}) {
    test::empty_server();
    test::send("orders", {"x"});
    for (int i = 0; i < count; ++i) {
      put_worker("orders", test::id_made(1h, i), "web-" + std::to_string(i), {{kFirst, 192s}, {kSecond, 5s}});
    }
    const Ran ran = run({"workers", "orders", "-o", "ndjson"});
    MESSAGE("dqctl workers, " << count << " of them: " << ran.took.count() << " ms");
    CHECK(ran.code == 0);
    CHECK(lines_of(ran.out).size() == static_cast<std::size_t>(count));
    CHECK(ran.took < 5s);
  }
}

TEST_CASE("workers: a registry that cannot be read is an error; of several queues the others are shown") {
  test::empty_server();
  test::send("orders", {"x"});
  test::send("mails", {"x"});
  put_worker("orders", kFirst, "web-1");
  test::redis().cmd({"SET", "dp:mails:consumers", "of another program"});
  const json found = workers({}, 4);
  CHECK(found.at("workers").size() == 1);
  REQUIRE(found.at("errors").size() == 1);
  CHECK(found.at("errors")[0].at("queue") == "mails");
  CHECK(has(found.at("errors")[0].at("error"), "WRONGTYPE"));
  expect(run({"workers", "mails"}), 1, {err_has("WRONGTYPE")});
  CHECK(run({"workers", "none"}).code == 3);
}

TEST_CASE("workers: an entry that another program wrote is shown as damaged, and safely") {
  test::empty_server();
  test::send("orders", {"x"});
  put_worker("orders", kFirst, "web%1B[2J");
  test::redis().cmd({"HSET", "dp:orders:consumers", "\x1b[2J", "x"});
  expect(run({"workers", "orders"}), 0, {out_has("web\\x1b[2J"), out_has("damaged entry \\x1b[2J"), out_lacks("\x1b")});
  const json found = workers({"orders"});
  REQUIRE(found.at("workers").size() == 2);
  CHECK(found.at("workers")[1].at("damaged") == true);
}

TEST_CASE("show: names the consumer that holds a message, and when its handler began, if that is known") {
  test::empty_server();
  const std::string id = test::hold("orders", 20s);
  CHECK(parse_json(run({"show", "orders", id, "-o", "json"}).out).at("messages")[0].at("held_by").is_null());
  CHECK_FALSE(has(run({"show", "orders", id}).out, "held by"));
  put_worker("orders", kFirst, "web-1", {{id, 3min}});
  put_worker("orders", kSecond, "web-2", {{id, 10s}});  // took it after the other one had died
  const Ran sheet = run({"show", "orders", id});
  CHECK(has(sheet.out, "held by       host web-2, process 4711 (service)\n"));
  CHECK(has(sheet.out, "handler began 2"));
  CHECK(has(sheet.out, "s ago)"));
  const json message = parse_json(run({"show", "orders", id, "-o", "json"}).out).at("messages")[0];
  CHECK(holds(message.at("held_by"), {{"host", "web-2"}, {"pid", 4711}}));
  test::redis().cmd({"DEL", "dp:orders:consumers"});
  test::redis().cmd({"SET", "dp:orders:consumers", "of another program"});
  CHECK(run({"show", "orders", id}).code == 0);
}

TEST_CASE("stuck: names host and process of handlers that run too long, without a long look") {
  test::empty_server();
  const std::string id = test::hold("orders", 20s);
  put_worker("orders", kFirst, "web-1", {{id, 3min}, {kSecond, 2min}});  // the second is settled meanwhile
  const auto stuck = [](std::vector<std::string> more, int code) {
    more.insert(more.begin(), {"stuck", "orders", "-o", "json", "--look", "10ms"});
    const Ran ran = expect(run(more), code);
    return parse_json(ran.out).at("findings");
  };
  const json findings = stuck({}, 5);
  REQUIRE(findings.size() == 1);
  CHECK(holds(findings[0], {{"kind", "held"}, {"level", "warning"}, {"count", 1}}));
  CHECK(findings[0].at("age_ms") >= 180'000);
  CHECK(findings[0].at("example") == id);
  CHECK(has(findings[0].at("why"), "host web-1, process 4711 (service), " + id + " for 3m"));
  CHECK(has(findings[0].at("do"), "dqctl workers orders"));
  CHECK(stuck({"--crit", "2m"}, 5)[0].at("level") == "critical");
  CHECK(stuck({"--held", "5m"}, 0).empty());
}

TEST_CASE("workers, stuck: a worker whose entry is overdue counts as gone, not as busy with handlers that hang") {
  test::empty_server();
  const std::string id = test::hold("orders", 20s);
  test::send("orders", {"waits"});
  const auto stuck = [] {
    return parse_json(run({"stuck", "orders", "-o", "json", "--look", "50ms", "--warn", "1ms", "--crit", "1h"}).out)
        .at("findings");
  };
  put_worker("orders", kFirst, "web-1", {{id, 3min}}, 15s);  // it writes every 10 s
  CHECK(workers({"orders"}).at("workers")[0].at("overdue") == false);
  CHECK(has(stuck().dump(), "\"held\""));
  put_worker("orders", kFirst, "web-1", {{id, 3min}}, 25s);
  CHECK(workers({"orders"}).at("workers")[0].at("overdue") == true);
  const Ran table = run({"workers", "orders"});
  CHECK(has(table.out, "s ago: killed, frozen or cut off"));
  CHECK_FALSE(has(table.out, "3/8"));
  CHECK_FALSE(has(table.out, id));
  const json findings = stuck();
  const std::string text = findings.dump();
  CAPTURE(text);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].at("kind") == "not_taken");
  CHECK(holds(findings[1], {{"kind", "silent"}, {"level", "warning"}}));
  CHECK(has(findings[1].at("what"), "1 worker gave no sign of life for 2"));
  CHECK(has(findings[1].at("what"), "5 messages in flight then: host web-1, process 4711 (service)"));
  CHECK_FALSE(has(text, "handlers"));
  put_worker("orders", kSecond, "web-2");
  CHECK(stuck().back().at("kind") == "silent");
  CHECK(stuck().back().at("level") == "ok");  // a note, while another one lives
}

TEST_CASE("stuck: a worker that is killed or frozen while it is asked is named with the message that it held") {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    CAPTURE(signal);
    test::empty_server();
    const std::string id = test::send("orders", {"hang"}).front();
    test::Process process({"consume", test::server().url(), "orders", "1", "30000", "20"});
    REQUIRE(eventually([&] { return process.said("begin").size() == 1; }, kPatience));
    // After a reconnect the consumer writes its entry at once.
    REQUIRE(eventually([] { return test::cut_connections("delayqueue") > 0; }, kPatience));
    delayqueue::Inspector inspector(test::server().url(), "orders");
    std::vector<delayqueue::Worker> known;
    REQUIRE(eventually(
        [&] {
          known = inspector.workers();
          return known.size() == 1 && !known[0].longest.empty();
        },
        kPatience));

    Dqctl asked({"stuck", "orders", "-o", "json", "--held", "1s", "--look", "1500ms"});
    std::this_thread::sleep_for(500ms);
    process.kill(signal);
    const json listed = workers({"orders"}).at("workers");
    REQUIRE(listed.size() == 1);
    CHECK(listed[0].at("pid") == known[0].pid);
    REQUIRE(listed[0].at("longest").size() == 1);
    CHECK(listed[0].at("longest")[0].at("id") == id);
    const Ran ran = expect(asked.wait(), 5);
    const json findings = parse_json(ran.out).at("findings");
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].at("kind") == "held");
    CHECK(has(findings[0].at("why"), "process " + std::to_string(known[0].pid) + ", " + id + " for "));

    test::redis().cmd({"ZADD", "dp:orders:unack", "XX", "1", id});  // the lease has ended
    const json ended = parse_json(run({"stuck", "orders", "-o", "json", "--look", "10ms"}).out).at("findings");
    REQUIRE(ended.size() == 1);
    CHECK(holds(ended[0], {{"kind", "lease_ended"}, {"example", id}}));

    delayqueue::Consumer successor(test::server().url(), "orders", [](const auto&) { return delayqueue::ack(); });
    successor.start();
    REQUIRE(eventually([&] { return successor.metrics().stats.acked == 1; }, kPatience));
    CHECK(workers({"orders"}).at("workers").size() == 2);
    CHECK(run({"stuck", "orders", "--held", "1s", "--look", "10ms"}).out == "orders: OK: nothing is stuck\n");
    CHECK(successor.stop());
  }
}
