// redis+sentinel://: the queue is on the master that the Sentinels report.
#include "support/test.h"

#include "support/partitioned.h"
#include "support/sender.h"
#include "support/sentinels.h"

using namespace delayqueue;
using test::Node;
using test::Sentinels;

namespace {

Sentinels& trio() {
  // With epoch 1, as if there had been one failover, so that a test can start a Sentinel with an older epoch.
  static Sentinels sentinels({{}, {{"--sentinel", "config-epoch", "dqm", "1"}, {}, false, false, true}, 1000ms});
  return sentinels;
}

}  // namespace

TEST_CASE("sentinel: after a failover no connection to the demoted master remains") {
  const std::string queue = fresh_queue();
  Ledger ledger;
  Consumer consumer(trio().url(), queue, ledger.watch(), test::quick());
  consumer.start();
  test::Sender sender(trio().url(), queue,
                      Durability::replicas(2, 500ms));  // so that acknowledged sends are on the next master
  REQUIRE(eventually([&] { return sender.sent() > 50; }, kPatience));

  Node& old = trio().master();
  Node& next = trio().failover();
  REQUIRE(&next != &old);
  // A client that is still connected to the old master would lose its writes.
  CHECK(eventually([&] { return old.cmd({"CLIENT", "LIST"}).text.find("name=delayqueue") == std::string::npos; }, 5s));
  const std::size_t by_then = sender.sent();
  CHECK(eventually([&] { return sender.sent() > by_then + 50; }, kPatience));
  const std::size_t sent = sender.stop();
  CHECK(eventually([&] { return ledger.different() >= sent; }, kPatience));
  CHECK(ledger.different() == sent);
  CHECK(next.cmd({"EXISTS", "dp:" + queue + ":stats"}) == 1);
  trio().hurry();  // only now: before, the old master was to accept writes for as long as in production
  trio().wait_ok();
}

TEST_CASE("sentinel: all partitions of a queue are on the master, before a failover and after it") {
  const std::string queue = fresh_queue();
  QueueAdmin admin(trio().url(), queue);
  CHECK(admin.set_partitions(4).partitions == 4);
  const std::string id = test::PartitionSender(trio().url(), queue).send(3);
  ProducerOptions durable;
  durable.durability = Durability::replicas(2, 5s);
  durable.send_timeout = 5s;
  CHECK(Producer(trio().url(), queue, durable).send("x").created());  // all writes before it are on the replicas, too
  Inspector inspector(trio().url(), queue);
  CHECK(inspector.counts().ready == 2);
  trio().failover();
  REQUIRE(eventually([&] { return thrown([&] { return inspector.counts(); }) == "nothing"; }, kPatience));
  CHECK(inspector.counts().ready == 2);
  CHECK(inspector.find(id)->partition == 3);
  CHECK(eventually([&] { return thrown([&] { admin.pause(); }) == "nothing"; }, kPatience));
  CHECK(inspector.paused());
  trio().hurry();
  trio().wait_ok();
}

TEST_CASE("sentinel: a queue works while two of three Sentinels are down") {
  const std::string queue = fresh_queue();
  Ledger ledger;
  Producer producer(trio().url(), queue);
  Consumer consumer(trio().url(), queue, ledger.watch(), test::quick());
  consumer.start();
  producer.send_batch(test::numbers(300));
  REQUIRE(eventually([&] { return consumer.metrics().stats.acked == 300; }, kPatience));
  CHECK(trio().master().cmd({"EXISTS", "dp:" + queue + ":stats"}) == 1);

  trio().sentinel(0).kill();
  trio().sentinel(1).freeze();
  Producer another(trio().url(), queue);
  another.send("with one Sentinel left");
  CHECK(eventually([&] { return consumer.metrics().stats.acked == 301; }, kPatience));
  trio().sentinel(1).thaw();
  trio().sentinel(0).restart();
  trio().wait_ok();
}

TEST_CASE("sentinel: after the failover of a killed or frozen master, no replicated message is lost") {
  for (const bool frozen : {false, true}) {
    CAPTURE(frozen);
    const std::string queue = fresh_queue();
    Ledger ledger;
    Consumer consumer(trio().url(), queue, ledger.watch(), test::quick());
    consumer.start();
    test::Sender sender(trio().url(), queue, Durability::replicas(2, 500ms));
    REQUIRE(eventually([&] { return sender.sent() > 50; }, kPatience));

    Node& old = trio().master();
    frozen ? old.freeze() : old.kill();
    trio().wait_for_master(old);
    const auto possible = std::chrono::steady_clock::now();
    const std::size_t before = ledger.size();
    // Only one replica is left, so replicas(2) cannot be reached until the old master is back.
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

TEST_CASE("sentinel: a server without the role of a master is not used, even if a Sentinel reports it") {
  // A replica, and a Sentinel that reports it as a master.
  Node master;
  Node replica({{"--replicaof", "127.0.0.1 " + std::to_string(master.port())}, {}, false, false, false});
  Node sentinel(
      {{"--sentinel", "monitor", "lone", "127.0.0.1", std::to_string(replica.port()), "2"}, {}, false, false, true});
  const std::string url = "redis+sentinel://" + sentinel.address() + "/lone";
  CHECK(thrown([&] { Producer(url, fresh_queue()).send("x"); }).find("has the role slave") != std::string::npos);
}

TEST_CASE("sentinel: the errors without Sentinels, with another server, and with an unknown master's name") {
  const std::string nowhere = "redis+sentinel://127.0.0.1:1,127.0.0.1:2/dqm";
  const std::string text = thrown([&] { Producer(nowhere, fresh_queue()).send("x"); });
  CHECK(text.find("ConnectionError") != std::string::npos);
  CHECK(text.find("127.0.0.1:1") != std::string::npos);
  CHECK(text.find("127.0.0.1:2") != std::string::npos);

  Node no_sentinel;
  const std::string wrong = "redis+sentinel://" + no_sentinel.address() + "/dqm";
  CHECK(thrown([&] { Producer(wrong, fresh_queue()).send("x"); }).find("the server is no Sentinel") !=
        std::string::npos);

  std::string other = trio().url();
  other.replace(other.find("/dqm"), 4, "/orders-master");
  const std::string unknown = thrown([&] { Producer(other, fresh_queue()).send("x"); });
  CHECK(unknown.find("ReplyError") != std::string::npos);
  CHECK(unknown.find("monitors no master 'orders-master'") != std::string::npos);
}

namespace {

// An outdated Sentinel: partitioned from the others, with an older epoch, it reports another server as the master.
struct Outdated {
  std::string comes_first() const {
    std::string url = trio().url();
    return url.insert(url.find("//") + 2, sentinel.address() + ",");
  }
  std::string comes_last() const {
    std::string url = trio().url();
    return url.insert(url.find("/dqm"), "," + sentinel.address());
  }

  Node lone{};
  Node sentinel{
      {{"--sentinel", "monitor", "dqm", "127.0.0.1", std::to_string(lone.port()), "2"}, {}, false, false, true}};
};

}  // namespace

TEST_CASE("sentinel: an outdated Sentinel neither leads clients to its master nor delays them") {
  Outdated outdated;
  const std::string url = outdated.comes_first();
  const std::string queue = fresh_queue();
  Ledger ledger;
  Consumer consumer(url, queue, ledger.watch(), test::quick());
  consumer.start();
  for (int i = 0; i < 30; ++i) {
    Producer(url, queue).send(std::to_string(i));
    std::this_thread::sleep_for(20ms);
  }
  CHECK(outdated.lone.cmd({"DBSIZE"}) == 0);
  CHECK(eventually([&] { return ledger.different() == 30; }, kPatience));

  outdated.lone.kill();
  Producer producer(url, queue);
  CHECK(producer.send("its master is dead").created());
  outdated.sentinel.freeze();
  Producer another(url, queue);
  CHECK(another.send("it says nothing").created());
  CHECK(eventually([&] { return ledger.different() == 32; }, kPatience));
  CHECK(consumer.metrics().stats.connects == 1);
  trio().wait_ok();
}

TEST_CASE("sentinel: an outdated Sentinel that answers first is overruled by newer ones") {
  Outdated outdated;
  outdated.sentinel.freeze();
  for (int i = 0; i < 3; ++i) trio().sentinel(i).kill();
  ClientOptions options;
  options.connect_timeout = 4s;
  Producer producer({outdated.comes_first(), options}, fresh_queue());
  CHECK(thrown([&] { producer.send("unconfirmed"); }).find("ConnectionError") != std::string::npos);
  outdated.sentinel.thaw();  // the producer's listener runs already
  const auto queried = [&] {
    return outdated.sentinel.cmd({"CLIENT", "LIST"}).text.find("cmd=sentinel") != std::string::npos;
  };
  REQUIRE(eventually(queried, kPatience));
  for (int i = 0; i < 3; ++i) trio().sentinel(i).restart();
  CHECK(eventually([&] { return thrown([&] { producer.send("to the master"); }) == "nothing"; }, kPatience));
  CHECK(outdated.lone.cmd({"DBSIZE"}) == 0);
  trio().wait_ok();
}

TEST_CASE("sentinel: an outdated Sentinel is not used even if it is the only one left") {
  const Outdated outdated;
  Producer producer(outdated.comes_first(), fresh_queue());
  producer.send("to the master");
  Node& master = trio().master();
  for (int i = 0; i < 3; ++i) trio().sentinel(i).kill();
  master.kill();
  for (int i = 0; i < 5; ++i) {
    CHECK(thrown([&] { producer.send("nowhere"); }).find("ConnectionError") != std::string::npos);
  }
  CHECK(outdated.lone.cmd({"DBSIZE"}) == 0);
  master.restart();
  for (int i = 0; i < 3; ++i) trio().sentinel(i).restart();
  CHECK(eventually([&] { return thrown([&] { producer.send("there again"); }) == "nothing"; }, kPatience));
  trio().wait_ok();
}

TEST_CASE("sentinel: an outdated Sentinel is not used while the master is down") {
  const Outdated outdated;
  trio().wait_ok();
  Ledger ledger;
  const std::string queue = fresh_queue();
  Consumer consumer(outdated.comes_last(), queue, ledger.watch(), test::quick());
  consumer.start();
  test::Sender sender(outdated.comes_last(), queue);
  REQUIRE(eventually([&] { return sender.sent() > 50; }, kPatience));

  Node& old = trio().master();
  old.kill();
  trio().wait_for_master(old);
  const std::size_t before = ledger.size();
  CHECK(eventually([&] { return ledger.size() > before; }, kPatience));
  sender.stop();
  CHECK(outdated.lone.cmd({"DBSIZE"}) == 0);
  old.restart();
  trio().wait_ok();
}

TEST_CASE("sentinel: an outdated or dead Sentinel does not cause endless queries of the others") {
  const Outdated outdated;
  const std::string half = "redis+sentinel://127.0.0.1:1," + trio().sentinel(0).address() + "/dqm";
  for (const std::string& url : {outdated.comes_first(), outdated.comes_last(), half}) {
    CAPTURE(url);
    Producer producer(url, fresh_queue());
    producer.send("x");
    std::this_thread::sleep_for(100ms);
    const auto connections = [](const Node& node) { return std::stoll(node.info("total_connections_received")); };
    const long long before = connections(trio().sentinel(0)), stale_before = connections(outdated.sentinel);
    const auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(2s);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    CHECK(static_cast<double>(connections(trio().sentinel(0)) - before) / took.count() < 15);
    CHECK(static_cast<double>(connections(outdated.sentinel) - stale_before) / took.count() < 15);
  }
}

// A Sentinel that monitors `first` with epoch 7. set_up() makes it monitor `second` with epoch 0.
struct Replaced {
  Node first{};
  Node second{};
  Node sentinel{{{"--sentinel", "monitor", "dqm", "127.0.0.1", std::to_string(first.port()), "1", "--sentinel",
                  "config-epoch", "dqm", "7"},
                 {},
                 false,
                 false,
                 true}};
  Producer producer{"redis+sentinel://" + sentinel.address() + "/dqm", fresh_queue()};

  void set_up() {
    must(sentinel, {"SENTINEL", "REMOVE", "dqm"});
    must(sentinel, {"SENTINEL", "MONITOR", "dqm", "127.0.0.1", std::to_string(second.port()), "1"});
  }
  bool is_used() {
    thrown([&] { producer.send("to the second master"); });
    return second.cmd({"DBSIZE"}) != 0;
  }
};

TEST_CASE("sentinel: Sentinels that were set up again are used after a delay, with the old master up or down") {
  Replaced dead, alive, cut;
  const auto start = std::chrono::steady_clock::now();
  for (Replaced* one : {&dead, &alive, &cut}) {
    one->producer.send("to the first master");
    one->set_up();
  }
  dead.first.kill();
  std::this_thread::sleep_for(3s);
  const bool too_soon = dead.is_used() || alive.is_used();
  // Until then, they may just have missed a failover.
  CHECK((!too_soon || std::chrono::steady_clock::now() - start >= 10s));
  CHECK(eventually(
      [&] {
        cut.first.cmd({"CLIENT", "KILL", "TYPE", "normal"});  // a reconnect must not restart the delay
        return cut.is_used();
      },
      kPatience));
  CHECK(eventually([&] { return dead.is_used(); }, kPatience));
  CHECK(eventually([&] { return alive.is_used(); }, kPatience));
}
