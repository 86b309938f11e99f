// Objects of one Client share connections, and neither delay nor disturb each other.
#include "support/test.h"

#include <signal.h>

#include "queue/connection_pool.h"
#include "queue/shared_connection.h"
#include "redis/topology.h"
#include "redis/url.h"
#include "support/forked.h"
#include "support/proxy.h"
#include "support/scripted_server.h"

namespace delayqueue {
namespace {

using test::client_named;
using test::connection_ids;
using test::connections_named;
using test::FaultProxy;
using test::server;

Producer producer_of(const Client& client, const std::string& queue, const Durability& durability) {
  ProducerOptions options = one_attempt();
  options.durability = durability;
  return {client, queue, options};
}

void set_format(const std::string& queue, const std::string& format) {
  test::redis().cmd({"HSET", "dp:" + queue + ":settings", "format", format});
}

constexpr int kNoSlot = 0;  // only in a Cluster the server depends on the slot

TEST_CASE("connections: Producers, Inspectors and QueueAdmins of many queues share one, and the last one closes it") {
  const std::string name = fresh_queue();
  auto client = std::make_unique<Client>(client_named(name));
  std::vector<Producer> producers;
  std::vector<Inspector> inspectors;
  std::vector<QueueAdmin> admins;
  for (int i = 0; i < 10; ++i) {
    const std::string queue = fresh_queue();
    producers.emplace_back(*client, queue);
    inspectors.emplace_back(Client(*client), queue);
    admins.emplace_back(client->with_keys(client->keys()), queue);
  }
  client.reset();
  for (int round = 1; round <= 2; ++round) {
    for (std::size_t i = 0; i < 10; ++i) {
      CHECK(producers[i].send("x").created());
      CHECK(inspectors[i].counts().ready == static_cast<std::uint64_t>(round));
      CHECK(admins[i].purge(State::dead) == 0);
    }
  }
  const auto one = connection_ids(name);
  CHECK(one.size() == 1);
  producers.clear();
  inspectors.clear();
  admins.erase(admins.begin() + 1, admins.end());
  CHECK(admins.front().purge(State::dead) == 0);
  CHECK(connection_ids(name) == one);
  admins.clear();
  CHECK(eventually([&] { return connections_named(name).empty(); }, kPatience));
}

TEST_CASE("connections: the partitions of a queue share one, and only partition 0 is in the set of known queues") {
  const std::string name = fresh_queue(), queue = fresh_queue(), base = "dp:" + queue;
  const store::Keys third_keys = store::make_keys(queue, {}, 3);
  test::redis().cmd({"HSET", third_keys.settings, "generation", "7", "partitions", "4", "top", "8"});
  SharedConnection home(client_named(name), queue);
  SharedConnection third(home, 3);
  const auto known = [&](const std::string& member) { return test::redis().cmd({"SISMEMBER", "dp:queues", member}); };
  CHECK(third.moves().keys().ready == third_keys.ready);
  CHECK(third.endpoint().layout() == store::Layout());
  third.with_connection([](redis::Connection&) {});
  CHECK((third.endpoint().layout() == store::Layout{7, 4, 8}));
  CHECK(known(base) == 0);
  third.with_connection([&](redis::Connection& connection) { third.endpoint().register_queue(connection); });
  CHECK(known(base) == 1);
  test::redis().cmd({"SREM", "dp:queues", base});
  home.with_connection([](redis::Connection&) {});
  CHECK(known(base) == 1);
  CHECK(known(third_keys.base) == 0);
  CHECK(connection_ids(name).size() == 1);
  CHECK(has(thrown([&] { SharedConnection(home, 256); }), "invalid_argument: partition: 256"));
}

TEST_CASE("connections: the server of a slot stays known while a node reports its Cluster as down") {
  std::atomic<bool> down{false};
  std::atomic<int> port{0};
  const test::ScriptedServer node([&](const std::vector<std::string>& words) {
    if (words[0] == "HELLO") return test::hello();
    if (words.back() == "INFO") return test::bulk(down ? "cluster_state:fail" : "cluster_state:ok");
    const std::string self = test::array({test::bulk(""), ":" + std::to_string(port) + "\r\n"});
    return test::array({test::array({":0\r\n", ":16383\r\n", self})});
  });
  port = node.port();
  const auto topology = redis::cluster(redis::parse_url("redis+cluster://" + node.host()), {});
  CHECK(topology->server_of(7).empty());
  CHECK(topology->connect(7) != nullptr);
  CHECK(topology->server_of(7) == node.host());
  down = true;
  CHECK(has(thrown([&] { topology->connect(7); }), "reports its Cluster as down"));
  CHECK(topology->server_of(7) == node.host());
}

TEST_CASE("connection pool: one that no call has needed for the limit is closed when another one is returned") {
  const std::string name = fresh_queue();
  ConnectionPool pool(redis::parse_url(server().url()), with(&ClientOptions::client_name, name), 1s);
  {
    const auto first = pool.connect(kNoSlot);
    const auto second = pool.connect(kNoSlot);
    CHECK(pool.take(kNoSlot).is_none());
    CHECK(first.number() != second.number());
  }
  CHECK(connection_ids(name).size() == 2);
  std::this_thread::sleep_for(1100ms);
  CHECK(connection_ids(name).size() == 2);  // no thread watches them
  CHECK(!pool.take(kNoSlot).is_none());
  CHECK(eventually([&] { return connection_ids(name).size() == 1; }, kPatience));
  CHECK(!pool.take(kNoSlot).is_none());
}

TEST_CASE("connections: an error of one queue neither closes the connection nor fails the calls of other queues") {
  const std::string name = fresh_queue();
  const Client client = client_named(name);
  const std::string good = fresh_queue(), newer = fresh_queue(), blocked = fresh_queue(), tagged = fresh_queue();
  Producer producer(client, good);
  CHECK(producer.send("x").created());
  const auto one = connection_ids(name);

  set_format(newer, "2");
  Producer to_newer(client, newer);
  test::redis().cmd({"SET", "dp:" + blocked + ":ready", "in the way"});
  Producer to_blocked(client, blocked);
  test::redis().cmd({"ZADD", "{dp:" + tagged + "}:pending", "1", "id"});
  Producer to_tagged(client, tagged);
  for (int i = 0; i < 2; ++i) {
    CHECK(has(thrown([&] { to_newer.send("x"); }), "ReplyError: the queue dp:" + newer));
    CHECK(has(thrown([&] { to_blocked.send("x"); }), "WRONGTYPE"));
    CHECK(has(thrown([&] { to_tagged.send("x"); }), "invalid_argument: keys.hash_tag"));
    CHECK(producer.send("x").created());
  }
  CHECK(connection_ids(name) == one);

  Producer durable = producer_of(client, fresh_queue(), Durability::replicas(1, 1ms));
  for (int i = 0; i < 3; ++i) {
    CHECK(has(thrown([&] { durable.send("x"); }), "ConnectionError: "));  // closes the connection that it has
    CHECK(producer.send("x").created());
  }
}

TEST_CASE("connections: calls that are refused after a failed one use its new connection, and open no more") {
  const std::string name = fresh_queue(), queue = fresh_queue();
  const Client client = client_named(name);
  Producer producer = producer_of(client, queue, Durability::replicas(1, 1ms));
  CHECK(has(thrown([&] { producer.send("x"); }), "only 0 of 1 replicas"));  // closes the connection
  set_format(queue, "2");
  for (int i = 0; i < 5; ++i) CHECK(has(thrown([&] { producer.send("x"); }), "format \"2\""));
  CHECK(connection_ids(name).size() == 1);
}

TEST_CASE("connections: after a reconnect the format of each queue is checked again") {
  const std::string name = fresh_queue();
  const Client client = client_named(name);
  const std::vector<std::string> queues = {fresh_queue(), fresh_queue(), fresh_queue()};
  std::vector<Producer> producers;
  for (const std::string& queue : queues) producers.emplace_back(client, queue);
  for (Producer& producer : producers) CHECK(producer.send("x").created());
  set_format(queues[1], "2");
  CHECK(producers[1].send("over the connection that was checked").created());
  REQUIRE(test::cut_connections(name) == 1);
  CHECK(producers[0].send("opens a connection").created());
  CHECK(has(thrown([&] { producers[1].send("x"); }), "format \"2\""));
  CHECK(producers[2].send("x").created());
  CHECK(connection_ids(name).size() == 1);
  test::redis().cmd({"DEL", "dp:" + queues[1] + ":settings"});
  CHECK(producers[1].send("x").created());
}

TEST_CASE("connections: a Producer that waits for its replicas delays no other object") {
  const std::string name = fresh_queue(), queue = fresh_queue();
  const Client client = client_named(name);
  Producer waiting = producer_of(client, fresh_queue(), Durability::replicas(1, kPatience));
  Producer producer(client, queue);
  Inspector inspector(client, queue);
  CHECK(producer.send("opens the connection").created());
  std::string error;
  std::thread thread([&] { error = thrown([&] { waiting.send("x"); }); });
  const auto blocked = [&] {
    std::string found;
    for (const std::string& line : connections_named(name)) {
      if (has(line, " flags=b") && has(line, " cmd=wait ")) found = test::connection_id(line);
    }
    return found;
  };
  std::string id;
  const auto waits = [&] {
    id = blocked();
    return !id.empty();
  };
  CHECK(eventually(waits, kPatience));
  for (std::uint64_t i = 2; i <= 100; ++i) {
    CHECK(producer.send("x").created());
    CHECK(inspector.counts().ready == i);
  }
  CHECK(eventually(waits, kPatience));  // still, or now: the first time may have been the check of the server
  CHECK(connection_ids(name).size() == 2);
  CHECK(test::redis().cmd({"CLIENT", "UNBLOCK", id}) == 1);
  thread.join();
  CHECK(has(error, "only 0 of 1 replicas"));
}

TEST_CASE("connections: threads with one Producer each send all messages, over at most one connection each") {
  constexpr std::size_t kProducers = 8;
  constexpr std::uint64_t kSends = 200;
  const std::string name = fresh_queue();
  const Client client = client_named(name);
  std::vector<std::string> queues;
  std::vector<Producer> producers;
  for (std::size_t i = 0; i < kProducers; ++i) {
    queues.push_back(fresh_queue());
    producers.emplace_back(client, queues.back());
  }
  std::atomic<std::uint64_t> created{0};
  std::vector<std::thread> threads;
  for (Producer& producer : producers) {
    threads.emplace_back([&created, &producer] {
      for (std::uint64_t i = 0; i < kSends; ++i) created += producer.send("x").created() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(created == kProducers * kSends);
  CHECK(connection_ids(name).size() <= kProducers);
  for (const std::string& queue : queues) CHECK(Inspector(client, queue).counts().ready == kSends);
}

TEST_CASE("connections: objects that threads make and destroy all the time share them safely") {
  const std::string name = fresh_queue(), queue = fresh_queue();
  std::atomic<int> created{0};
  std::vector<std::thread> threads;
  {
    const Client client = client_named(name);
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&created, &queue, client] {
        for (int n = 0; n < 50; ++n) created += Producer(Client(client), queue).send("x").created() ? 1 : 0;
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  CHECK(created == 200);
  CHECK(Inspector(server().url(), queue).counts().ready == 200);
  CHECK(eventually([&] { return connections_named(name).empty(); }, kPatience));
}

// Stops a server, so that its connections stay open and nothing answers.
class Frozen {
 public:
  explicit Frozen(const PrivateServer& frozen) : pid_(frozen.pid()) { ::kill(pid_, SIGSTOP); }
  ~Frozen() { ::kill(pid_, SIGCONT); }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  const int pid_;
};

Client hasty(const std::string& url) { return {url, with(&ClientOptions::command_timeout, 2s)}; }

TEST_CASE("connections: an object whose first call gets a dead connection opens another one, and the call succeeds") {
  PrivateServer old, next;
  FaultProxy proxy(old.socket());
  const Client client = hasty(proxy.url());
  Producer first(client, "first", one_attempt());
  CHECK(first.send("x").created());
  const Frozen frozen(old);
  proxy.retarget(next.socket());  // as after the failover of an address
  Producer second(client, "second", one_attempt());
  CHECK(second.send("x").created());
  CHECK(first.send("x").created());
  CHECK(Inspector(next.url(), "second").counts().ready == 1);
  CHECK(Inspector(next.url(), "first").counts().ready == 1);
}

TEST_CASE("connections: after a failed call the next one opens a connection, even if others wait in the pool") {
  PrivateServer old, next;
  FaultProxy proxy(old.socket());
  const Client client = hasty(proxy.url());
  Producer producer(client, "q", one_attempt());
  {
    Endpoint endpoint(client, "q", RegisterQueue::no, SharePool::yes);
    const auto other = endpoint.open();
    CHECK(producer.send("over a second connection").created());
  }
  CHECK(producer.send("over the first one").created());
  CHECK(proxy.counts().links == 2);
  const Frozen frozen(old);
  proxy.retarget(next.socket());
  CHECK(has(thrown([&] { producer.send("x"); }), "ConnectionError: "));
  CHECK(producer.send("x").created());
  CHECK(proxy.counts().links == 3);
  CHECK(Inspector(next.url(), "q").counts().ready == 1);
}

// One exception object in several threads is shared state: one of them may change it, or read it while another one
// destroys it.
TEST_CASE("connections: callers that share a failed connect get an exception object each") {
  test::ScriptedServer silent([](const std::vector<std::string>&) { return ""; });
  const std::string url = "redis://" + silent.host();
  ClientOptions inspects;
  ClientOptions sends;
  inspects.connect_timeout = sends.connect_timeout = std::chrono::milliseconds(500);
  Inspector inspector({url, inspects}, "q");
  Producer producer({url, sends}, "q");
  std::mutex mutex;  // guards the next two
  std::vector<std::exception_ptr> kept;
  std::set<const void*> objects;
  const auto call = [&](auto function) {
    try {
      function();
    } catch (const ConnectionError& e) {
      const std::lock_guard lock(mutex);
      kept.push_back(std::current_exception());  // so that no address is used twice
      objects.insert(&e);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { call([&] { static_cast<void>(inspector.counts()); }); });
    threads.emplace_back([&] { call([&] { producer.send("x"); }); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(kept.size() == 16);
  CHECK(objects.size() == 16);
}

TEST_CASE("connections: a static Producer may be the last user of a connection, at the end of the process") {
  static Producer lasting(client_named(fresh_queue()), fresh_queue());
  CHECK(lasting.send("x").created());
}

}  // namespace
}  // namespace delayqueue
