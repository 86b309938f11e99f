// redis+cluster://: a queue in one slot, on any node, also while the slot moves.
#include "support/test.h"

#include "queue/endpoint.h"
#include "queue/layout_keeper.h"
#include "store/moves.h"
#include "support/cluster.h"
#include "support/examine.h"
#include "support/limits.h"
#include "support/local.h"
#include "support/sender.h"

using namespace delayqueue;
using test::Node;

namespace {

test::Cluster& six() {
  static test::Cluster cluster;
  return cluster;
}

// A Client for which a node is frozen after 1 s.
Client quick_to_fail_over() { return {six().url(), with(&ClientOptions::command_timeout, 1s)}; }

}  // namespace

TEST_CASE("cluster: a queue works through any node, with a hash tag") {
  for (int i = 0; i < 5; ++i) {  // in other slots
    const std::string queue = fresh_queue();
    Ledger ledger;
    Producer producer(six().url(), queue);
    Inspector inspector(six().url(), queue);
    producer.send_batch(test::numbers(100));
    const auto later = delayed(1h);
    const std::string id = producer.send("later", later).id;
    CHECK(inspector.counts().pending == 1);
    CHECK(producer.cancel(id) == State::pending);
    Consumer consumer(six().url(), queue, ledger.watch(), test::quick(2));
    consumer.start();
    REQUIRE(eventually([&] { return consumer.metrics().stats.acked == 100; }, kPatience));
    const std::vector<std::string> known = inspector.queues();
    CHECK(std::find(known.begin(), known.end(), queue) != known.end());
    CHECK(six().owner("{dp:" + queue + "}:stats").cmd({"EXISTS", "{dp:" + queue + "}:stats"}) == 1);
    CHECK(consumer.metrics().stats.errors == 0);
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
  const Client client(six().url(), with(&ClientOptions::client_name, name));
  std::vector<Producer> producers;
  std::vector<Inspector> inspectors;
  for (int i = 0; i < 40; ++i) {
    const std::string queue = fresh_queue();
    producers.emplace_back(client, queue);
    inspectors.emplace_back(client, queue);
  }
  for (std::uint64_t round = 1; round <= 2; ++round) {
    for (std::size_t i = 0; i < producers.size(); ++i) {
      CHECK(producers[i].send("x").created());
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
  const Client client(six().url(), with(&ClientOptions::client_name, name));
  Producer one(client, moving);
  Producer other(client, staying);
  for (Producer* producer : {&one, &other}) CHECK(producer->send("x").created());
  CHECK(eventually([&] { return ids_at(from, name).size() == 1; }, kPatience));
  const auto before = ids_at(from, name);

  six().begin_migration(slot, to);
  while (six().migrate_keys(slot, 100) > 0) {
  }
  six().finish_migration(slot);
  for (int i = 0; i < 3; ++i) {
    CHECK(one.send("x").created());
    CHECK(other.send("x").created());
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
  ClientOptions off;
  off.keys.hash_tag = HashTag::off;
  CHECK(thrown([&] { Producer({six().url(), off}, fresh_queue()); }).find("keys.hash_tag") != std::string::npos);
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
  CHECK(Producer(url, queue).send("x").created());
  Node& owner = six().owner("{dp:" + queue + "}");
  Node& frozen = six().other_master(owner);
  const std::string first = "redis+cluster://" + frozen.address() + "," + owner.address();
  frozen.freeze();
  CHECK(Producer(first, queue).send("y").created());
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
  ClientOptions options;
  options.connect_timeout = 1s;  // the time that four silent nodes take
  Producer producer({url + good.address(), options}, fresh_queue());
  const auto sends = [&] { return thrown([&] { producer.send("x"); }) == "nothing"; };
  CHECK(eventually(sends, kPatience));
  // Now this node is as silent as the others, until each of them has been tried.
  options.client_name = "another";  // so that it has no connection yet
  Producer another({url + good.address(), options}, fresh_queue());
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
  CHECK(Producer(both, queue).send("x").created());
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
  ClientOptions options;
  options.user = "former";
  options.password = "secret";
  CHECK(Producer({six().url(), options}, fresh_queue()).send("x").created());
}

TEST_CASE("cluster: a slot that moves while its queue is used loses and repeats no message") {
  const std::string queue = fresh_queue();
  const int slot = test::slot_of("{dp:" + queue + "}");
  Ledger ledger;
  Consumer consumer(quick_to_fail_over(), queue, ledger.watch(), quick(2));
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
    Consumer consumer(quick_to_fail_over(), queue, ledger.watch(), quick(2));
    consumer.start();
    ProducerOptions options = one_attempt();
    options.durability = Durability::replicas(1, 5s);
    Producer producer(six().url(), queue, options);
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
            return after.send("on the new master").created();
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

TEST_CASE("cluster: a consumer of queues on several nodes serves the others while a node is frozen, and then all") {
  const std::string frozen = fresh_queue();
  Node& node = six().owner("{dp:" + frozen + "}");
  std::vector<std::string> others;
  while (others.size() < 3) {
    const std::string queue = fresh_queue();
    if (&six().owner("{dp:" + queue + "}") != &node) others.push_back(queue);
  }
  Ledger of_frozen, of_others;
  std::vector<Subscription> queues = {{frozen, of_frozen.watch()}};
  for (const std::string& queue : others) queues.push_back({queue, of_others.watch()});
  Consumer consumer(six().url(), queues, quick());
  consumer.start();
  const auto send = [](const std::string& queue) {
    return eventually([&] { return thrown([&] { Producer(six().url(), queue).send("x"); }) == "nothing"; }, kPatience);
  };
  REQUIRE(send(frozen));
  for (const std::string& queue : others) REQUIRE(send(queue));
  REQUIRE(of_frozen.settles(1));
  REQUIRE(of_others.settles(3));
  CHECK(consumer.metrics().stats.connects == 4);
  CHECK(consumer.metrics().stats.connected);
  node.freeze();
  for (const std::string& queue : others) REQUIRE(send(queue));
  CHECK(of_others.settles(6));
  CHECK(eventually([&] { return !test::stats_of(consumer, frozen).connected; }, kPatience));
  node.thaw();
  six().wait_ok();
  REQUIRE(send(frozen));
  CHECK(of_frozen.reaches(2));
  CHECK(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
}

TEST_CASE(
    "cluster: a consumer has one connection to each node for all queues there, and one that waits for each queue") {
  std::vector<std::string> names(12);
  for (std::string& name : names) name = fresh_queue();
  const auto key = [](const std::string& queue) { return "{dp:" + queue + "}"; };
  const auto wanted = [&] {
    std::set<const Node*> nodes;
    for (const std::string& name : names) nodes.insert(&six().owner(key(name)));
    return nodes.size() + names.size();
  };
  const auto connections = [] {
    std::size_t count = 0;
    for (std::size_t i = 0; i < test::Cluster::kNodes; ++i) {
      const std::string list = six().node(i).cmd({"CLIENT", "LIST"}).text;
      for (std::size_t at = 0; (at = list.find(" name=shared ", at)) != std::string::npos; ++at) ++count;
    }
    return count;
  };
  Ledger ledger;
  std::vector<Subscription> queues;
  for (const std::string& name : names) queues.push_back({name, ledger.watch()});
  Consumer consumer({six().url(), with(&ClientOptions::client_name, "shared")}, queues, quick());
  consumer.start();
  const auto send_all = [&] {
    for (const std::string& name : names) Producer(six().url(), name).send("x");
  };
  send_all();
  REQUIRE(ledger.settles(12));
  CHECK(eventually([&] { return connections() == wanted(); }, kPatience));
  for (const std::size_t moved : {0, 11}) {  // the connection of the first serves others, that of the last does not
    const int slot = test::slot_of(key(names[moved]));
    six().begin_migration(slot, six().other_master(six().owner_of(slot)));
    while (six().migrate_keys(slot, 2) > 0) std::this_thread::sleep_for(5ms);
    six().finish_migration(slot);
    const std::size_t before = ledger.different();
    send_all();
    CHECK(eventually([&] { return ledger.different() == before + 12; }, kPatience));
    CHECK(eventually([&] { return connections() == wanted(); }, kPatience));
  }
  CHECK(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
  for (std::size_t i = 1; i < 11; ++i) CHECK(test::stats_of(consumer, names[i]).errors == 0);
  CHECK(consumer.stop());
}

TEST_CASE("cluster: a consumer waits for the wake-ups of at most 16 queues, and polls the others") {
  constexpr std::size_t kWaiting = 16;
  const std::string name = fresh_queue();
  std::set<const Node*> nodes;
  Ledger ledger, of_others;
  std::vector<Subscription> queues;
  while (queues.size() < kWaiting + 2) {
    const std::string queue = fresh_queue();
    nodes.insert(&six().owner("{dp:" + queue + "}"));
    queues.push_back({queue, queues.size() < kWaiting ? ledger.watch() : of_others.watch()});
  }
  ClientOptions client_options;
  ConsumerOptions options = quick(4);
  options.tuning.poll_interval = 100ms;
  client_options.client_name = name;
  Consumer consumer({six().url(), client_options}, queues, options);
  consumer.start();
  const auto connections = [&] {
    std::size_t all = 0;
    for (std::size_t i = 0; i < test::Cluster::kNodes; ++i) all += ids_at(six().node(i), name).size();
    return all;
  };
  CHECK(eventually([&] { return connections() == nodes.size() + kWaiting; }, kPatience));
  for (std::size_t round = 1; round <= 2; ++round) {
    for (const Subscription& one : queues) Producer(six().url(), one.queue).send("x");
    CHECK(ledger.settles(round * kWaiting));
    CHECK(of_others.settles(round * 2));
    std::this_thread::sleep_for(1s);  // all are idle
    CHECK(connections() == nodes.size() + kWaiting);
  }
  CHECK(ledger.different() == 2 * kWaiting);
  CHECK(of_others.different() == 4);
  CHECK(consumer.stop(kPatience));
}

// How often scripts were called on all nodes.
std::size_t evals() {
  const std::string name = "cmdstat_evalsha:calls=";
  std::size_t calls = 0;
  for (std::size_t i = 0; i < test::Cluster::kNodes; ++i) {
    const std::string stats = six().node(i).cmd({"INFO", "commandstats"}).text;
    const std::size_t at = stats.find(name);
    if (at != std::string::npos) calls += std::stoul(stats.substr(at + name.size()));
  }
  return calls;
}

TEST_CASE("cluster: 32 partitions on 3 masters need one connection to each, and one that waits for wake-ups") {
  for (const bool durable : {false, true}) {
    CAPTURE(durable);
    const std::string queue = fresh_queue(), name = fresh_queue();
    CHECK(QueueAdmin(six().url(), queue).set_partitions(32).top == 32);
    Ledger ledger;
    ClientOptions client_options;
    ConsumerOptions options = quick(4);
    options.tuning.poll_interval = 100ms;
    client_options.client_name = name;
    if (durable) options.durability = Durability::replicas(1);  // one more to each
    const std::size_t threads = test::threads_of_this_process();
    Consumer consumer({six().url(), client_options}, queue, ledger.watch(), options);
    consumer.start();
    Endpoint home(six().url(), queue);
    for (unsigned partition = 0; partition < 32; ++partition) {
      Endpoint endpoint(home, partition);
      const auto connection = endpoint.connect_to_master();
      redis::Pipeline pipeline(*connection);
      const std::string id = store::new_ids(1).front();
      const auto sent = store::Moves(endpoint.keys()).send(pipeline, {{id, "x"}}, {});
      pipeline.run();
      sent.get();
    }
    CHECK(ledger.settles(32));
    CHECK(ledger.different() == 32);
    CHECK(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
    const std::size_t each = durable ? 2 : 1;
    CHECK(eventually(
        [&] {
          std::size_t most = 0, all = 0;
          for (std::size_t i = 0; i < test::Cluster::kNodes; ++i) {
            const std::size_t count = ids_at(six().node(i), name).size();
            most = std::max(most, count);
            all += count;
          }
          return most == each + 1 && all == 3 * each + 1;
        },
        kPatience));
    CHECK(eventually([&] { return test::threads_of_this_process() == threads + 1 + options.concurrency; }, kPatience));
    CHECK(consumer.metrics().stats.connects <=
          32);                            // on a slow machine, until the lanes of a node have found each other
    std::this_thread::sleep_for(1500ms);  // until wake-ups replace polls
    const std::size_t before = evals();
    std::this_thread::sleep_for(3s);
    const std::size_t requests = evals() - before;
    MESSAGE(requests << " requests of an idle consumer in 3 s");
    // In 100 ms three for partition 0, in a second three for each other one, and one that reads each pause: 465.
    CHECK(requests < 800);
    CHECK(consumer.stop(kPatience));
  }
}

TEST_CASE("cluster: a consumer starts without the master of partition 0 if partition 1 tells of the others") {
  const std::string queue = fresh_queue();
  CHECK(QueueAdmin(six().url(), queue).set_partitions(4).top == 4);
  Endpoint home(six().url(), queue);
  Endpoint second(home, 1);
  Node& away = six().owner(home.keys().base);
  Node& there = six().owner(second.keys().base);
  REQUIRE(&away != &there);  // half of the ring of slots is between them
  const auto send = [&] {
    const auto connection = second.connect_to_master();
    redis::Pipeline pipeline(*connection);
    const std::string id = store::new_ids(1).front();
    const auto sent = store::Moves(second.keys()).send(pipeline, {{id, "x"}}, {});
    pipeline.run();
    sent.get();
  };
  Ledger ledger;
  send();
  {
    // A consumer compares partition 1 with partition 0, which might be paused, before it takes from there.
    Consumer before(six().url(), queue, ledger.watch(), quick());
    before.start();
    REQUIRE(ledger.settles(1));
    REQUIRE(before.stop(kPatience));
  }
  send();
  test::must(away, {"CLIENT", "PAUSE", "7000", "ALL"});  // it answers other nodes, but no client
  const auto began = std::chrono::steady_clock::now();
  ClientOptions client_options;
  client_options.connect_timeout = 2s;
  client_options.command_timeout = 1s;
  Consumer consumer({"redis+cluster://" + there.address(), client_options}, queue, ledger.watch(), quick(2));
  consumer.start();
  CHECK(ledger.settles(2));
  CHECK(std::chrono::steady_clock::now() - began < 7s);
  REQUIRE(eventually([&] { return away.cmd({"PING"}) == "PONG"; }, kPatience));
  CHECK(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
}

TEST_CASE("cluster: stop() releases what other nodes gave, and a node that is silent costs the timeout and `false`") {
  const std::string queue = fresh_queue();
  CHECK(QueueAdmin(six().url(), queue).set_partitions(2).top == 2);
  Endpoint home(six().url(), queue);
  Endpoint second(home, 1);
  for (Endpoint* endpoint : {&home, &second}) {
    const auto connection = endpoint->connect_to_master();
    redis::Pipeline pipeline(*connection);
    const auto ids = store::new_ids(2);
    const auto sent = store::Moves(endpoint->keys()).send(pipeline, {{ids[0], "x"}, {ids[1], "x"}}, {});
    pipeline.run();
    sent.get();
  }
  test::Gate gate;
  Ledger ledger;
  ConsumerOptions options = quick(4);
  options.lease = 1min;
  Consumer consumer(six().url(), queue, ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }),
                    options);
  consumer.start();
  REQUIRE(ledger.reaches(4));
  Node& silent = six().owner(second.keys().base);
  test::must(silent, {"CLIENT", "PAUSE", "5000", "ALL"});  // it answers other nodes, but no client
  gate.open();
  const auto began = std::chrono::steady_clock::now();
  CHECK_FALSE(consumer.stop(2s));
  CHECK(std::chrono::steady_clock::now() - began < 4s);
  CHECK(consumer.metrics().stats.acked == 2);
  CHECK(six().owner(home.keys().base).cmd({"EXISTS", home.keys().unack, home.keys().ready}) == 0);
  CHECK(eventually([&] { return silent.cmd({"PING"}) == "PONG"; }, kPatience));
}

TEST_CASE("cluster: queues on several nodes share the workers by their weights") {
  std::vector<std::string> names = {fresh_queue()};
  while (names.size() < 3) {
    const std::string queue = fresh_queue();
    const auto same = [&](const std::string& other) {
      return &six().owner("{dp:" + other + "}") == &six().owner("{dp:" + queue + "}");
    };
    if (std::none_of(names.begin(), names.end(), same)) names.push_back(queue);
  }
  Ledger ledger;
  std::vector<Subscription> queues;
  for (const std::string& name : names) {
    Producer(six().url(), name).send_batch(std::vector<std::string>(150, name));
    SubscriptionOptions options;
    options.weight = name == names[0] ? 2 : 1;
    const auto slow = [](const Message&) {
      std::this_thread::sleep_for(2ms);
      return ack();
    };
    queues.push_back({name, ledger.watch(slow), options});
  }
  ConsumerOptions options = quick(2);
  options.tuning.prefetch = 0;
  Consumer consumer(six().url(), queues, options);
  consumer.start();
  REQUIRE(ledger.reaches(200));
  std::vector<std::string> first = ledger.payloads();
  first.resize(200);
  for (const std::string& name : names) {
    const auto got = std::count(first.begin(), first.end(), name);
    const int fair = name == names[0] ? 100 : 50;
    CHECK(got > fair - 25);
    CHECK(got < fair + 25);
  }
}

TEST_CASE("cluster: a redirection to a node that does not answer delays no other queue of the consumer") {
  const std::string moving = fresh_queue();
  const int slot = test::slot_of("{dp:" + moving + "}");
  Node& from = six().owner_of(slot);
  Node& to = six().other_master(from);
  std::string staying = fresh_queue();
  while (&six().owner("{dp:" + staying + "}") != &from) staying = fresh_queue();
  Ledger of_moving, of_staying;
  ClientOptions client_options;
  ConsumerOptions options = quick();
  client_options.connect_timeout = 4 * kPatience;  // for each node a quarter of it
  Consumer consumer({six().url(), client_options}, {{moving, of_moving.watch()}, {staying, of_staying.watch()}},
                    options);
  consumer.start();
  Producer to_moving(six().url(), moving), to_staying(six().url(), staying);
  to_moving.send("x");
  to_staying.send("x");
  REQUIRE(of_moving.settles(1));
  REQUIRE(of_staying.settles(1));
  six().begin_migration(slot, to);
  while (six().migrate_keys(slot, 100) > 0) {
  }
  const auto began = std::chrono::steady_clock::now();
  test::must(to, {"CLIENT", "PAUSE", "6000", "ALL"});  // it answers other nodes, but no client
  CHECK(eventually([&] { return test::stats_of(consumer, moving).errors > 0; }, kPatience));
  to_staying.send("y");
  CHECK(of_staying.settles(2));
  CHECK(std::chrono::steady_clock::now() - began < 6s);
  CHECK(test::stats_of(consumer, staying).errors == 0);
  REQUIRE(eventually([&] { return to.cmd({"PING"}) == "PONG"; }, kPatience));
  six().finish_migration(slot);
  CHECK(eventually([&] { return thrown([&] { to_moving.send("y"); }) == "nothing"; }, kPatience));
  CHECK(of_moving.reaches(2));
}

TEST_CASE("cluster: start() throws if the nodes refuse the user of a consumer of several queues") {
  const Handler handler = [](const Message&) { return ack(); };
  ClientOptions client_options;
  ConsumerOptions options = quick();
  client_options.user = "unknown";
  client_options.password = "wrong";
  Consumer consumer({six().url(), client_options}, {{fresh_queue(), handler}, {fresh_queue(), handler}}, options);
  CHECK_THROWS_AS(consumer.start(), AccessDenied);
}

TEST_CASE("cluster: after the slot of one queue has moved, the others there connect again without its new node") {
  const std::string moving = fresh_queue(), name = fresh_queue();
  const int slot = test::slot_of("{dp:" + moving + "}");
  Node& from = six().owner_of(slot);
  Node& to = six().other_master(from);
  std::string staying = fresh_queue();
  while (&six().owner("{dp:" + staying + "}") != &from) staying = fresh_queue();
  Ledger of_moving, of_staying;
  ClientOptions client_options;
  ConsumerOptions options = quick();
  client_options.connect_timeout = 4 * kPatience;  // for each node a quarter of it
  client_options.client_name = name;
  Consumer consumer({six().url(), client_options}, {{moving, of_moving.watch()}, {staying, of_staying.watch()}},
                    options);
  consumer.start();
  Producer to_moving(six().url(), moving), to_staying(six().url(), staying);
  to_moving.send("x");
  to_staying.send("x");
  REQUIRE(of_moving.settles(1));
  REQUIRE(of_staying.settles(1));
  six().begin_migration(slot, to);
  while (six().migrate_keys(slot, 100) > 0) {
  }
  six().finish_migration(slot);
  to_moving.send("y");
  REQUIRE(of_moving.settles(2));
  const auto began = std::chrono::steady_clock::now();
  test::must(to, {"CLIENT", "PAUSE", "6000", "ALL"});  // it answers other nodes, but no client
  for (const std::string& id : ids_at(from, name)) from.cmd({"CLIENT", "KILL", "ID", id.substr(3)});
  to_staying.send("y");
  CHECK(of_staying.settles(2));
  CHECK(std::chrono::steady_clock::now() - began < 6s);
  CHECK(eventually([&] { return to.cmd({"PING"}) == "PONG"; }, kPatience));
}

TEST_CASE("cluster: places promised to a node that is silent are free, and what then arrives beyond them is released") {
  const std::string late = fresh_queue();
  Node& node = six().owner("{dp:" + late + "}");
  std::string other = fresh_queue();
  while (&six().owner("{dp:" + other + "}") == &node) other = fresh_queue();
  test::Gate gate;
  Ledger of_late, of_other;
  ClientOptions client_options;
  ConsumerOptions options = quick(4);
  options.tuning.prefetch = 0;
  client_options.command_timeout = 20s;
  const auto waits = [&](const Message&) {
    gate.pass();
    return ack();
  };
  Consumer consumer({six().url(), client_options}, {{late, of_late.watch()}, {other, of_other.watch(waits)}}, options);
  consumer.start();
  REQUIRE(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
  auto soon = delayed(1h);
  Producer to_other(six().url(), other);
  to_other.send("registers the queue", soon);  // perhaps at the node that will be silent
  soon.delay = 1s;
  Producer(six().url(), late).send_batch(std::vector<std::string>(8, "late"), soon);
  Inspector inspector({six().url(), client_options}, late);
  CHECK(inspector.counts().pending == 8);  // connects before the node is silent
  std::this_thread::sleep_for(500ms);
  const auto began = std::chrono::steady_clock::now();
  test::must(node, {"CLIENT", "PAUSE", "4000", "ALL"});
  std::this_thread::sleep_for(800ms);  // now the consumer has asked for four of them
  to_other.send_batch(std::vector<std::string>(8, "other"));
  CHECK(eventually([&] { return of_other.running() == 4; }, kPatience));
  CHECK(std::chrono::steady_clock::now() - began < 4s);
  CHECK(eventually(
      [&] {
        const Counts counts = inspector.counts();
        return counts.unack == 0 && counts.ready == 8;
      },
      kPatience));
  CHECK(of_late.size() == 0);
  gate.open();
  CHECK(of_other.settles(8));
  REQUIRE(of_late.settles(8));
  for (const Ledger::Entry& entry : of_late.entries()) CHECK(entry.message.attempt() == 1);
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
  CHECK(producer.send("y").created());
}

TEST_CASE("cluster: while a slot moves, a send of a large payload stores all of it or nothing") {
  const std::string queue = fresh_queue();
  const std::string base = "{dp:" + queue + "}";
  const int slot = test::slot_of(base);
  const std::string large(100'000, 'x');
  Producer producer(six().url(), queue, one_attempt());
  for (int i = 0; i < 16; ++i) CHECK(producer.send(large).created());
  Node& from = six().owner_of(slot);
  Node& to = six().other_master(from);
  const auto bodies = [&] {
    return from.cmd({"KEYS", base + ":msg:*"}).array.size() + to.cmd({"KEYS", base + ":msg:*"}).array.size();
  };
  // Each must have a TTL.
  const auto staged_on = [&](const Node& node) {
    Redis client(node.port());
    const auto names = client.cmd({"KEYS", base + ":staged:*"}).strings();
    for (const std::string& name : names) {
      client.cmd({"ASKING"});
      CHECK(client.cmd({"PTTL", name}).integer > 0);
    }
    return names.size();
  };
  six().begin_migration(slot, to);
  std::vector<std::string> ids;
  std::size_t staged = 0;
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
    CHECK(staged_on(to) == staged);
    CHECK(staged_on(from) == 0);
    const auto own = with(&SendOptions::id, ids.back());
    CHECK(thrown([&] { producer.send(large, own); }).find("TRYAGAIN") != std::string::npos);
    CHECK(bodies() == 16);
    CHECK(staged_on(to) == ++staged);  // its SET was redirected with ASK, and the script was not
    CHECK(staged_on(from) == 0);
  } while (six().migrate_keys(slot, 4) > 0);
  six().finish_migration(slot);
  CHECK(ids.size() > 2);
  CHECK(producer.send(large).created());  // this one is redirected
  for (const std::string& id : ids) {
    const auto again = with(&SendOptions::id, id);
    CHECK(producer.send(large, again).created());
    CHECK_FALSE(producer.send(large, again).created());
  }
  CHECK(Inspector(six().url(), queue).counts().ready == 17 + ids.size());
  CHECK(bodies() == 17 + ids.size());
  CHECK(staged_on(to) == staged);  // until they expire
  CHECK(staged_on(from) == 0);
}
