// QueueAdmin::check on healthy, busy and damaged queues.
#include "support/test.h"

namespace delayqueue {
namespace {

using test::redis;

CheckOptions at_once(bool repair) {
  CheckOptions options;
  options.repair = repair;
  options.recheck_after = 0ms;
  options.sample = 1000;
  return options;
}

std::string as_text(const CheckReport& report) {
  std::string text;
  for (const Finding& finding : report.findings) {
    text += std::string(to_string(finding.problem)) + ' ' + finding.id + ' ' + finding.description + '\n';
  }
  return text;
}

TEST_CASE("check: an invalid option throws; an unused queue is clean, and is not registered") {
  Queue queue;
  auto options = with(&CheckOptions::recheck_after, -1ms);
  CHECK(thrown([&] { return queue.admin.check(options); }).find("invalid_argument: recheck_after: -1 ms") !=
        std::string::npos);
  options = {};
  options.retries = -1;
  CHECK(thrown([&] { return queue.admin.check(options); }).find("invalid_argument: retries: -1") != std::string::npos);
  CHECK(queue.admin.check(at_once(true)).clean());
  CHECK(queue.kept().empty());
}

TEST_CASE("check: a queue with messages in every state and hints in its lists is clean, and is not changed") {
  Queue queue;
  Ledger ledger;
  Gate gate;
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    if (message.payload() == "hold") gate.pass();
    if (message.payload() == "back off") return nack(1h);
    if (message.payload() == "die") return reject("no use");
    return ack();
  }),
                                       quick(3));
  consumer->start();
  const std::string held = queue.send("hold");
  const std::string cancelled = queue.send("hold");
  queue.send("back off");
  queue.send("die");
  REQUIRE(ledger.reaches(4));
  REQUIRE(ledger.settles(2));
  CHECK(eventually([&] { return queue.inspector.counts().dead == 1; }));
  CHECK(queue.producer.cancel(cancelled) == State::unack);
  queue.admin.pause();
  queue.send("later", delayed(1h));
  SendOptions with_ttl = delayed(1h);
  with_ttl.ttl = 1h;
  queue.send("with a TTL", with_ttl);
  for (int i = 0; i < 5000; ++i) queue.send(std::to_string(i));
  CHECK(queue.producer.cancel(queue.send("gone")) == State::ready);
  CHECK(queue.producer.reschedule(queue.send("moved"), with(&RescheduleOptions::delay, 1h)) == Outcome::done);
  const auto before = queue.kept();
  const CheckReport report = queue.admin.check(at_once(true));
  CHECK_MESSAGE(report.clean(), as_text(report));
  CHECK(report.findings.empty());
  CHECK(report.repaired == 0);
  CHECK(report.examined > 10'000);
  auto after = queue.kept();
  for (const char* moving : {"unack"}) after.erase(moving);  // leases are renewed
  for (const auto& [key, value] : after) CHECK(before.at(key) == value);
  gate.open();
  queue.admin.resume();
  CHECK(ledger.settles(5004));
}

TEST_CASE("check: each kind of damage is found and repaired, and all messages with a body are delivered") {
  Queue queue;
  const std::string& base = queue.base;
  const auto send = [&](const std::string& payload) { return queue.send(payload, delayed(1h)); };
  const auto cmd = [](const std::vector<std::string>& words) { REQUIRE(!redis().cmd(words).error()); };
  std::vector<std::string> ids;
  for (const char* name : {"stranded", "alone", "no retries", "no body", "two places", "unack", "healthy"}) {
    ids.push_back(send(name));
  }
  const std::string orphaned_retries = "0197f3a4-5b6c-7d8e-9f01-000000000001",
                    notes = "0197f3a4-5b6c-7d8e-9f01-000000000002", finished = "0197f3a4-5b6c-7d8e-9f01-000000000003",
                    expired = "0197f3a4-5b6c-7d8e-9f01-000000000004", headers = "0197f3a4-5b6c-7d8e-9f01-000000000005";
  cmd({"ZREM", base + ":pending", ids[0]});
  cmd({"ZREM", base + ":pending", ids[1]});
  cmd({"HDEL", base + ":retry:cnt", ids[1], ids[2]});
  cmd({"DEL", base + ":msg:" + ids[3]});
  cmd({"ZADD", base + ":dead", "1700000000", ids[4]});
  cmd({"ZREM", base + ":pending", ids[5]});
  cmd({"ZADD", base + ":unack", "1763650000123", ids[5]});
  cmd({"HSET", base + ":retry:cnt", orphaned_retries, "3", "hello", "3"});
  cmd({"HSET", base + ":attempts", notes, "2"});
  cmd({"HSET", base + ":headers", headers, "\1k\1v", notes, "\1k\1v", finished, "no headers"});
  cmd({"SADD", base + ":garbage", finished});
  cmd({"SET", base + ":msg:" + finished, "done"});
  cmd({"HSET", base + ":retry:cnt", expired, "3"});
  cmd({"LPUSH", base + ":ready", expired});
  cmd({"SET", base + ":msg:readme", "another's"});
  const std::set<std::pair<Problem, std::string>> expected = {{Problem::stranded, ids[0]},
                                                              {Problem::orphaned_body, ids[1]},
                                                              {Problem::no_retries, ids[2]},
                                                              {Problem::no_body, ids[3]},
                                                              {Problem::two_states, ids[4]},
                                                              {Problem::no_holder, ids[5]},
                                                              {Problem::orphaned_retries, orphaned_retries},
                                                              {Problem::foreign, "hello"},
                                                              {Problem::foreign, "readme"},
                                                              {Problem::orphaned_metadata, notes},
                                                              {Problem::orphaned_headers, headers},
                                                              {Problem::garbage, finished},
                                                              {Problem::expired, expired}};
  const auto found = [](const CheckReport& report) {
    std::set<std::pair<Problem, std::string>> all;
    for (const Finding& finding : report.findings) all.emplace(finding.problem, finding.id);
    CHECK(all.size() == report.findings.size());
    return all;
  };
  for (const bool repair : {false, true}) {
    const auto before = queue.kept();
    const CheckReport report = queue.admin.check(at_once(repair));
    CHECK_MESSAGE((found(report) == expected), as_text(report));
    CHECK(!report.clean());
    CHECK(report.repaired == (repair ? expected.size() - 1 : 0));
    for (const Finding& finding : report.findings) {
      CHECK(!finding.description.empty());
      CHECK(!finding.repair.empty());
      CHECK(finding.repaired == (repair && finding.id != "readme"));
    }
    if (!repair) CHECK((queue.kept() == before));
  }
  cmd({"DEL", base + ":msg:readme"});
  const CheckReport report = queue.admin.check(at_once(true));
  CHECK_MESSAGE(report.findings.empty(), as_text(report));

  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(ledger.settles(3));
  CHECK(eventually([&] {
    return redis().cmd({"ZCARD", base + ":unack"}) == 0;
  }));  // an ack that is on its way is one, too
  test::rewind(base, 2h);
  CHECK(ledger.settles(6));
  auto payloads = ledger.payloads();
  std::sort(payloads.begin(), payloads.end());
  CHECK((payloads == std::vector<std::string>{"alone", "healthy", "no retries", "stranded", "two places", "unack"}));
  CHECK(eventually([&] { return queue.empty(); }));
}

TEST_CASE("check: headers that cannot be read are reported, and stay until their message is gone") {
  Queue queue;
  SendOptions options = delayed(1h);
  options.headers = {{"k", "v"}};
  const std::string id = queue.send("x", options);
  queue.send("y", options);
  redis().cmd({"HSET", queue.base + ":headers", id, "\1k"});
  for (int i = 0; i < 2; ++i) {
    const CheckReport report = queue.admin.check(at_once(true));
    REQUIRE(report.findings.size() == 1);
    CHECK(report.findings[0].problem == Problem::invalid_headers);
    CHECK(report.findings[0].id == id);
    CHECK_FALSE(report.findings[0].repaired);
    CHECK_FALSE(report.clean());
  }
  CHECK(queue.producer.cancel(id) == State::pending);
  CHECK(queue.admin.check(at_once(true)).findings.empty());
}

TEST_CASE("check: damaged entries of unique keys are reported and removed; a key without a message leaves it clean") {
  Queue queue;
  redis().cmd({"HSET", queue.base + ":keys", test::kId, "k", "hello", "k"});
  CheckReport report = queue.admin.check(at_once(false));
  CHECK(report.counts == std::map<Problem, std::uint64_t>{{Problem::orphaned_headers, 2}});
  CHECK(report.clean());
  CHECK(queue.admin.check(at_once(true)).repaired == 2);
  CHECK(queue.empty());
  const std::string id = test::kId;
  redis().cmd({"HSET",   queue.base + ":unique",
               "whole",  id + " 1 0",
               "window", id + " 1700000000000000 1700000000000000",
               "a",      id,
               "b",      id + " 1",
               "c",      id + " 1 0 ",
               "d",      id + " 1  0",
               "e",      id + " 1 0 0",
               "f",      "x",
               "g",      "",
               "h",      id + " 1 -1",
               "i",      id + "  1 0",
               "j",      id + " 1 " + std::string(70, '9')});
  report = queue.admin.check(at_once(false));
  CHECK(report.counts == std::map<Problem, std::uint64_t>{{Problem::invalid_setting, 10}});
  CHECK(queue.admin.check(at_once(true)).repaired == 10);
  CHECK(redis().cmd({"HLEN", queue.base + ":unique"}) == 2);
  for (const char* key : {":unique", ":keys"}) {
    redis().cmd({"DEL", queue.base + key});
    redis().cmd({"SET", queue.base + key, "of another program"});
  }
  report = queue.admin.check(at_once(false));
  CHECK(report.counts == std::map<Problem, std::uint64_t>{{Problem::wrong_type, 2}});
  CHECK(report.errors.empty());
}

TEST_CASE("check: headers without a message leave the report clean") {
  Queue queue;
  redis().cmd({"HSET", queue.base + ":headers", test::kId, "\1k\1v"});
  const CheckReport report = queue.admin.check(at_once(false));
  CHECK(report.counts == std::map<Problem, std::uint64_t>{{Problem::orphaned_headers, 1}});
  CHECK(report.clean());
  CHECK(queue.admin.check(at_once(true)).repaired == 1);
  CHECK(queue.empty());
}

TEST_CASE("check: settings that count as absent are reported, and a repair removes them") {
  Queue queue;
  queue.producer.send("x");
  const std::string key = queue.base + ":settings";
  redis().cmd(
      {"HSET", key, "generation", "9007199254740992", "partitions", "3", "top", "257", "pause", "9999999999999999"});
  auto options = with(&CheckOptions::recheck_after, 0ms);
  const CheckReport report = queue.admin.check(options);
  CHECK(report.counts.at(Problem::invalid_setting) == 4);
  CHECK_FALSE(report.clean());
  options.repair = true;
  CHECK(queue.admin.check(options).repaired == 4);
  CHECK(redis().cmd({"EXISTS", key}) == 0);
  CHECK(queue.admin.check(options).clean());
}

TEST_CASE("check: the probe among the statistics is no finding, and a repair leaves it there") {
  Queue queue;
  queue.producer.send("x");
  const std::vector<std::string> read = {"HGET", queue.base + ":stats", "probe"};
  const std::string probe = redis().cmd(read).text;
  CHECK(!probe.empty());
  CHECK(queue.admin.check(at_once(true)).findings.empty());
  CHECK(redis().cmd(read).text == probe);
}

TEST_CASE("check: a key of a wrong type is reported and not changed, and the check continues where it can") {
  for (const char* key : {"pending", "ready", "unack", "retry", "retry:cnt", "garbage", "attempts", "reason", "dead",
                          "stats", "wake", "paused", "watch", "headers", "consumers", "actions"}) {
    CAPTURE(std::string(key));
    Queue queue;
    const std::string name = queue.base + ":" + key;
    const std::string lost = "0197f3a4-5b6c-7d8e-9f01-000000000001";
    const bool text = std::string(key) == "paused" || std::string(key) == "watch";
    redis().cmd(text ? std::vector<std::string>{"LPUSH", name, "x"} : std::vector<std::string>{"SET", name, "x"});
    redis().cmd({"SET", queue.base + ":msg:" + lost, "payload"});
    const CheckReport report = queue.admin.check(at_once(true));
    REQUIRE(!report.findings.empty());
    CHECK(!report.clean());
    CHECK(report.findings[0].problem == Problem::wrong_type);
    CHECK(report.findings[0].id == name);
    CHECK(report.findings[0].description.find(text ? "is a list, expected a string" : "is a string, expected a ") == 0);
    CHECK(!report.findings[0].repaired);
    CHECK(!redis().cmd({"EXISTS", name}).error());
    const bool hint = std::string(key) == "stats" || std::string(key) == "wake" || std::string(key) == "consumers" ||
                      std::string(key) == "actions";
    const bool goes_on = text || hint;
    CHECK(report.repaired == (goes_on ? 1 : 0));
  }
}

TEST_CASE("check: thousands of stranded messages are repaired once each; the report has a sample, and counts all") {
  Queue queue;
  const auto sent = queue.producer.send_batch(test::numbers(3000));
  redis().cmd({"LREM", queue.base + ":ready", "0", sent[1234].id});
  CheckOptions options = at_once(true);
  CheckReport report = queue.admin.check(options);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].id == sent[1234].id);
  CHECK(report.counts[Problem::stranded] == 1);
  CHECK(redis().cmd({"LLEN", queue.base + ":ready"}) == 3000);

  redis().cmd({"DEL", queue.base + ":ready"});
  options.sample = 7;
  report = queue.admin.check(options);
  CHECK(report.findings.size() == 7);
  CHECK(report.counts[Problem::stranded] == 3000);
  CHECK(report.repaired == 3000);
  CHECK(redis().cmd({"LLEN", queue.base + ":ready"}) == 3000);
  CHECK(queue.admin.check(options).findings.empty());
}

TEST_CASE("check: does not touch a send of the Go library that was half done at the first read") {
  Queue queue;
  const std::string id = "0197f3a4-5b6c-7d8e-9f01-000000000001";
  redis().cmd({"SET", queue.base + ":msg:" + id, "of Go"});
  CheckOptions options = at_once(true);
  std::thread go;
  options.recheck_after = 3s;
  options.progress = [&](std::uint64_t, std::uint64_t) {
    if (go.joinable()) return;
    go = std::thread([&] {
      test::Redis own;
      std::this_thread::sleep_for(50ms);
      own.cmd({"HSET", queue.base + ":retry:cnt", id, "3"});
      own.cmd({"ZADD", queue.base + ":pending", "4000000000", id});
    });
  };
  const CheckReport report = queue.admin.check(options);
  go.join();
  CHECK(report.findings.empty());
  CHECK(queue.inspector.counts().ready == 0);
  CHECK(queue.state(id) == State::pending);
}

TEST_CASE("check: reports its progress, lets other calls run, and ends if the callback throws") {
  Queue queue;
  queue.producer.send_batch(test::numbers(1000));
  CheckOptions options = at_once(false);
  std::uint64_t last = 0, calls = 0;
  bool in_order = true, finished = false;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (queue.inspector.counts().ready != 1000) in_order = false;
    if (done < last || done > total) in_order = false;
    last = done;
    finished = done == total;
    ++calls;
  };
  CHECK(queue.admin.check(options).clean());
  CHECK(in_order);
  CHECK(finished);
  CHECK(calls > 10);
  options.progress = [](std::uint64_t, std::uint64_t) { throw std::runtime_error("enough"); };
  CHECK(thrown([&] { return queue.admin.check(options); }).find("enough") != std::string::npos);
  CHECK(queue.inspector.counts().ready == 1000);
}

TEST_CASE("check: the callback can also end the wait before the second examination") {
  Queue queue;
  redis().cmd({"SET", queue.base + ":msg:0197f3a4-5b6c-7d8e-9f01-000000000001", "stranded"});
  auto options = with(&CheckOptions::recheck_after, 30s);
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::steady_clock::now() - begin; };
  options.progress = [&](std::uint64_t, std::uint64_t) {
    if (passed() > 300ms) throw std::runtime_error("enough");
  };
  CHECK(thrown([&] { return queue.admin.check(options); }).find("enough") != std::string::npos);
  CHECK(passed() < 20s);
}

TEST_CASE("check: takes special characters in a queue's name literally, and ignores bodies of other queues") {
  const std::string id = "0197f3a4-5b6c-7d8e-9f01-000000000001";
  const std::string stem = test::fresh_queue();
  for (const std::string& name : {stem + "*", stem + "[ab]?", stem + "\\x-y^"}) {
    CAPTURE(name);
    redis().cmd({"SET", "dp:" + stem + "a:msg:" + id, "another's"});
    redis().cmd({"SET", "dp:" + stem + "ab:msg:" + id, "another's"});
    redis().cmd({"SET", "dp:" + name + ":msg:" + id, "its own"});
    Inspector inspector(test::server().url(), name);
    const CheckReport report = QueueAdmin(test::server().url(), name).check(at_once(true));
    CHECK(report.findings.size() == 1);
    CHECK(inspector.counts().ready == 1);
    CHECK(inspector.find(id)->payload == "its own");
  }
}

// All calls that move messages run at the same time. The checks have no pause before their second read, the worst case.
TEST_CASE("check: finds nothing while a queue is in use, and repeated repairs take no message away") {
  Queue queue;
  Ledger ledger;
  std::atomic<std::size_t> dice{0};
  const auto handler = ledger.watch([&](const Message& message) {
    if (message.payload() == "cancelled") return ack();
    switch (message.attempt() < 3 ? ++dice % 5 : 0) {
      case 1:
        return nack(0ms);
      case 2:
        return nack(20ms);
      case 3:
        return snooze(message.attempt() == 1 ? 0ms : 10ms);
      case 4:
        std::this_thread::sleep_for(1ms);
        return nack(5ms, "slow");
      default:
        return ack();
    }
  });
  std::vector<test::ConsumerPtr> consumers;
  for (int i = 0; i < 2; ++i) consumers.push_back(queue.consumer(handler, quick(4)));
  for (const auto& consumer : consumers) consumer->start();
  std::atomic<bool> stop{false};
  std::set<std::string> sent;
  std::thread producer([&] {
    while (!stop) {
      // Sends only as fast as messages are handled: with a sanitizer the checks are slow.
      const Counts counts = queue.inspector.counts();
      if (sent.size() > 20'000 || counts.pending + counts.ready + counts.unack + counts.retry > 1000) {
        std::this_thread::sleep_for(1ms);
        continue;
      }
      std::vector<std::string> payloads(20, "kept");
      for (const Sent& one : queue.producer.send_batch(payloads, delayed(milliseconds(sent.size() % 3 * 10)))) {
        sent.insert(one.id);
      }
      const auto later = with(&RescheduleOptions::delay, 5ms);
      static_cast<void>(queue.producer.reschedule(*sent.rbegin(), later));
      static_cast<void>(queue.producer.reschedule(*sent.begin(), later));
      static_cast<void>(queue.producer.cancel(queue.send("cancelled")));
      static_cast<void>(queue.producer.cancel(queue.send("cancelled", delayed(10ms))));
      std::this_thread::sleep_for(1ms);
    }
  });
  std::string findings;
  int checks = 0;
  const auto until = std::chrono::steady_clock::now() + 4s;
  while (checks < 30 || std::chrono::steady_clock::now() < until) {
    CheckOptions options = at_once(true);
    if (checks++ % 3 == 2) options.recheck_after = 20ms;
    const CheckReport report = queue.admin.check(options);
    if (!report.clean()) findings += as_text(report);
  }
  stop = true;
  producer.join();
  CHECK_MESSAGE(findings.empty(), findings);
  MESSAGE(checks << " checks while " << sent.size() << " messages were sent and handled");
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  for (const auto& entry : ledger.entries()) sent.erase(entry.message.id());
  CHECK(sent.empty());
  CHECK(ledger.overlaps() == 0);
  const CheckReport report = queue.admin.check(at_once(false));
  CHECK_MESSAGE(report.findings.empty(), as_text(report));
}

}  // namespace
}  // namespace delayqueue
