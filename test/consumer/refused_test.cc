// Redis refuses a consumer's commands: no verdict is lost, and retries have pauses.
#include <delayqueue/delayqueue.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "support/ledger.h"

namespace delayqueue {
namespace {

TEST_CASE("refused: a refused ack is sent again with pauses, and settles once it is allowed") {
  PrivateServer own;
  test::Redis client(own.socket());
  test::Queue queue(own.url());
  test::Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), test::quick());
  consumer->start();
  REQUIRE(client.cmd({"ACL", "SETUSER", "default", "-unlink"}) == "OK");
  queue.send("x");
  REQUIRE(ledger.settles(1));
  REQUIRE(test::eventually([&] { return consumer->stats().errors >= 3; }, test::kPatience));
  CHECK(consumer->stats().acked == 0);

  client.cmd({"CONFIG", "RESETSTAT"});
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::string calls = test::info("commandstats", "cmdstat_evalsha", client);
  CAPTURE(calls);
  // Without pauses there are thousands of calls. Zero calls are possible: pauses grow beyond a second.
  CHECK((calls.empty() || std::stoi(calls.substr(calls.find("calls=") + 6)) < 100));

  REQUIRE(client.cmd({"ACL", "SETUSER", "default", "+unlink"}) == "OK");
  CHECK(test::eventually([&] { return consumer->stats().acked == 1 && queue.empty(); }, test::kPatience));
  CHECK(ledger.size() == 1);
}

TEST_CASE("refused: a consumer whose handlers nack at once does not take the whole queue into memory") {
  test::Queue queue;
  queue.producer.send_batch(std::vector<std::string>(20'000, "x"));
  test::Ledger ledger;
  const auto consumer =
      queue.consumer(ledger.watch([](const Message&) { return nack(std::chrono::hours(1)); }), test::quick(4));
  consumer->start();
  std::uint64_t most = 0;  // handled, but not yet settled
  REQUIRE(test::eventually(
      [&] {
        const auto handled = static_cast<std::uint64_t>(ledger.size());
        const std::uint64_t settled = consumer->stats().nacked;
        most = std::max(most, handled - std::min(handled, settled));
        return settled == 20'000;
      },
      test::kPatience));
  CHECK(most < 3'000);
}

TEST_CASE("stop: in an event callback it returns false at once, and run() returns when all is settled") {
  test::Queue queue;
  queue.producer.send_batch(std::vector<std::string>(300, "x"));
  test::Ledger ledger;
  Consumer* self = nullptr;
  ConsumerOptions options = test::quick();
  options.on_event = [&](const Event& event) {
    if (event.kind == EventKind::acked) CHECK_FALSE(self->stop(test::kPatience));
  };
  const auto consumer = queue.consumer(ledger.watch(), options);
  self = consumer.get();
  consumer->run();
  CHECK(consumer->stats().acked == ledger.size());
  CHECK(queue.inspector.counts().ready == 300 - ledger.size());
}

}  // namespace
}  // namespace delayqueue
