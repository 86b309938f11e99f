// Redis refuses a consumer's commands: no verdict is lost, and retries have pauses.
#include "support/test.h"

#include "support/local.h"

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
  REQUIRE(test::eventually([&] { return consumer->metrics().stats.errors >= 3; }, test::kPatience));
  CHECK(consumer->metrics().stats.acked == 0);

  client.cmd({"CONFIG", "RESETSTAT"});
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::string calls = test::info("commandstats", "cmdstat_evalsha", client);
  CAPTURE(calls);
  // Without pauses there are thousands of calls. Zero calls are possible: pauses grow beyond a second.
  CHECK((calls.empty() || std::stoi(calls.substr(calls.find("calls=") + 6)) < 100));

  REQUIRE(client.cmd({"ACL", "SETUSER", "default", "+unlink"}) == "OK");
  CHECK(test::eventually([&] { return consumer->metrics().stats.acked == 1 && queue.empty(); }, test::kPatience));
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
        const std::uint64_t settled = consumer->metrics().stats.nacked;
        most = std::max(most, handled - std::min(handled, settled));
        return settled == 20'000;
      },
      test::kPatience));
  CHECK(most < 3'000);
}

// A way to keep verdicts from being settled, and its end.
struct Obstacle {
  const char* name;
  std::function<void(PrivateServer&, test::Redis&)> begin, end;
};

std::vector<Obstacle> obstacles() {
  const auto right = [](const char* change) {
    return [change](PrivateServer&, test::Redis& client) {
      REQUIRE(client.cmd({"ACL", "SETUSER", "default", change}) == "OK");
    };
  };
  return {
      {"a right is missing", right("-unlink"), right("+unlink")},
      {"no script may run", right("-@scripting"), right("+@scripting")},
      {"the password has changed",
       [](PrivateServer&, test::Redis& client) {
         REQUIRE(client.cmd({"ACL", "SETUSER", "default", "resetpass", ">other"}) == "OK");
         client.cmd({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
       },
       right("nopass")},
      {"Redis is away", [](PrivateServer& server, test::Redis&) { server.stop(); },
       [](PrivateServer& server, test::Redis&) { server.restart(); }},
  };
}

// 43 to 62 times a second, when the pauses did not hold while a consumer stops.
TEST_CASE("refused: while a consumer stops, verdicts are sent again with pauses, and settle once they are allowed") {
  constexpr std::size_t kQueues = 2;
  for (const Obstacle& obstacle : obstacles()) {
    CAPTURE(obstacle.name);
    const test::TempDir folder;
    PrivateServerOptions kept;
    kept.folder = folder.file("data");  // also while it is away
    PrivateServer own(kept);
    test::Redis client(own.socket());
    std::atomic<bool> go_on{false};
    std::atomic<std::uint64_t> running{0};
    const Handler handler = [&](const Message&) {
      ++running;
      while (!go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return ack();
    };
    std::vector<Subscription> subscriptions;
    for (std::size_t i = 0; i < kQueues; ++i) {
      const std::string name = "q" + std::to_string(i);
      Producer(own.url(), name).send("x");
      subscriptions.push_back({name, handler});
    }
    Consumer consumer(own.url(), subscriptions, test::quick(4));
    consumer.start();
    REQUIRE(test::eventually([&] { return running == kQueues; }, test::kPatience));
    obstacle.begin(own, client);
    go_on = true;
    REQUIRE(test::eventually([&] { return consumer.metrics().stats.errors >= kQueues; }, test::kPatience));

    const std::uint64_t errors = consumer.metrics().stats.errors;
    std::atomic<bool> stopped{false}, clean{false};
    std::thread stops([&] {
      clean = consumer.stop(test::kPatience);
      stopped = true;
    });
    std::this_thread::sleep_for(std::chrono::seconds(2));
    // The pauses begin with 25 to 50 ms, and double.
    CHECK(consumer.metrics().stats.errors - errors <= 8 * kQueues);
    CHECK_FALSE(stopped);
    obstacle.end(own, client);
    stops.join();
    CHECK(clean);
    CHECK(consumer.metrics().stats.acked == kQueues);
  }
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
  CHECK(consumer->metrics().stats.acked == ledger.size());
  CHECK(queue.inspector.counts().ready == 300 - ledger.size());
}

}  // namespace
}  // namespace delayqueue
