// Unique keys, as consumers free them.
#include "support/test.h"

#include "store/keys.h"

namespace delayqueue {
namespace {

// Gives a message that waits the key, and lets the entry of the key name it.
void give_key(const Queue& queue, const std::string& id, const std::string& key, const std::string& window = "0") {
  test::redis().cmd({"HSET", queue.base + ":keys", id, key});
  test::redis().cmd({"HSET", queue.base + ":unique", key, id + " 1700000000000000 " + window});
}

TEST_CASE("unique R16: a consumer that acknowledges a message frees its key, and keeps a window") {
  Queue queue;
  test::Ledger ledger;
  for (int i = 0; i < 30; ++i) {
    give_key(queue, queue.send("x"), "k" + std::to_string(i), i == 0 ? "3100000000000000" : "0");
  }
  const auto consumer = queue.consumer(ledger.watch([](const Message&) { return ack(); }));
  consumer->start();
  REQUIRE(ledger.settles(30));
  REQUIRE(consumer->stop());
  CHECK(test::redis().cmd({"EXISTS", queue.base + ":keys"}) == 0);
  CHECK(test::redis().cmd({"HKEYS", queue.base + ":unique"}).strings() == std::vector<std::string>{"k0"});
}

TEST_CASE("unique: consumers delete entries and keys that no message holds") {
  Queue queue;
  const std::string gone = "00000000-0000-7000-8000-000000000001";
  for (int i = 0; i < 300; ++i) give_key(queue, gone, "k" + std::to_string(i));
  give_key(queue, gone, "window", "3100000000000000");
  SendOptions later;
  later.delay = 1h;
  const std::string waits = queue.producer.send("x", later).id;
  give_key(queue, waits, "held");
  test::Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([](const Message&) { return ack(); }));
  consumer->start();
  CHECK(test::eventually([&] { return test::redis().cmd({"HLEN", queue.base + ":unique"}) == 2; }, 60s));
  CHECK(test::eventually([&] { return test::redis().cmd({"HLEN", queue.base + ":keys"}) == 1; }, 60s));
  CHECK(test::redis().cmd({"HGET", queue.base + ":keys", waits}) == "held");
  REQUIRE(consumer->stop());
}

TEST_CASE("unique: a consumer serves a queue in which another program has written the keys of unique messages") {
  Queue queue;
  test::redis().cmd({"SET", queue.base + ":keys", "of another program"});
  test::redis().cmd({"SET", queue.base + ":unique", "of another program"});
  test::Ledger ledger;
  for (int i = 0; i < 30; ++i) queue.send("x");
  const auto consumer = queue.consumer(ledger.watch([](const Message&) { return ack(); }));
  consumer->start();
  REQUIRE(ledger.settles(30));
  queue.send("x");
  REQUIRE(ledger.settles(31));
  REQUIRE(consumer->stop());
}

}  // namespace
}  // namespace delayqueue
