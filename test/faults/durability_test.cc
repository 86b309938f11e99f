// Durability, with real replicas: when a call returns, its writes are on as many replicas, or on disk, as configured.
#include "support/test.h"

#include <unistd.h>

#include "store/record.h"
#include "support/process.h"

using namespace delayqueue;
using test::server_with;

namespace {

// A master that listens on loopback, because replicas connect by TCP only, and a replica that can be linked to it.
struct Pair {
  Pair() {
    Redis to(master.socket());
    port = to.cmd({"CONFIG", "GET", "port"}).array.at(1).text;
  }

  void link() {
    Redis to(replica.socket());
    to.cmd({"REPLICAOF", "127.0.0.1", port});
    REQUIRE(eventually([&] { return test::info("replication", "master_link_status", to) == "up"; }));
  }

  void unlink() {
    Redis to(replica.socket());
    to.cmd({"REPLICAOF", "NO", "ONE"});
    Redis of(master.socket());
    REQUIRE(eventually([&] { return test::info("replication", "connected_slaves", of) == "0"; }));
  }

  static PrivateServer on_free_port() {
    for (int tries = 0;; ++tries) {
      const int port = 20000 + (static_cast<int>(::getpid()) * 7 + tries * 131) % 20000;
      try {
        return server_with({"--port", std::to_string(port), "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"});
      } catch (const std::runtime_error&) {
        if (tries == 20) throw;
      }
    }
  }

  PrivateServer master = on_free_port();
  PrivateServer replica = server_with({"--repl-diskless-sync-delay", "0"});
  std::string port;
};

ProducerOptions sends(Durability durability) {
  ProducerOptions options = one_attempt();
  options.durability = durability;
  return options;
}

// A replica that stays connected, and confirms nothing.
class StoppedReplica {
 public:
  explicit StoppedReplica(const Pair& servers) : pid_(test::server_pid(servers.replica.socket())) {
    ::kill(pid_, SIGSTOP);
  }
  ~StoppedReplica() { ::kill(pid_, SIGCONT); }
  StoppedReplica(const StoppedReplica&) = delete;
  StoppedReplica& operator=(const StoppedReplica&) = delete;

 private:
  const int pid_;
};

bool can_wait_for_disk() { return !test::redis().cmd({"COMMAND", "INFO", "WAITAOF"}).array.at(0).nil(); }

}  // namespace

TEST_CASE("durability: a send that no replica has is an error with its id, and a repeated send waits again") {
  Pair servers;
  const std::string queue = fresh_queue();
  Producer producer(servers.master.url(), queue, sends(Durability::replicas(1, 50ms)));
  SendOptions options;
  try {
    producer.send("money", options);
    FAIL("no replica is there");
  } catch (const ConnectionError& e) {
    CHECK(std::string(e.what()).find("only 0 of 1 replicas have it within 50 ms") != std::string::npos);
    options.id = e.ids().at(0);
  }
  CHECK(thrown([&] { producer.send("money", options); }).find("only 0 of 1") != std::string::npos);
  servers.link();
  Producer patient(servers.master.url(), queue, sends(Durability::replicas(1, 10s)));
  CHECK_FALSE(patient.send("money", options).created());
  CHECK(Inspector(servers.master.url(), queue).counts().ready == 1);
}

// Since Redis 7.2 a connection that has written nothing need not wait.
TEST_CASE("durability: calls that write nothing wait until a replica has what was written over another connection") {
  Pair servers;
  servers.link();
  const std::string url = servers.master.url(), queue = fresh_queue();
  const Durability brief = Durability::replicas(1, 50ms);
  const Durability patient = Durability::replicas(1, 10s);
  CHECK(Producer(url, queue, sends(patient)).send("x").created());
  SendOptions again;
  {
    const StoppedReplica stopped(servers);
    try {
      Producer(url, queue, sends(brief)).send("money");
      FAIL("the replica does not run");
    } catch (const ConnectionError& e) {
      again.id = e.ids().at(0);
    }
    const auto repeat = [&] { Producer(url, queue, sends(brief)).send("money", again); };
    CHECK(thrown(repeat).find("only 0 of 1 replicas") != std::string::npos);
    CHECK(Producer(url, queue, sends({})).cancel(again.id) == State::ready);
    const auto cancel = [&] { return Producer(url, queue, sends(brief)).cancel(again.id); };
    CHECK(thrown(cancel).find("only 0 of 1 replicas") != std::string::npos);
    const auto reschedule = [&] { return Producer(url, queue, sends(brief)).reschedule(again.id, {1h, {}}); };
    CHECK(thrown(reschedule).find("only 0 of 1 replicas") != std::string::npos);
  }
  CHECK(Producer(url, queue, sends(patient)).cancel(again.id) == State::unknown);
  CHECK(Producer(url, queue, sends(patient)).send("money", again).created());
  CHECK_FALSE(Producer(url, queue, sends(patient)).send("money", again).created());
}

TEST_CASE("durability: a send whose id is new costs no write more, one that may find its message costs one") {
  Pair servers;
  servers.link();
  const std::string queue = fresh_queue();
  Redis master(servers.master.socket());
  Producer plain(servers.master.url(), queue);
  Producer durable(servers.master.url(), queue, sends(Durability::replicas(1, 10s)));
  const auto writes = [&](Producer& producer, const SendOptions& options) {
    const std::size_t before = test::calls_of("hincrby", master);
    producer.send("x", options);
    return test::calls_of("hincrby", master) - before;
  };
  auto known = with(&SendOptions::id, store::new_ids(1).front());
  plain.send("loads the script", known);  // which is then not sent again, with the write that follows it
  known.id = store::new_ids(1).front();
  CHECK(writes(plain, {}) == 1);  // the total of sent messages
  CHECK(writes(durable, {}) == 1);
  CHECK(writes(durable, known) == 2);
  CHECK(writes(plain, known) == 0);
  CHECK(writes(durable, known) == 1);
}

TEST_CASE("durability: a send of a large payload also waits until a replica has it") {
  Pair servers;
  const std::string queue = fresh_queue();
  const std::string large(100'000, 'x');
  servers.link();
  Producer producer(servers.master.url(), queue, sends(Durability::replicas(1, 5s)));
  CHECK(producer.send(large).created());
  servers.unlink();
  SendOptions again;
  try {
    producer.send(large);
    FAIL("no replica is there");
  } catch (const ConnectionError& e) {
    CHECK(std::string(e.what()).find("only 0 of 1 replicas have it within 5000 ms") != std::string::npos);
    again.id = e.ids().at(0);
  }
  CHECK(Inspector(servers.master.url(), queue).counts().ready == 2);
  servers.link();
  Producer patient(servers.master.url(), queue, sends(Durability::replicas(1, 10s)));
  CHECK_FALSE(patient.send(large, again).created());
  const std::string id = patient.send(large).id;
  servers.master.kill();
  Redis(servers.replica.socket()).cmd({"REPLICAOF", "NO", "ONE"});
  CHECK((Inspector(servers.replica.url(), queue).find(id)->payload == large));
  CHECK(Inspector(servers.replica.url(), queue).counts().ready == 3);
}

TEST_CASE("durability: a send that returned under replicas(1) survives the loss of the master") {
  Pair servers;
  servers.link();
  const std::string queue = fresh_queue();
  std::vector<std::string> payloads = test::numbers(700);
  {
    Producer producer(servers.master.url(), queue, sends(Durability::replicas(1, 10s)));
    CHECK(producer.send_batch(payloads).size() == 700);
    const std::string cancelled = producer.send("cancelled", {1h, {}, {}, {}, {}}).id;
    CHECK(producer.cancel(cancelled) == State::pending);
    servers.master.kill();
  }
  Redis(servers.replica.socket()).cmd({"REPLICAOF", "NO", "ONE"});
  const Counts counts = Inspector(servers.replica.url(), queue).counts();
  CHECK(counts.ready == 700);
  CHECK(counts.pending == 0);
}

TEST_CASE("durability: cancel and reschedule are as durable as sends") {
  Pair servers;
  const std::string queue = fresh_queue();
  const std::string id = Producer(servers.master.url(), queue).send("x", {1h, {}, {}, {}, {}}).id;
  Producer producer(servers.master.url(), queue, sends(Durability::replicas(1, 20ms)));
  CHECK(thrown([&] { return producer.reschedule(id, {2h, {}}); }).find("only 0 of 1 replicas") != std::string::npos);
  CHECK(thrown([&] { return producer.cancel(id); }).find("only 0 of 1 replicas") != std::string::npos);
}

TEST_CASE("durability: with full memory, cancel and reschedule are confirmed if they write; if not, it is an error") {
  Pair servers;
  servers.link();
  const std::string queue = fresh_queue();
  Producer producer(servers.master.url(), queue, sends(Durability::replicas(1, 10s)));
  const std::string id = producer.send("x", {1h, {}, {}, {}, {}}).id;
  Redis(servers.master.socket()).cmd({"CONFIG", "SET", "maxmemory", "1"});
  CHECK(thrown([&] { producer.send("y"); }).find("OOM") != std::string::npos);
  CHECK(producer.reschedule(id, {2h, {}}) == Outcome::done);
  CHECK(producer.cancel(id) == State::pending);
  CHECK(thrown([&] { return producer.cancel(id); }).find("ConnectionError: done at ") == 0);
}

TEST_CASE("durability: a consumer logs when its verdicts are not as durable as configured, and continues") {
  Pair servers;
  const std::string queue = fresh_queue();
  test::Ledger ledger;
  std::mutex mutex;
  std::vector<std::string> lines;
  ConsumerOptions options = test::quick();
  options.durability = Durability::replicas(1, 2s);  // the consumer waits this long once, and then no more
  options.logger = [&](const LogEntry& entry) {
    const std::lock_guard lock(mutex);
    lines.push_back(entry.line);
  };
  const auto logged = [&](const std::string& part) {
    const std::lock_guard lock(mutex);
    return std::count_if(lines.begin(), lines.end(),
                         [&](const std::string& line) { return line.find(part) != std::string::npos; });
  };
  Producer producer(servers.master.url(), queue);
  Consumer consumer(servers.master.url(), queue, ledger.watch(), options);
  consumer.start();
  const auto began = std::chrono::steady_clock::now();
  producer.send_batch(test::numbers(20));
  REQUIRE(eventually([&] { return consumer.metrics().stats.acked == 20; }, kPatience));
  CHECK(std::chrono::steady_clock::now() - began < 20s);
  CHECK(eventually([&] { return consumer.metrics().stats.unconfirmed == 20; }, kPatience));
  CHECK(logged("not as durable as asked for: only 0 of 1 replicas") == 1);

  servers.link();
  // The consumer waits for 10 ms only, which the replica may need longer at times.
  std::size_t sent = 20;
  REQUIRE(eventually(
      [&] {
        producer.send(std::to_string(sent++));
        return logged("as durable as asked for again") == 1;
      },
      kPatience));
  CHECK(eventually([&] { return ledger.different() == sent; }, kPatience));
}

TEST_CASE("durability: while a consumer waits for a replica it goes on with all its queues") {
  Pair servers;
  const std::string first = fresh_queue(), second = fresh_queue();
  test::Ledger ledger;
  ConsumerOptions options = test::quick();
  options.lease = 60s;
  options.durability = Durability::replicas(1, 10s);
  options.logger = no_log();
  Consumer consumer(servers.master.url(), {{first, ledger.watch()}, {second, ledger.watch()}}, options);
  consumer.start();
  const auto began = std::chrono::steady_clock::now();
  Producer(servers.master.url(), first).send("a");
  REQUIRE(eventually([&] { return test::stats_of(consumer, first).acked == 1; }, kPatience));
  for (const std::string& queue : {first, second}) Producer(servers.master.url(), queue).send("b");
  CHECK(eventually([&] { return consumer.metrics().stats.acked == 3; }, kPatience));
  CHECK(consumer.metrics().stats.unconfirmed == 0);
  CHECK(std::chrono::steady_clock::now() - began < 10s);
  CHECK(eventually([&] { return consumer.metrics().stats.unconfirmed == 3; }, kPatience));
}

TEST_CASE("durability: stop() waits until the last verdicts are confirmed, or not in time") {
  Pair servers;
  const std::string queue = fresh_queue();
  test::Ledger ledger;
  ConsumerOptions options = test::quick();
  options.lease = 60s;
  options.durability = Durability::replicas(1, 1s);
  options.logger = no_log();
  Consumer consumer(servers.master.url(), queue, ledger.watch(), options);
  consumer.start();
  Producer(servers.master.url(), queue).send("x");
  REQUIRE(eventually([&] { return consumer.metrics().stats.acked == 1; }, kPatience));
  CHECK(consumer.stop(kPatience));
  CHECK(consumer.metrics().stats.unconfirmed == 1);
}

TEST_CASE("durability: a verdict whose connection is lost before a replica has it is counted as not confirmed") {
  Pair servers;
  const std::string queue = fresh_queue();
  test::Ledger ledger;
  ClientOptions client_options;
  ConsumerOptions options = test::quick();
  options.lease = 60s;
  options.durability = Durability::replicas(1, 20s);
  client_options.client_name = queue;
  options.logger = no_log();
  Consumer consumer({servers.master.url(), client_options}, queue, ledger.watch(), options);
  consumer.start();
  Producer(servers.master.url(), queue).send("x");
  REQUIRE(eventually([&] { return consumer.metrics().stats.acked == 1; }, kPatience));
  Redis to(servers.master.socket());
  REQUIRE(eventually([&] { return test::connections_named(queue, to).size() >= 2; }, kPatience));
  CHECK(test::cut_connections(queue, to) >= 2);
  CHECK(eventually([&] { return consumer.metrics().stats.unconfirmed == 1; }, kPatience));
  CHECK(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
}

TEST_CASE("durability: the timeout of a consumer must be at most a third of the lease") {
  ConsumerOptions options = test::quick();
  options.lease = 3s;
  options.durability = Durability::replicas(1, 1001ms);
  const auto consumer = [&] {
    Consumer(
        test::server().url(), "q", [](const Message&) { return ack(); }, options);
  };
  CHECK(thrown(consumer).find("durability.timeout: 1001 ms; expected at most a third of the lease") !=
        std::string::npos);
  options.durability = Durability::replicas(1, 1000ms);
  CHECK(thrown(consumer) == "nothing");
}

TEST_CASE("durability: disk() is refused before anything is written if the server does not support it") {
  const std::string queue = fresh_queue();
  if (can_wait_for_disk()) {
    PrivateServer without = server_with({"--appendonly", "no"});
    const std::string text = thrown([&] { Producer(without.url(), queue, sends(Durability::disk())).send("x"); });
    CHECK(text.find("ReplyError") != std::string::npos);
    CHECK(text.find("set appendonly yes") != std::string::npos);
    CHECK(Inspector(without.url(), queue).counts().ready == 0);
    return;
  }
  const std::string text = thrown([&] { Producer(test::server().url(), queue, sends(Durability::disk())).send("x"); });
  CHECK(text.find("ReplyError") != std::string::npos);
  CHECK(text.find("needs Redis 7.2 or later") != std::string::npos);
  CHECK(Inspector(test::server().url(), queue).counts().ready == 0);
  CHECK(thrown([&] {
          ConsumerOptions options = test::quick();
          options.durability = Durability::disk();
          Consumer(
              test::server().url(), queue, [](const Message&) { return ack(); }, options)
              .start();
        }).find("needs Redis 7.2 or later") != std::string::npos);
}

TEST_CASE("durability: disk() returns when the server has the message on its disk") {
  if (!can_wait_for_disk()) {
    MESSAGE("skipped: this server has no WAITAOF; run with Redis 7.2 or later");
    return;
  }
  PrivateServer server = server_with({"--appendfsync", "always"});
  const std::string queue = fresh_queue();
  Producer producer(server.url(), queue, sends(Durability::disk(10s)));
  CHECK(producer.send_batch(test::numbers(300)).size() == 300);
  server.kill();
  server.restart();
  CHECK(Inspector(server.url(), queue).counts().ready == 300);
}
