// redis+sentinel://: the queue lives where the Sentinels say that the master is.
#include <delayqueue/delayqueue.h>
#include <doctest/doctest.h>

#include <string>
#include <thread>

#include "support/ledger.h"
#include "support/sender.h"
#include "support/sentinels.h"

using namespace std::chrono_literals;
using namespace delayqueue;
using test::eventually;
using test::fresh_queue;
using test::kPatience;
using test::Ledger;
using test::Node;
using test::Sender;
using test::Sentinels;
using test::thrown;

namespace {

Sentinels& trio() {
  static Sentinels sentinels;
  return sentinels;
}

}  // namespace

TEST_CASE("After a failover nobody stays with the demoted master") {
  const std::string queue = fresh_queue();
  Ledger ledger;
  Consumer consumer(trio().url(), queue, ledger.watch(), test::quick());
  consumer.start();
  Sender sender(trio().url(), queue, replicas(2, 500ms));  // so that what was acknowledged is on the next master
  REQUIRE(eventually([&] { return sender.sent() > 50; }, kPatience));

  Node& old = trio().master();
  Node& next = trio().failover();
  REQUIRE(&next != &old);
  // Whoever is still linked to the old master would lose what it writes there.
  CHECK(eventually([&] { return old.cmd({"CLIENT", "LIST"}).text.find("name=delayqueue") == std::string::npos; }, 5s));
  const std::size_t by_then = sender.sent();
  CHECK(eventually([&] { return sender.sent() > by_then + 50; }, kPatience));
  const std::size_t sent = sender.stop();
  CHECK(eventually([&] { return ledger.different() >= sent; }, kPatience));
  CHECK(ledger.different() == sent);
  CHECK(next.cmd({"EXISTS", "dp:" + queue + ":stats"}) == 1);
  trio().hurry();  // only now: until here the old master was to go on for as long as it does in life
  trio().wait_ok();
}

TEST_CASE("A queue works through Sentinels, and none of them is needed twice") {
  const std::string queue = fresh_queue();
  Ledger ledger;
  Producer producer(trio().url(), queue);
  Consumer consumer(trio().url(), queue, ledger.watch(), test::quick());
  consumer.start();
  producer.send_batch(test::numbers(300));
  REQUIRE(eventually([&] { return consumer.stats().acked == 300; }, kPatience));
  CHECK(trio().master().cmd({"EXISTS", "dp:" + queue + ":stats"}) == 1);

  trio().sentinel(0).kill();
  trio().sentinel(1).freeze();
  Producer another(trio().url(), queue);
  another.send("with one Sentinel left");
  CHECK(eventually([&] { return consumer.stats().acked == 301; }, kPatience));
  trio().sentinel(1).thaw();
  trio().sentinel(0).restart();
  trio().wait_ok();
}

TEST_CASE("A master that is killed, or frozen, is replaced, and nothing that replicas had is lost") {
  for (const bool frozen : {false, true}) {
    CAPTURE(frozen);
    const std::string queue = fresh_queue();
    Ledger ledger;
    Consumer consumer(trio().url(), queue, ledger.watch(), test::quick());
    consumer.start();
    Sender sender(trio().url(), queue, replicas(2, 500ms));
    REQUIRE(eventually([&] { return sender.sent() > 50; }, kPatience));

    Node& old = trio().master();
    frozen ? old.freeze() : old.kill();
    trio().wait_for_master(old);
    const auto possible = std::chrono::steady_clock::now();
    const std::size_t before = ledger.size();
    // Only one replica is left, so replicas(2) is out of reach until the old master is back.
    Producer(trio().url(), queue).send("first on the new master");
    CHECK(eventually([&] { return ledger.size() > before; }, kPatience));
    const std::chrono::duration<double, std::milli> later = std::chrono::steady_clock::now() - possible;
    MESSAGE(std::string(frozen ? "frozen" : "killed") << ": delivered " << later.count() << " ms after the failover");
    frozen ? old.thaw() : old.restart();
    trio().wait_ok();
    const std::size_t sent = sender.stop() + 1;
    CHECK(eventually([&] { return ledger.different() >= sent; }, kPatience));
    CHECK(ledger.different() == sent);
  }
}

TEST_CASE("A server that is no master is not used, whatever a Sentinel says") {
  // A replica, and a Sentinel that takes it for a master.
  Node master;
  Node replica({{"--replicaof", "127.0.0.1 " + std::to_string(master.port())}, {}, false, false, false});
  Node sentinel(
      {{"--sentinel", "monitor", "lone", "127.0.0.1", std::to_string(replica.port()), "2"}, {}, false, false, true});
  const std::string url = "redis+sentinel://" + sentinel.address() + "/lone";
  CHECK(thrown([&] { Producer(url, fresh_queue()).send("x"); }).find("says that its role is slave") !=
        std::string::npos);
}

TEST_CASE("What is wrong with Sentinels is said: none there, or the name unknown to them") {
  const std::string nowhere = "redis+sentinel://127.0.0.1:1,127.0.0.1:2/dqm";
  const std::string text = thrown([&] { Producer(nowhere, fresh_queue()).send("x"); });
  CHECK(text.find("ConnectionError") != std::string::npos);
  CHECK(text.find("127.0.0.1:1") != std::string::npos);
  CHECK(text.find("127.0.0.1:2") != std::string::npos);

  Node no_sentinel;
  const std::string wrong = "redis+sentinel://" + no_sentinel.address() + "/dqm";
  CHECK(thrown([&] { Producer(wrong, fresh_queue()).send("x"); }).find("this is no Sentinel") != std::string::npos);

  std::string other = trio().url();
  other.replace(other.find("/dqm"), 4, "/orders-master");
  const std::string unknown = thrown([&] { Producer(other, fresh_queue()).send("x"); });
  CHECK(unknown.find("ReplyError") != std::string::npos);
  CHECK(unknown.find("knows no master 'orders-master'") != std::string::npos);
}

TEST_CASE("A Sentinel that missed a failover leads nobody astray, and holds up nobody") {
  // One that is cut off from the others, and holds another server for the master.
  Node lone;
  Node stale({{"--sentinel", "monitor", "dqm", "127.0.0.1", std::to_string(lone.port()), "2"}, {}, false, false, true});
  trio().failover();
  std::string url = trio().url();
  url.insert(url.find("//") + 2, stale.address() + ",");
  const std::string queue = fresh_queue();
  Ledger ledger;
  Consumer consumer(url, queue, ledger.watch(), test::quick());
  consumer.start();
  for (int i = 0; i < 30; ++i) {
    Producer(url, queue).send(std::to_string(i));
    std::this_thread::sleep_for(20ms);
  }
  CHECK(lone.cmd({"DBSIZE"}) == 0);
  CHECK(eventually([&] { return ledger.different() == 30; }, kPatience));

  lone.kill();
  Producer producer(url, queue);
  CHECK(producer.send("its master is dead").created);
  stale.freeze();
  Producer another(url, queue);
  CHECK(another.send("it says nothing").created);
  CHECK(eventually([&] { return ledger.different() == 32; }, kPatience));
  CHECK(consumer.stats().connects == 1);
  trio().wait_ok();
}
