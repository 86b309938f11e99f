// Pipelined round trips: the consumer sends a second one before the first is answered.
#include <delayqueue/consumer.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "support/ledger.h"
#include "support/proxy.h"
#include "support/relay.h"

namespace delayqueue {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::kPatience;
using test::Ledger;
using test::numbers;
using test::Queue;
using test::quick;
using test::Relay;

bool is_done(Queue& queue) {
  return eventually([&] { return queue.empty(); }, kPatience);
}

TEST_CASE("round trips: under load the next is sent before the last answer, and each message is acked once") {
  Relay relay;
  Queue queue(relay.url());
  const std::vector<std::string> payloads = numbers(3000);
  queue.producer.send_batch(payloads);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(4));
  relay.arm(Relay::Then::answer);
  consumer->start();
  CHECK(eventually([&] { return relay.early_requests() >= 5; }, kPatience));
  relay.disarm();
  CHECK(is_done(queue));
  CHECK(ledger.size() == payloads.size());
  CHECK(ledger.different() == payloads.size());
  CHECK(eventually([&] { return consumer->stats().acked == payloads.size(); }, kPatience));
  CHECK(consumer->stats().errors == 0);
}

TEST_CASE("round trips: a verdict is sent while the answers to the moves are missing") {
  test::FaultProxy proxy(test::server().socket(), test::FaultProxy::Via::unix_socket);
  Queue queue;
  queue.send("x");
  test::Gate gate;
  Ledger ledger;
  Consumer consumer(proxy.url(), queue.name, ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }),
                    quick());
  consumer.start();
  REQUIRE(ledger.reaches(1));
  proxy.hold_replies(true);
  const std::string before = test::info("commandstats", "cmdstat_evalsha");
  CHECK(eventually([&] { return test::info("commandstats", "cmdstat_evalsha") != before; }, kPatience));
  gate.open();
  CHECK(eventually([&] { return queue.inspector.counts().unack == 0; }));
  CHECK(consumer.stats().acked == 0);  // the answer is missing, too
  proxy.hold_replies(false);
  CHECK(eventually([&] { return consumer.stats().acked == 1; }, kPatience));
  CHECK(consumer.stats().errors == 0);
}

TEST_CASE("round trips: a connection that is lost with two round trips in flight loses no message") {
  Relay relay;
  Queue queue(relay.url());
  SendOptions patient;
  patient.retries = 1000;
  const std::vector<std::string> payloads = numbers(3000);
  queue.producer.send_batch(payloads, patient);
  Ledger ledger;
  ConsumerOptions options = quick(4);
  options.lease = 1s;  // redelivers soon what a lost take answer leased
  const auto consumer = queue.consumer(ledger.watch(), options);
  relay.arm(Relay::Then::cut);
  consumer->start();
  CHECK(eventually([&] { return relay.early_requests() >= 5; }, kPatience));
  relay.disarm();
  CHECK(is_done(queue));
  CHECK(ledger.different() == payloads.size());
  CHECK(ledger.overlaps() == 0);
  CHECK(consumer->stats().connects >= 6);
  const Totals totals = queue.inspector.counts().totals;
  CHECK(totals.acked == payloads.size());
  CHECK(totals.dead_lettered == 0);
}

TEST_CASE("round trips: scripts that are flushed under load are sent again, and none runs twice") {
  Queue queue;
  const std::vector<std::string> payloads = numbers(20'000);
  queue.producer.send_batch(payloads);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(4));
  consumer->start();
  std::size_t flushed = 0;
  while (ledger.size() < payloads.size() && ++flushed < 100'000) test::redis().cmd({"SCRIPT", "FLUSH"});
  CHECK(is_done(queue));
  CHECK(flushed > 10);
  CHECK(ledger.size() == payloads.size());
  CHECK(ledger.different() == payloads.size());
  CHECK(eventually([&] { return consumer->stats().acked == payloads.size(); }, kPatience));
  CHECK(consumer->stats().errors == 0);
}

TEST_CASE("round trips: messages of a take that is answered after stop() return to the queue in order") {
  test::FaultProxy proxy(test::server().socket(), test::FaultProxy::Via::unix_socket);
  Queue queue(proxy.url());
  const std::vector<std::string> payloads = numbers(3000);
  queue.producer.send_batch(payloads);
  for (std::size_t begun = 0; begun < 1500;) {
    Ledger ledger;
    const auto consumer = queue.consumer(ledger.watch(), quick(1));
    consumer->start();
    REQUIRE(ledger.reaches(300));
    proxy.delay(5ms);
    REQUIRE(ledger.reaches(310));
    CHECK(consumer->stop(kPatience));
    proxy.delay(0ms);
    const auto seen = ledger.payloads();
    const auto from = payloads.begin() + static_cast<std::ptrdiff_t>(begun);
    begun += seen.size();
    CHECK((seen == std::vector<std::string>(from, from + static_cast<std::ptrdiff_t>(seen.size()))));
    const Counts counts = queue.inspector.counts();
    CHECK(counts.ready == payloads.size() - begun);
    CHECK(counts.unack == 0);
  }
  Ledger after;
  const auto next = queue.consumer(after.watch());
  next->start();
  CHECK(is_done(queue));
  const auto rest = after.payloads();
  CHECK((rest == std::vector<std::string>(payloads.end() - static_cast<std::ptrdiff_t>(rest.size()), payloads.end())));
}

}  // namespace
}  // namespace delayqueue
