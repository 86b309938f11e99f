// Redis refuses what a consumer asks for: no verdict is lost, and Redis is not hammered.
#include <delayqueue/delayqueue.h>

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>

#include "support/ledger.h"

namespace delayqueue {
namespace {

TEST_CASE("refused: an ack that Redis refuses is said again at leisure, and counts once it is allowed") {
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
  CHECK(std::stoi(calls.substr(calls.find("calls=") + 6)) < 100);  // at full speed it is thousands

  REQUIRE(client.cmd({"ACL", "SETUSER", "default", "+unlink"}) == "OK");
  CHECK(test::eventually([&] { return consumer->stats().acked == 1 && queue.empty(); }, test::kPatience));
  CHECK(ledger.size() == 1);
}

}  // namespace
}  // namespace delayqueue
