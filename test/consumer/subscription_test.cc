// The options of one queue of a consumer that serves several.
#include "support/test.h"

namespace delayqueue {
namespace {

// In seconds, of the only message in flight.
double rest_of_lease(const Queue& queue) {
  const auto unack = test::redis().cmd({"ZRANGE", queue.base + ":unack", "0", "-1", "WITHSCORES"}).strings();
  REQUIRE(unack.size() == 2);
  return std::stod(unack[1]) - static_cast<double>(test::redis_time_us()) / 1e6;
}

TEST_CASE("subscription: the lease is that of the queue, or else that of the consumer") {
  Queue own, other;
  SubscriptionOptions two_hours;
  two_hours.lease = 2h;
  ConsumerOptions options = quick(2);
  options.lease = 10min;
  Gate gate;
  Ledger ledger;
  const Handler waits = ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  });
  own.send("x");
  other.send("x");
  const test::ConsumerPtr consumer(new Consumer(own.url, {{own.name, waits, two_hours}, {other.name, waits}}, options));
  consumer->start();
  REQUIRE(ledger.reaches(2));
  CHECK(rest_of_lease(own) > 7200 - 60);
  CHECK(rest_of_lease(own) <= 7200);
  CHECK(rest_of_lease(other) > 600 - 60);
  CHECK(rest_of_lease(other) <= 600);
  gate.open();
  CHECK(ledger.settles(2));
}

TEST_CASE("subscription: processing_timeout ends the leases of the queue, and of no other") {
  Queue own, other;
  SubscriptionOptions brief;
  brief.processing_timeout = 100ms;
  ConsumerOptions options = quick(2);
  options.lease = 200ms;
  Gate gate;
  Ledger ledger, of_other;
  const auto hangs = [&](const Message& message) {
    if (message.attempt() == 1) gate.pass();
    return ack();
  };
  own.send("x");
  other.send("x");
  const test::ConsumerPtr consumer(
      new Consumer(own.url, {{own.name, ledger.watch(hangs), brief}, {other.name, of_other.watch(hangs)}}, options));
  consumer->start();
  REQUIRE(of_other.reaches(1));
  CHECK(eventually([&] { return ledger.attempts("x") == std::vector<int>{1, 2}; }, kPatience));
  CHECK(ledger.entries()[0].message.lease_lost());
  CHECK_FALSE(of_other.entries()[0].message.lease_lost());
  CHECK(test::stats_of(*consumer, other.name).running == 1);
  gate.open();
  CHECK(of_other.settles(1));
  CHECK(of_other.attempts("x") == std::vector<int>{1});
  CHECK(eventually([&] { return own.empty() && other.empty(); }, kPatience));
}

TEST_CASE("subscription: dead_retention and dead_limit are those of the queue, or else those of the consumer") {
  Queue limited, retained, other;
  for (Queue* queue : {&limited, &retained, &other}) {
    std::vector<std::string> ids;
    for (const std::string& payload : test::numbers(5)) ids.push_back(queue->send(payload, test::delayed(1h)));
    CHECK(queue->admin.bury(ids) == std::vector<Outcome>(5, Outcome::done));
    test::rewind(queue->base, 2h);
  }
  SubscriptionOptions two, an_hour;
  two.dead_limit = 2;
  an_hour.dead_retention = 1h;
  ConsumerOptions options = quick();
  options.dead_limit = 3;
  const Handler handler = test::ack_all;
  const test::ConsumerPtr consumer(new Consumer(
      limited.url, {{limited.name, handler, two}, {retained.name, handler, an_hour}, {other.name, handler}}, options));
  consumer->start();
  const auto dead = [](Queue& queue) { return queue.inspector.counts().dead; };
  CHECK(eventually([&] { return dead(limited) == 2 && dead(retained) == 0 && dead(other) == 3; }, kPatience));
  CHECK(consumer->stop(kPatience));
  CHECK(dead(limited) == 2);
  CHECK(dead(other) == 3);
}

}  // namespace
}  // namespace delayqueue
