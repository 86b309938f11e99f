// redis+cluster://: a queue in one slot, on any node, also while the slot moves.
#include <delayqueue/delayqueue.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "queue/endpoint.h"
#include "queue/layout_keeper.h"
#include "support/cluster.h"
#include "support/examine.h"
#include "support/ledger.h"
#include "support/local.h"
#include "support/sender.h"

using namespace std::chrono_literals;
using namespace delayqueue;
using test::eventually;
using test::fresh_queue;
using test::kPatience;
using test::Ledger;
using test::Node;
using test::thrown;

namespace {

test::Cluster& six() {
  static test::Cluster cluster;
  return cluster;
}

ConsumerOptions quick_to_fail_over() {
  ConsumerOptions options = test::quick(2);
  options.connection.command_timeout = 1s;  // the time after which a frozen node is detected
  return options;
}

}  // namespace

TEST_CASE("cluster: a queue works through any node, with a hash tag") {
  for (int i = 0; i < 5; ++i) {  // in other slots
    const std::string queue = fresh_queue();
    Ledger ledger;
    Producer producer(six().url(), queue);
    Inspector inspector(six().url(), queue);
    producer.send_batch(test::numbers(100));
    SendOptions later;
    later.delay = 1h;
    const std::string id = producer.send("later", later).id;
    CHECK(inspector.counts().pending == 1);
    CHECK(producer.cancel(id) == State::pending);
    Consumer consumer(six().url(), queue, ledger.watch(), test::quick(2));
    consumer.start();
    REQUIRE(eventually([&] { return consumer.stats().acked == 100; }, kPatience));
    const std::vector<std::string> known = inspector.queues();
    CHECK(std::find(known.begin(), known.end(), queue) != known.end());
    CHECK(six().owner("{dp:" + queue + "}:stats").cmd({"EXISTS", "{dp:" + queue + "}:stats"}) == 1);
    CHECK(consumer.stats().errors == 0);
  }
}

// The ids of the connections with this client name.
std::vector<std::string> ids_at(const Node& node, const std::string& name) {
  std::istringstream all(node.cmd({"CLIENT", "LIST"}).text);
  std::vector<std::string> found;
  for (std::string line; std::getline(all, line);) {
    if (line.find(" name=" + name + " ") != std::string::npos) found.push_back(line.substr(0, line.find(' ')));
  }
  return found;
}

TEST_CASE("cluster: the Producers and Inspectors of many queues have one connection to each master together") {
  const std::string name = fresh_queue();
  ProducerOptions sending;
  InspectorOptions reading;
  sending.connection.client_name = reading.connection.client_name = name;
  std::vector<Producer> producers;
  std::vector<Inspector> inspectors;
  for (int i = 0; i < 40; ++i) {
    const std::string queue = fresh_queue();
    producers.emplace_back(six().url(), queue, sending);
    inspectors.emplace_back(six().url(), queue, reading);
  }
  for (std::uint64_t round = 1; round <= 2; ++round) {
    for (std::size_t i = 0; i < producers.size(); ++i) {
      CHECK(producers[i].send("x").created);
      CHECK(inspectors[i].counts().ready == round);
    }
  }
  for (std::size_t i = 0; i < test::Cluster::kNodes; ++i) {
    CAPTURE(i);
    const std::size_t expected = six().node(i).info("role") == "master" ? 1 : 0;
    CHECK(eventually([&] { return ids_at(six().node(i), name).size() == expected; }, kPatience));
  }
}

TEST_CASE("cluster: when the slot of one queue moves, the connection stays open for the other queues of that master") {
  const std::string name = fresh_queue(), moving = fresh_queue();
  const int slot = test::slot_of("{dp:" + moving + "}");
  Node& from = six().owner_of(slot);
  Node& to = six().other_master(from);
  std::string staying = fresh_queue();
  while (&six().owner("{dp:" + staying + "}") != &from) staying = fresh_queue();
  ProducerOptions options;
  options.connection.client_name = name;
  Producer one(six().url(), moving, options);
  Producer other(six().url(), staying, options);
  for (Producer* producer : {&one, &other}) CHECK(producer->send("x").created);
  CHECK(eventually([&] { return ids_at(from, name).size() == 1; }, kPatience));
  const auto before = ids_at(from, name);

  six().begin_migration(slot, to);
  while (six().migrate_keys(slot, 100) > 0) {
  }
  six().finish_migration(slot);
  for (int i = 0; i < 3; ++i) {
    CHECK(one.send("x").created);
    CHECK(other.send("x").created);
  }
  CHECK(ids_at(from, name) == before);
  CHECK(eventually([&] { return ids_at(to, name).size() == 1; }, kPatience));
  CHECK(Inspector(six().url(), moving).counts().ready == 4);
  CHECK(Inspector(six().url(), staying).counts().ready == 4);
}

TEST_CASE("cluster: partitions are on several masters, and a connection to one of them reaches the layout of all") {
  const std::string queue = fresh_queue();
  Endpoint endpoint(six().url(), queue, {}, {});
  const auto connection = endpoint.connect();
  LayoutKeeper keeper(queue, {"dp", true, false}, [&](unsigned, const auto& call) { call(*connection); });
  const auto examined = [&] {
    return test::examine_all(queue, {"dp", true, false}, [&](unsigned, const auto& call) { call(*connection); });
  };
  CHECK(keeper.probe(examined()).empty());
  CHECK(keeper.set(32).partitions == 32);
  std::set<const Node*> owners;
  for (unsigned partition = 0; partition < 32; ++partition) {
    const store::Keys keys = store::make_keys(queue, {"dp", true, false}, partition);
    Node& owner = six().owner(keys.base);
    owners.insert(&owner);
    keeper.copy_to(partition);
    CHECK(owner.cmd({"HGET", keys.settings, "top"}) == "32");
    if (partition < 2) CHECK(owner.cmd({"DEL", keys.settings}) == 1);
  }
  CHECK(owners.size() == 3);
  LayoutKeeper other(queue, {"dp", true, false}, [&](unsigned, const auto& call) { call(*connection); });
  CHECK(other.probe(examined()).empty());
  CHECK(other.known() == keeper.known());
}

TEST_CASE("cluster: a queue without a hash tag is refused; a URL with the wrong scheme gets advice") {
  ProducerOptions off;
  off.queue.hash_tag = HashTag::off;
  CHECK(thrown([&] { Producer(six().url(), fresh_queue(), off); }).find("queue.hash_tag") != std::string::npos);
  const std::string text = thrown([&] { Producer(six().node(0).url(), fresh_queue()).send("x"); });
  CHECK(text.find("write redis+cluster:// in the URL") != std::string::npos);
  Node single;
  std::string url = single.url();
  url.replace(0, 5, "redis+cluster");
  CHECK(thrown([&] { Producer(url, fresh_queue()).send("x"); }).find("write redis:// in the URL") != std::string::npos);
}

TEST_CASE("cluster: dead and frozen seeds are skipped while one seed leads to the owner") {
  const std::string queue = fresh_queue();
  std::string url = six().url();
  url.insert(url.find("//") + 2, "127.0.0.1:1,");
  CHECK(Producer(url, queue).send("x").created);
  Node& owner = six().owner("{dp:" + queue + "}");
  Node& frozen = six().other_master(owner);
  const std::string first = "redis+cluster://" + frozen.address() + "," + owner.address();
  frozen.freeze();
  CHECK(Producer(first, queue).send("y").created);
  frozen.thaw();
  six().wait_ok();
  CHECK(thrown([&] { Producer("redis+cluster://127.0.0.1:1", queue).send("x"); }).find("127.0.0.1:1") !=
        std::string::npos);
}

TEST_CASE("cluster: unreachable nodes are tried last, so any number of them delays only the first attempts") {
  const test::Port silent[4];
  std::vector<delayqueue::Descriptor> listeners;
  std::string url = "redis+cluster://";
  for (const test::Port& port : silent) {
    listeners.push_back(test::listen_on(port));
    url += "127.0.0.1:" + std::to_string(port.number()) + ",";
  }
  Node good({{}, {}, false, true});
  REQUIRE(good.cmd({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"}) == "OK");
  REQUIRE(eventually([&] { return good.cmd({"SET", "x", "x"}) == "OK"; }));
  ProducerOptions options;
  options.connection.connect_timeout = 1s;  // the time that four silent nodes take
  Producer producer(url + good.address(), fresh_queue(), options);
  const auto sends = [&] { return thrown([&] { producer.send("x"); }) == "nothing"; };
  CHECK(eventually(sends, kPatience));
  // Now this node is as silent as the others, until each of them has been tried.
  options.connection.client_name = "another";  // so that it has no connection yet
  Producer another(url + good.address(), fresh_queue(), options);
  good.freeze();
  for (int i = 0; i < 2; ++i) CHECK(thrown([&] { another.send("x"); }).find("ConnectionError") != std::string::npos);
  good.thaw();
  CHECK(eventually([&] { return thrown([&] { another.send("x"); }) == "nothing"; }, kPatience));
}

TEST_CASE("cluster: the slot map of a node that reports its Cluster as down is not used") {
  Node alone({{}, {}, false, true});  // owns all slots but one: reports its Cluster as down, like a partitioned one
  const std::string queue = fresh_queue();
  const int slot = test::slot_of("{dp:" + queue + "}");
  const int other = slot == 0 ? 1 : 0;
  REQUIRE(alone.cmd({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"}) == "OK");
  REQUIRE(alone.cmd({"CLUSTER", "DELSLOTS", std::to_string(other)}) == "OK");
  REQUIRE(eventually([&] { return alone.cmd({"SET", "{dp:" + queue + "}", "x"}).text.find("CLUSTERDOWN") == 0; }));
  const std::string both = "redis+cluster://" + alone.address() + "," + six().node(0).address();
  CHECK(Producer(both, queue).send("x").created);
  Producer lonely("redis+cluster://" + alone.address(), queue);
  const std::string text = thrown([&] { lonely.send("x"); });
  CHECK(text.find("ConnectionError") != std::string::npos);
  CHECK(text.find("reports its Cluster as down") != std::string::npos);
  REQUIRE(alone.cmd({"CLUSTER", "ADDSLOTS", std::to_string(other)}) == "OK");
  CHECK(eventually([&] { return thrown([&] { lonely.send("x"); }) == "nothing"; }, kPatience));
}

TEST_CASE("cluster: a user without the right to CLUSTER INFO can work") {
  for (std::size_t i = 0; i < test::Cluster::kNodes; ++i) {
    test::must(six().node(i), {"ACL", "SETUSER", "former", "on", ">secret", "~*", "&*", "+@all", "-cluster|info"});
  }
  ProducerOptions options;
  options.connection.user = "former";
  options.connection.password = "secret";
  CHECK(Producer(six().url(), fresh_queue(), options).send("x").created);
}

TEST_CASE("cluster: a slot that moves while its queue is used loses and repeats no message") {
  const std::string queue = fresh_queue();
  const int slot = test::slot_of("{dp:" + queue + "}");
  Ledger ledger;
  Consumer consumer(six().url(), queue, ledger.watch(), quick_to_fail_over());
  consumer.start();
  test::Sender sender(six().url(), queue);
  for (int round = 0; round < 3; ++round) {
    Node& to = six().other_master(six().owner_of(slot));
    six().begin_migration(slot, to);
    while (six().migrate_keys(slot, 2) > 0) std::this_thread::sleep_for(5ms);
    six().finish_migration(slot);
    const std::size_t by_then = sender.sent();
    CHECK(eventually([&] { return sender.sent() > by_then + 20; }, kPatience));
  }
  const std::size_t sent = sender.stop();
  CHECK(eventually([&] { return ledger.different() == sent; }, kPatience));
  CHECK(ledger.overlaps() == 0);
  CHECK(eventually([&] { return Inspector(six().url(), queue).counts().unack == 0; }, kPatience));
}

TEST_CASE("cluster: after a failover, requested or by the loss of the master, the queue continues on the new master") {
  enum Fault { asked, killed, frozen };
  for (const Fault fault : {asked, killed, frozen}) {
    CAPTURE(fault);
    const std::string queue = fresh_queue();
    const std::string key = "{dp:" + queue + "}";
    Ledger ledger;
    Consumer consumer(six().url(), queue, ledger.watch(), quick_to_fail_over());
    consumer.start();
    ProducerOptions durable;
    durable.durability = Durability::replicas(1, 5s);
    Producer producer(six().url(), queue, durable);
    producer.send_batch(test::numbers(200));
    Node& old = six().owner(key);
    if (fault == asked) six().failover(key);
    if (fault == killed) old.kill();
    if (fault == frozen) old.freeze();
    Node& next = six().owner(key);
    CHECK(&next != &old);
    const auto possible = std::chrono::steady_clock::now();
    Producer after(six().url(), queue);
    CHECK(eventually(
        [&] {
          try {
            return after.send("on the new master").created;
          } catch (const ConnectionError&) {
            return false;
          }
        },
        kPatience));
    CHECK(eventually([&] { return !ledger.attempts("on the new master").empty(); }, kPatience));
    const std::chrono::duration<double, std::milli> later = std::chrono::steady_clock::now() - possible;
    MESSAGE("fault " << fault << ": delivered " << later.count() << " ms after the new owner was elected");
    // Messages in flight when the old owner ended are delivered again when their leases end.
    CHECK(eventually([&] { return ledger.different() > 200; }, kPatience));
    if (fault == killed) old.restart();
    if (fault == frozen) old.thaw();
    six().wait_ok();
  }
}

TEST_CASE("cluster: while a slot moves, no key is made on the new node that is still on the old one") {
  const std::string queue = fresh_queue();
  const std::string base = "{dp:" + queue + "}";
  const int slot = test::slot_of(base);
  Producer producer(six().url(), queue);
  producer.send("leaves a marker");
  Node& from = six().owner_of(slot);
  Node& to = six().other_master(from);
  six().begin_migration(slot, to);
  std::vector<std::string> move = {"MIGRATE", "127.0.0.1", std::to_string(to.port()), "", "0", "2000", "KEYS"};
  for (const std::string& key : from.cmd({"KEYS", base + "*"}).strings()) {
    if (key != base + ":wake") move.push_back(key);
  }
  REQUIRE(from.cmd(move) == "OK");
  // The script is redirected to the new node, and the marker is still on this one.
  CHECK(thrown([&] { producer.send("x"); }).find("TRYAGAIN") != std::string::npos);
  CHECK(to.cmd({"KEYS", base + ":wake"}).array.empty());
  CHECK(six().migrate_keys(slot, 1) == 1);
  six().finish_migration(slot);
  CHECK(producer.send("y").created);
}

TEST_CASE("cluster: while a slot moves, a send of a large payload stores all of it or nothing") {
  const std::string queue = fresh_queue();
  const std::string base = "{dp:" + queue + "}";
  const int slot = test::slot_of(base);
  const std::string large(100'000, 'x');
  Producer producer(six().url(), queue);
  for (int i = 0; i < 16; ++i) CHECK(producer.send(large).created);
  Node& from = six().owner_of(slot);
  Node& to = six().other_master(from);
  const auto bodies = [&] {
    return from.cmd({"KEYS", base + ":msg:*"}).array.size() + to.cmd({"KEYS", base + ":msg:*"}).array.size();
  };
  six().begin_migration(slot, to);
  std::vector<std::string> ids;
  do {
    const std::string text = thrown([&] {
      try {
        producer.send(large);
      } catch (const ConnectionError& e) {
        ids.push_back(e.ids().at(0));
        throw;
      }
    });
    REQUIRE_MESSAGE(text.find("TRYAGAIN") != std::string::npos, text);
    CHECK(bodies() == 16);
  } while (six().migrate_keys(slot, 4) > 0);
  six().finish_migration(slot);
  CHECK(ids.size() > 2);
  CHECK(producer.send(large).created);  // this one is redirected
  for (const std::string& id : ids) {
    SendOptions again;
    again.id = id;
    CHECK(producer.send(large, again).created);
    CHECK_FALSE(producer.send(large, again).created);
  }
  CHECK(Inspector(six().url(), queue).counts().ready == 17 + ids.size());
  CHECK(bodies() == 17 + ids.size());
}
