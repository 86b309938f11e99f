// Sandbox::advance(): for each kind of time, that it moves; also for a consumer that runs.
#include "support/test.h"

#include <delayqueue/schedules.h>
#include <delayqueue/testing.h>

namespace delayqueue {
namespace {

using testing::Handled;
using testing::Sandbox;

Verdict acknowledged(const Message&) { return ack(); }

// A sandbox with a queue.
struct Timed {
  Sandbox box;
  Producer orders{box.url(), "orders"};
  Inspector inspector{box.url(), "orders"};
  QueueAdmin admin{box.url(), "orders"};

  // So that the slots of schedules are not now: real time passes, too.
  void leave_full_hour() {
    box.advance(std::chrono::ceil<milliseconds>(1h + 1min - box.now().time_since_epoch() % 1h));
  }

  std::size_t drains(const ConsumerOptions& options = {}) { return box.drain("orders", acknowledged, options).size(); }
};

ConsumerOptions with_backoff(Backoff backoff) {
  ConsumerOptions options;
  options.backoff = std::move(backoff);
  return options;
}

TEST_CASE("sandbox R37: advance() moves due times, to the second") {
  Timed t;
  t.orders.send("x", delayed(15min));
  t.box.advance(14min + 58s);
  CHECK(t.drains() == 0);
  t.box.advance(2s);
  CHECK(t.drains() == 1);
}

TEST_CASE("sandbox R37: advance() moves backoffs and retries, up to the dead letter") {
  Timed t;
  t.orders.send("x", with(&SendOptions::retries, 2));
  const auto options = with_backoff(Backoff::exponential(1min, 1h, 0));
  const auto nacks = [&] {
    return t.box.drain(
        "orders", [](const Message&) { return nack("closed"); }, options);
  };
  for (const milliseconds wait : {milliseconds(0ms), milliseconds(1min), milliseconds(2min)}) {
    t.box.advance(std::max(wait - milliseconds(10s), milliseconds(0)));
    if (wait > 0ms) CHECK(nacks().empty());
    t.box.advance(10s);
    REQUIRE(nacks().size() == 1);
  }
  CHECK(t.inspector.counts().dead == 1);
}

TEST_CASE("sandbox R37: advance() moves the lease of a process that died") {
  Timed t;
  t.orders.send("x");
  {
    ConsumerOptions options = quick();
    options.lease = 10min;
    options.logger = no_log();
    Gate gate;
    Consumer holder(
        t.box.url(), "orders",
        [&](const Message&) {
          gate.pass();
          return ack();
        },
        options);
    holder.start();
    REQUIRE(eventually([&] { return holder.metrics().stats.running == 1; }, kPatience));
    t.box.server().kill();  // so that the verdict is lost, as that of a process that died
    gate.open();
    CHECK_FALSE(holder.stop(0ms));
  }
  t.box.server().restart();
  CHECK(t.drains() == 0);
  t.box.lose_leases();
  const auto handled = t.box.drain("orders", acknowledged);
  REQUIRE(handled.size() == 1);
  CHECK(handled[0].attempt == 2);
}

TEST_CASE("sandbox R37: advance() moves the retention of dead letters") {
  Timed t;
  t.orders.send("x");
  t.box.drain("orders", [](const Message&) { return reject("no such order"); });
  t.box.advance(6 * 24h);
  CHECK(t.drains() == 0);
  CHECK(t.inspector.counts().dead == 1);
  t.box.advance(25h);
  CHECK(eventually([&] { return t.drains() == 0 && t.inspector.counts().dead == 0; }, kPatience));
}

TEST_CASE("sandbox R37: advance() moves TTLs") {
  Timed t;
  SendOptions options = delayed(1h);
  options.ttl = 10min;
  t.orders.send("in time", options);
  t.orders.send("too late", options);
  t.box.advance(1h + 9min);
  REQUIRE(t.box.sent("orders").size() == 2);
  CHECK(t.orders.cancel(t.box.find("orders", "in time")->id) == State::pending);
  t.box.advance(2min);
  CHECK(t.drains() == 0);
  CHECK(eventually([&] { return t.inspector.counts().totals.expired == 1; }, kPatience));
}

TEST_CASE("sandbox R37: advance() moves the end of a pause") {
  Timed t;
  t.orders.send("x");
  t.admin.pause(with(&PauseOptions::duration, milliseconds(1h)));
  t.box.advance(59min);
  CHECK(t.drains() == 0);
  t.box.advance(1min);
  CHECK(t.drains() == 1);
}

TEST_CASE("sandbox R37: advance() moves the rate of a queue") {
  Timed t;
  QueueLimits limits;
  limits.rate = Rate{1, 1h, 1};
  REQUIRE(t.admin.set_limits(limits));
  t.orders.send_batch({"1", "2", "3"});
  CHECK(t.drains() == 1);
  t.box.advance(50min);
  CHECK(t.drains() == 0);
  t.box.advance(10min);
  CHECK(t.drains() == 1);
}

TEST_CASE("sandbox R37: advance() moves the window of a unique key") {
  Timed t;
  SendOptions options;
  options.unique.key = "order 42";
  options.unique.window = 1h;
  CHECK(t.orders.send("1", options).created());
  CHECK(t.drains() == 1);
  t.box.advance(59min);
  CHECK(t.orders.send("2", options).result == SendResult::kept);
  t.box.advance(1min);
  CHECK(t.orders.send("3", options).created());
}

TEST_CASE("sandbox R37: advance() moves schedules, and what was missed is made up for as they say") {
  Timed t;
  t.leave_full_hour();
  Schedules schedules(t.box.url(), "orders");
  Schedule hourly;
  hourly.every = 1h;
  schedules.set("hourly", hourly);
  CHECK(t.drains() == 0);
  t.box.advance(1h);
  CHECK(t.drains() == 1);
  t.box.advance(5h);  // Missed::last
  CHECK(t.drains() == 1);
  hourly.missed = Missed::all;
  schedules.set("hourly", hourly);
  t.box.advance(5h);
  CHECK(t.drains() == 5);
}

TEST_CASE("sandbox R41: a consumer that runs notices an advance at once: due times, backoffs, pauses, limits") {
  Timed t;
  Ledger ledger;
  ConsumerOptions options = quick(2);
  options.backoff = Backoff::fixed(1h);
  options.tuning.poll_interval = 24h;  // nothing is found by a poll
  options.logger = no_log();
  Consumer consumer(t.box.url(), "orders", ledger.watch([](const Message& message) {
    return test::ack_if(message.payload() != "fails once" || message.attempt() > 1);
  }),
                    options);
  consumer.start();
  t.orders.send("due", delayed(1h));
  t.orders.send("fails once");
  REQUIRE(eventually([&] { return consumer.metrics().stats.nacked == 1; }, kPatience));
  t.box.advance(1h);
  CHECK(eventually([&] { return ledger.attempts("due").size() == 1; }, kPatience));
  CHECK(eventually([&] { return ledger.attempts("fails once") == std::vector<int>{1, 2}; }, kPatience));

  t.admin.pause(with(&PauseOptions::duration, milliseconds(1h)));
  t.orders.send("after the pause");
  t.box.advance(1h);
  CHECK(eventually([&] { return ledger.attempts("after the pause").size() == 1; }, kPatience));

  QueueLimits limits;
  limits.rate = Rate{1, 1h, 1};
  REQUIRE(t.admin.set_limits(limits));
  t.orders.send_batch({"1", "2"});
  REQUIRE(eventually([&] { return ledger.attempts("1").size() == 1; }, kPatience));
  REQUIRE(eventually([&] { return t.inspector.counts().unack == 0; }, kPatience));
  t.box.advance(1h);
  CHECK(eventually([&] { return ledger.attempts("2").size() == 1; }, kPatience));
  limits = t.inspector.limits();
  limits.rate.reset();
  REQUIRE(t.admin.set_limits(limits));

  t.leave_full_hour();
  Schedule daily;
  daily.every = 24h;
  daily.payload = "daily";
  Schedules(t.box.url(), "orders").set("daily", daily);
  for (std::size_t day = 1; day <= 3; ++day) {
    t.box.advance(24h);
    CHECK(eventually([&] { return ledger.attempts("daily").size() == day; }, kPatience));
  }
}

}  // namespace
}  // namespace delayqueue
