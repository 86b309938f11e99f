// Redis goes away, comes back, or refuses commands while a consumer runs.
#include "support/test.h"

#include <sys/resource.h>

namespace delayqueue {
namespace {

TEST_CASE("outage: handlers continue, and their verdicts are settled when Redis is back") {
  for (const bool killed : {false, true}) {
    CAPTURE(killed);
    PrivateServerOptions always;
    always.arguments = {"--appendfsync", "always"};  // a kill must not undo the take
    PrivateServer own(always);
    Queue queue(own.url());
    Redis client(own.socket());
    queue.producer.send_batch({"ack", "ack", "nack", "reject", "snooze", "left", "left"}, SendOptions());
    Gate gate;
    Ledger ledger;
    ConsumerOptions options = quick(5);
    options.tuning.prefetch = 0;
    options.tuning.reconnect_grace = 2s;
    const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
      gate.pass();
      if (message.payload() == "nack") return nack(1h, "why");
      if (message.payload() == "reject") return reject("why");
      return message.payload() == "snooze" ? snooze(1h) : ack();
    }),
                                         options);
    consumer->start();
    REQUIRE(eventually([&] { return ledger.running() == 5; }, kPatience));
    killed ? own.kill() : own.stop();
    gate.open();
    CHECK(ledger.settles(5));
    CHECK(eventually([&] { return consumer->metrics().stats.errors > 0; }, kPatience));
    own.restart();
    CHECK(ledger.settles(7));
    CHECK(eventually([&] { return consumer->metrics().stats.acked == 4; }, kPatience));
    CHECK(eventually([&] { return queue.inspector.counts().unack == 1; }, kPatience));
    CHECK(consumer->stop(kPatience));
    const Counts counts = queue.inspector.counts();
    CHECK(counts.pending == 1);
    CHECK(counts.dead == 1);
    CHECK(counts.ready == 0);
    CHECK(counts.totals.retried == 0);
    CHECK(ledger.size() == 7);
    CHECK(consumer->metrics().stats.stale == 0);
    CHECK(consumer->metrics().stats.connects >= 2);
  }
}

TEST_CASE("outage: an outage longer than the lease spends no retry of a running message, with two consumers") {
  PrivateServer own;
  Queue queue(own.url());
  Redis client(own.socket());
  queue.producer.send_batch(std::vector<std::string>(6, "x"), with(&SendOptions::retries, 0));
  Gate gate;
  Ledger ledger;
  ConsumerOptions options = quick(3);
  options.lease = 300ms;
  options.tuning.reconnect_grace = 10s;
  const auto handler = ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  });
  const auto one = queue.consumer(handler, options);
  const auto two = queue.consumer(handler, options);
  one->start();
  two->start();
  REQUIRE(eventually([&] { return ledger.running() == 6; }, kPatience));
  own.stop();
  std::this_thread::sleep_for(1s);  // the leases of both must end
  for (const auto& entry : ledger.entries()) CHECK(entry.message.lease_lost());
  own.restart();
  CHECK(
      eventually([&] { return one->metrics().stats.connects >= 2 && two->metrics().stats.connects >= 2; }, kPatience));
  CHECK(eventually(
      [&] {
        const auto entries = ledger.entries();
        return std::none_of(entries.begin(), entries.end(),
                            [](const auto& entry) { return entry.message.lease_lost(); });
      },
      kPatience));
  gate.open();
  CHECK(eventually([&] { return queue.empty(client); }, kPatience));
  CHECK(ledger.size() == 6);
  CHECK(ledger.overlaps() == 0);
  const Totals totals = queue.inspector.counts().totals;
  CHECK(totals.acked == 6);
  CHECK(totals.retried == 0);
  CHECK(totals.dead_lettered == 0);
  CHECK(one->stop());
  CHECK(two->stop());
}

TEST_CASE("outage: prefetched messages are not lost, and not handled without a lease") {
  PrivateServer own;
  Queue queue(own.url());
  Redis client(own.socket());
  queue.producer.send_batch(std::vector<std::string>(3000, "x"));
  Gate gate;
  Ledger ledger;
  ConsumerOptions options = quick(2);
  options.lease = 400ms;
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    if (ledger.size() > 1000) gate.pass();
    return ack();
  }),
                                       options);
  consumer->start();
  REQUIRE(ledger.reaches(1001));
  own.kill();
  std::this_thread::sleep_for(1s);  // their leases must end
  gate.open();
  own.restart();
  CHECK(eventually([&] { return queue.empty(client); }, kPatience));
  CHECK(ledger.different() == 3000);
  CHECK(ledger.overlaps() == 0);
  CHECK(consumer->stop());
}

TEST_CASE("outage: a consumer waits with pauses for a server that is not running yet") {
  PrivateServer own;
  Queue queue(own.url());
  queue.send("x");
  own.stop();
  std::mutex mutex;
  std::vector<std::string> lines;
  ConsumerOptions options = quick();
  options.logger = [&](const LogEntry& entry) {
    const std::lock_guard lock(mutex);
    if (entry.severity != Severity::debug) lines.push_back(entry.line);
  };
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), options);
  const auto usage = [] {
    rusage now{};
    ::getrusage(RUSAGE_SELF, &now);
    return static_cast<double>(now.ru_utime.tv_sec + now.ru_stime.tv_sec) +
           static_cast<double>(now.ru_utime.tv_usec + now.ru_stime.tv_usec) / 1e6;
  };
  const double before = usage();
  consumer->start();
  std::this_thread::sleep_for(2s);  // measures a consumer during an outage
  CHECK(usage() - before < 1.0);
  CHECK(consumer->metrics().stats.errors >= 2);
  CHECK(consumer->metrics().stats.errors <= 30);
  CHECK(consumer->metrics().stats.connects == 0);
  own.restart();
  CHECK(ledger.settles(1));
  CHECK(consumer->stop());
  const std::lock_guard lock(mutex);
  CHECK(lines.size() >= 2);   // one for the outage, one for its end
  CHECK(lines.size() <= 10);  // not one for each attempt
  CHECK(std::any_of(lines.begin(), lines.end(), [&](const auto& line) { return has(line, own.socket()); }));
}

TEST_CASE("outage: stop returns false at its deadline if a settle is left, and true if nothing is held") {
  PrivateServer own;
  Queue queue(own.url());
  queue.send("x");
  Gate gate;
  Ledger ledger;
  const auto busy = queue.consumer(ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }));
  const auto idle = queue.consumer([](const Message&) { return ack(); });
  busy->start();
  REQUIRE(ledger.reaches(1));
  idle->start();
  own.stop();
  gate.open();
  REQUIRE(ledger.settles(1));
  CHECK(!busy->stop(300ms));  // the settle could not be sent
  CHECK(idle->stop(kPatience));
  own.restart();
  CHECK(queue.inspector.counts().unack == 1);
}

TEST_CASE("cut connections: a busy consumer loses no message") {
  Queue queue;
  ConsumerOptions options = quick(4);
  options.lease = 1s;  // redelivers soon what a lost take answer leased, with one retry less
  const std::vector<std::string> payloads = test::numbers(3000);
  queue.producer.send_batch(payloads, with(&SendOptions::retries, 20));
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([](const Message&) {
    std::this_thread::sleep_for(1ms);
    return ack();
  }),
                                       options, with(&ClientOptions::client_name, "c-" + queue.name));
  consumer->start();
  std::size_t cut = 0;
  for (std::size_t goal = 300; goal < 3000; goal += 300) {
    REQUIRE(ledger.reaches(goal));
    cut += test::cut_connections("c-" + queue.name);
  }
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(cut >= 5);
  CHECK(ledger.different() == 3000);
  CHECK(ledger.overlaps() == 0);
  const Totals totals = queue.inspector.counts().totals;
  CHECK(totals.acked == 3000);
  CHECK(totals.dead_lettered == 0);
  CHECK(consumer->metrics().stats.connects >= 2);
  CHECK(consumer->stop());
}

TEST_CASE("start: keys of a wrong type cause a ReplyError") {
  for (const char* key : {"pending", "ready", "unack", "retry", "dead"}) {
    CAPTURE(key);
    Queue queue;
    test::redis().cmd({"SET", queue.base + ":" + key, "in the way"});
    const auto consumer = queue.consumer([](const Message&) { return ack(); });
    const std::string error = thrown([&] { consumer->start(); });
    CAPTURE(error);
    CHECK(has(error, "ReplyError: "));
    CHECK(has(error, "WRONGTYPE"));
    test::redis().cmd({"DEL", queue.base + ":" + key});
  }
}

TEST_CASE("refused commands: the consumer warns, retries with pauses, and continues once they are allowed") {
  PrivateServer own;
  Queue queue(own.url());
  Redis client(own.socket());
  std::mutex mutex;
  std::size_t warnings = 0;
  ConsumerOptions options = quick(2);
  options.logger = [&](const LogEntry& entry) {
    const std::lock_guard lock(mutex);
    if (has(entry.line, "NOPERM") || has(entry.line, "permission")) ++warnings;
  };
  Ledger ledger;
  Gate gate;
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }),
                                       options);
  consumer->start();
  queue.producer.send_batch(std::vector<std::string>(50, "x"));
  REQUIRE(eventually([&] { return ledger.running() == 2; }, kPatience));
  REQUIRE(client.cmd({"ACL", "SETUSER", "default", "-evalsha"}) == "OK");
  gate.open();
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return warnings;
  };
  CHECK(eventually([&] { return count() >= 2; }, kPatience));
  CHECK(consumer->metrics().stats.errors <= 100);
  REQUIRE(client.cmd({"ACL", "SETUSER", "default", "+evalsha"}) == "OK");
  CHECK(eventually([&] { return queue.empty(client); }, kPatience));
  CHECK(ledger.size() == 50);
  CHECK(eventually([&] { return consumer->metrics().stats.acked == 50; }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE("SCRIPT FLUSH causes no error and no extra delivery") {
  Queue queue;
  Ledger ledger;
  const auto consumer =
      queue.consumer(ledger.watch([](const Message& message) { return test::ack_if(message.attempt() == 2); }));
  consumer->start();
  for (std::size_t round = 1; round <= 5; ++round) {
    test::redis().cmd({"SCRIPT", "FLUSH"});
    queue.send("x");
    CHECK(eventually([&] { return queue.empty(); }, kPatience));
    CHECK(ledger.size() == 2 * round);
  }
  CHECK(consumer->metrics().stats.errors == 0);
  CHECK(consumer->stop());
}

}  // namespace
}  // namespace delayqueue
