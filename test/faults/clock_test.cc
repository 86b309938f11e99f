// Jumps of Redis' clock while the queue is in use.
#include "support/test.h"

#include "consumer/clock_monitor.h"
#include "support/wrong_clock.h"

namespace delayqueue {
namespace {

using test::WrongClock;

// Records the warnings about clocks.
class ClockWarnings {
 public:
  Logger logger() {
    return [this](const LogEntry& entry) {
      const std::lock_guard lock(mutex_);
      if (entry.severity == Severity::warning && has(entry.line, "clock")) lines_.push_back(entry.line);
    };
  }

  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

// The seconds of "... +3600.0 s ...".
double seconds_in(const std::string& line) { return std::strtod(line.c_str() + line.find_first_of("+-"), nullptr); }

// A server, and a consumer with a short lease whose handler holds one message.
struct HeldMessage {
  WrongClock clock;
  Queue queue{clock.server().url()};
  Redis client{clock.server().socket()};
  ClockWarnings warnings;
  Gate gate;
  Ledger ledger;
  test::ConsumerPtr consumer;

  HeldMessage() {
    ConsumerOptions options = quick(3);
    options.lease = 3s;
    options.logger = warnings.logger();
    consumer = queue.consumer(ledger.watch([this](const Message& message) {
      if (message.payload() == "held") gate.pass();
      return ack();
    }),
                              options);
    consumer->start();
    queue.send("held");
    REQUIRE(ledger.reaches(1));
  }

  bool delivered(const std::string& payload) const { return !ledger.attempts(payload).empty(); }

  // Sends a message and waits until it is delivered.
  void handles(const std::string& payload) {
    queue.send(payload);
    CHECK(eventually([&] { return delivered(payload); }, kPatience));
  }

  // The remaining seconds of the one lease in unack, by Redis' clock.
  double lease_left() {
    const auto flat = client.cmd({"ZRANGE", queue.base + ":unack", "0", "-1", "WITHSCORES"}).strings();
    if (flat.size() != 2) return 1e9;
    return std::strtod(flat[1].c_str(), nullptr) - static_cast<double>(test::redis_time_us(client)) / 1e6;
  }
};

TEST_CASE("clock: after a jump forward messages are early by the jump at most, and none is lost") {
  HeldMessage scene;
  scene.queue.send("half an hour", delayed(30min));
  const std::string later = scene.queue.send("two hours", delayed(2h));
  scene.handles("before");
  CHECK(!scene.delivered("half an hour"));
  scene.clock.jump(1h);
  CHECK(eventually([&] { return scene.delivered("half an hour"); }, kPatience));
  for (int i = 0; i < 20; ++i) scene.handles("after " + std::to_string(i));
  REQUIRE(eventually([&] { return !scene.warnings.lines().empty(); }, kPatience));
  CHECK(has(scene.warnings.lines()[0], "Redis' clock jumped by +3"));
  CHECK(has(scene.warnings.lines()[0], " at unix:" + scene.clock.server().socket()));
  CHECK(seconds_in(scene.warnings.lines()[0]) == doctest::Approx(3600).epsilon(0.02));
  scene.gate.open();
  CHECK(eventually([&] { return scene.queue.inspector.counts().unack == 0; }, kPatience));
  CHECK(eventually([&] { return scene.queue.inspector.counts().totals.acked == 23; }, kPatience));
  const Counts counts = scene.queue.inspector.counts();
  CHECK(counts.pending == 1);
  CHECK(counts.dead == 0);
  CHECK(scene.queue.state(later) == State::pending);
  CHECK(!scene.delivered("two hours"));
  CHECK(scene.ledger.attempts("held").size() <= 2);
  CHECK(scene.warnings.lines().size() == 1);
  scene.clock.jump(1h);
  CHECK(eventually([&] { return scene.delivered("two hours"); }, kPatience));
}

TEST_CASE("clock: after a jump back scheduled messages wait, and ready and in-flight messages are handled") {
  HeldMessage scene;
  const std::string soon = scene.queue.send("soon", delayed(10min));
  scene.handles("before");
  scene.clock.jump(-1h);
  for (int i = 0; i < 20; ++i) scene.handles("after " + std::to_string(i));
  REQUIRE(eventually([&] { return !scene.warnings.lines().empty(); }, kPatience));
  CHECK(has(scene.warnings.lines()[0], "Redis' clock jumped by -3"));
  CHECK(seconds_in(scene.warnings.lines()[0]) == doctest::Approx(-3600).epsilon(0.02));
  // Renewed by the new clock: if the consumer crashed now, other consumers would not wait for an hour.
  CHECK(eventually([&] { return scene.lease_left() < 60; }, kPatience));
  CHECK(scene.lease_left() > -60);
  CHECK(!scene.ledger.entries().front().message.lease_lost());
  scene.gate.open();
  CHECK(eventually([&] { return scene.queue.inspector.counts().totals.acked == 22; }, kPatience));
  CHECK(scene.ledger.attempts("held") == std::vector<int>{1});
  CHECK(scene.consumer->metrics().stats.stale == 0);
  CHECK(scene.queue.state(soon) == State::pending);
  CHECK(scene.warnings.lines().size() == 1);
  scene.clock.jump(1h + 10min);
  CHECK(eventually([&] { return scene.queue.empty(scene.client); }, kPatience));
  CHECK(scene.ledger.attempts("soon") == std::vector<int>{1});
}

TEST_CASE("clock: messages in backoff are delivered again after jumps in both directions") {
  WrongClock clock;
  Queue queue(clock.server().url());
  Redis client(clock.server().socket());
  Ledger ledger;
  ConsumerOptions options = quick(2);
  options.backoff = Backoff::fixed(1min);
  const auto consumer =
      queue.consumer(ledger.watch([](const Message& message) { return test::ack_if(message.attempt() > 1); }), options);
  consumer->start();
  queue.send("x");
  REQUIRE(ledger.settles(1));
  REQUIRE(eventually([&] { return consumer->metrics().stats.nacked == 1; }, kPatience));
  clock.jump(-1h);
  queue.send("y");
  REQUIRE(ledger.settles(2));
  REQUIRE(eventually([&] { return consumer->metrics().stats.nacked == 2; }, kPatience));
  clock.jump(2min);
  REQUIRE(ledger.settles(3));  // y, whose backoff began after the jump
  CHECK(ledger.attempts("x") == std::vector<int>{1});
  REQUIRE(
      eventually([&] { return consumer->metrics().stats.acked == 1; }, kPatience));  // or the jump ends the lease of y
  clock.jump(1h);
  CHECK(eventually([&] { return queue.empty(client); }, kPatience));
  CHECK(ledger.attempts("x") == std::vector<int>{1, 2});
  CHECK(ledger.attempts("y") == std::vector<int>{1, 2});
}

// Without this the backoff would last for an hour: nothing else wakes the consumer for that queue.
TEST_CASE(
    "clock: a consumer that notices a jump forward looks for ended backoffs and leases in all its queues at once") {
  WrongClock clock;
  Queue woken(clock.server().url()), other(clock.server().url());
  Ledger ledger;
  ConsumerOptions options = quick(2);
  options.backoff = Backoff::fixed(1h);
  options.tuning.poll_interval = 2h;
  options.logger = no_log();
  Consumer consumer(clock.server().url(), {woken.name, other.name},
                    ledger.watch([](const Message& message) { return test::ack_if(message.attempt() > 1); }), options);
  consumer.start();
  other.send("fails once");
  REQUIRE(eventually([&] { return consumer.metrics().stats.nacked == 1; }, kPatience));
  clock.jump(1h);
  woken.send("wakes the consumer");
  CHECK(eventually([&] { return ledger.attempts("fails once") == std::vector<int>{1, 2}; }, kPatience));
}

TEST_CASE("clock: a different clock after a reconnect has its own warning, once, and only if it is far off") {
  for (const milliseconds by : {milliseconds(3s), milliseconds(1h)}) {
    CAPTURE(by.count());
    HeldMessage scene;
    scene.handles("before");
    const auto connects = scene.consumer->metrics().stats.connects;
    scene.clock.server().stop();
    scene.clock.jump(by);
    scene.clock.server().restart();
    CHECK(eventually([&] { return scene.consumer->metrics().stats.connects > connects; }, kPatience));
    for (int i = 0; i < 20; ++i) scene.handles("after " + std::to_string(i));
    if (by < 1min) {
      CHECK(scene.warnings.lines().empty());
    } else {
      REQUIRE(scene.warnings.lines().size() == 1);
      CHECK(has(scene.warnings.lines()[0], "the clock of redis at unix:" + scene.clock.server().socket() + " is +"));
    }
    scene.gate.open();
    CHECK(eventually([&] { return scene.queue.empty(scene.client); }, kPatience));
  }
}

TEST_CASE("clock: an idle consumer detects a jump, too") {
  WrongClock clock;
  Queue queue(clock.server().url());
  ClockWarnings warnings;
  ConsumerOptions options = quick();
  options.logger = warnings.logger();
  const auto consumer = queue.consumer([](const Message&) { return ack(); }, options);
  consumer->start();
  queue.send("x");
  REQUIRE(eventually([&] { return consumer->metrics().stats.acked == 1; }, kPatience));
  clock.jump(-10s);
  CHECK(eventually([&] { return warnings.lines().size() == 1; }, kPatience));
}

TEST_CASE("clock: the inspector compares Redis' clock with this machine's") {
  WrongClock clock;
  Queue queue(clock.server().url());
  CHECK(queue.inspector.server().risks.empty());
  clock.jump(3s);
  CHECK(queue.inspector.server().risks.empty());
  clock.jump(57s);
  auto risks = queue.inspector.server().risks;
  REQUIRE(risks.size() == 1);
  CHECK(risks[0].kind == RiskKind::clock);
  CHECK(has(risks[0].text, "Redis' clock is "));
  CHECK(has(risks[0].text, "s ahead of this machine's: "));
  CHECK(has(risks[0].text, " comes early by as much"));
  clock.jump(-2min);
  risks = queue.inspector.server().risks;
  REQUIRE(risks.size() == 1);
  CHECK(has(risks[0].text, "s behind this machine's: "));
  CHECK(has(risks[0].text, " comes late by as much"));
}

TEST_CASE("clock: a jump is a difference that neither the local clock nor the round-trip time explains") {
  using std::chrono::microseconds;
  const auto start = std::chrono::steady_clock::now();
  const auto sample = [&](milliseconds redis, milliseconds asked, milliseconds answered) {
    return ClockSample{1'000'000'000'000'000 + microseconds(redis).count(), start + asked, start + answered};
  };
  struct Row {
    ClockSample before, after;
    bool reconnected;
    milliseconds jump;  // 0: none
  };
  const Row rows[] = {
      {sample(0ms, 0ms, 0ms), sample(10s, 10s, 10s), false, 0ms},
      {sample(0ms, 0ms, 0ms), sample(10s + 900ms, 10s, 10s), false, 0ms},
      {sample(0ms, 0ms, 0ms), sample(12s, 10s, 10s), false, 2s},
      {sample(0ms, 0ms, 0ms), sample(8s, 10s, 10s), false, -2s},
      {sample(0ms, 0ms, 0ms), sample(8s, 7s, 10s), false, 0ms},      // a late answer
      {sample(0ms, -3s, 0ms), sample(12s, 10s, 10s), false, 0ms},    // a late answer before
      {sample(0ms, 0ms, 0ms), sample(5s, 7s, 10s), false, -2s},      // too early for any round-trip time
      {sample(0ms, 0ms, 0ms), sample(1h + 2s, 1h, 1h), false, 0ms},  // clock drift
      {sample(0ms, 0ms, 0ms), sample(1h + 10s, 1h, 1h), false, 10s},
      {sample(0ms, 0ms, 0ms), sample(14s, 10s, 10s), true, 0ms},  // another server
      {sample(0ms, 0ms, 0ms), sample(16s, 10s, 10s), true, 6s},
      {sample(0ms, 0ms, 0ms), sample(4s, 10s, 10s), true, -6s},
  };
  for (const Row& row : rows) {
    CAPTURE(&row - rows);
    ClockMonitor monitor;
    CHECK(!monitor.observe(ClockSample{}));
    CHECK(!monitor.observe(row.before));
    CHECK(!monitor.observe(row.before));
    if (row.reconnected) {
      monitor.new_connection();
      CHECK(!monitor.observe(row.before));  // still the sample from before the reconnect
    }
    const auto jump = monitor.observe(row.after);
    CHECK(jump.has_value() == (row.jump != 0ms));
    if (!jump) continue;
    CHECK(jump->by == row.jump);
    CHECK(jump->other_server == row.reconnected);
    CHECK(!monitor.observe(row.after));
  }
}

}  // namespace
}  // namespace delayqueue
