// A consumer that cannot reach Redis uses almost no CPU.
#include "support/test.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "support/answers.h"
#include "support/local.h"
#include "support/raw_server.h"
#include "support/sanitized.h"

namespace delayqueue {
namespace {

using test::World;

// CPU time of this process. The test itself sleeps, and the server is another process.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

constexpr double kMost = TEST_SANITIZED ? 0.10 : 0.01;

// The share of a core that this process uses during 2 s.
double share_of_a_core() {
  constexpr std::chrono::duration<double> kSpan{2};
  const double before = cpu_seconds();
  std::this_thread::sleep_for(kSpan);
  return (cpu_seconds() - before) / kSpan.count();
}

ConsumerOptions usual() { return with(&ConsumerOptions::concurrency, 4); }

void check_idle(const std::string& what, const Consumer& consumer) {
  REQUIRE(eventually([&] { return consumer.metrics().stats.errors >= 2; }, kPatience));
  const double share = share_of_a_core();
  MESSAGE(what << ": " << 100 * share << "% of a core");
  CHECK(share < kMost);
  CHECK(!consumer.metrics().stats.connected);
}

Verdict acks(const Message&) { return ack(); }

TEST_CASE("no spin: a port that refuses connections") {
  const test::Port closed_port;
  const std::string url = "redis://127.0.0.1:" + std::to_string(closed_port.number());
  Consumer consumer(url, "orders", acks, usual());
  consumer.start();
  check_idle("refused", consumer);
  CHECK(consumer.stop());
}

TEST_CASE("no spin: a server that accepts connections and never answers") {
  const int fd = test::listen_on_loopback();
  const Client client("redis://127.0.0.1:" + std::to_string(test::port_of(fd)),
                      with(&ClientOptions::connect_timeout, 500ms));
  Consumer consumer(client, "orders", acks, usual());
  consumer.start();
  check_idle("black hole", consumer);
  CHECK(consumer.stop());
  ::close(fd);
}

TEST_CASE("no spin: a server that freezes while a consumer runs") {
  World world;
  Consumer consumer({world.url(), test::with_timeouts(500ms)}, "orders", acks, usual());
  consumer.start();
  REQUIRE(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
  ::kill(world.server.pid(), SIGSTOP);
  check_idle("frozen", consumer);
  ::kill(world.server.pid(), SIGCONT);
  CHECK(consumer.stop());
}

TEST_CASE("no spin: a server that closes every connection at once") {
  test::Listener closing([](int) {});
  Consumer consumer("redis://" + closing.address().text(), "orders", acks, usual());
  consumer.start();
  check_idle("hangs up", consumer);
  CHECK(consumer.stop());
}

// Breaks the server while a consumer runs four handlers.
void check_broken(const std::string& what, const std::function<void(World&)>& break_server) {
  World world;
  const std::string name = test::fresh_queue();
  Producer(world.url(), name).send_batch(test::numbers(20));
  Gate gate;
  Ledger ledger;
  Consumer consumer(world.url(), name, ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }),
                    usual());
  consumer.start();
  REQUIRE(eventually([&] { return ledger.running() == 4 && consumer.metrics().stats.connected; }, kPatience));
  break_server(world);
  gate.open();
  check_idle(what, consumer);
  world.server.restart();  // without the fault
  CHECK(eventually([&] { return consumer.metrics().stats.acked == 20; }, kPatience));
  CHECK(consumer.stop());
}

TEST_CASE("no spin: a server that answers with errors") {
  check_broken("NOAUTH", [](World& world) {
    world.admin.cmd({"ACL", "SETUSER", "worker", "resetpass", ">other"});
    world.end_connections();
  });
  check_broken("NOPERM of all scripts", [](World& world) {
    world.admin.cmd({"ACL", "SETUSER", "worker", "-evalsha"});
  });
  check_broken("NOPERM of an ack", [](World& world) { world.admin.cmd({"ACL", "SETUSER", "worker", "-unlink"}); });
  check_broken("READONLY", [](World& world) { world.admin.cmd({"REPLICAOF", "127.0.0.1", "1"}); });
  check_broken("NOREPLICAS", [](World& world) { world.admin.cmd({"CONFIG", "SET", "min-replicas-to-write", "1"}); });
}

TEST_CASE("no spin: a server that loads its data") {
  World world({"--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"});
  test::add_keys_to_load(world);
  Consumer consumer(world.url(), "orders", acks, usual());
  consumer.start();
  REQUIRE(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
  std::thread restart([&] { world.server.restart(); });  // loads for 8 s
  REQUIRE(eventually([&] { return test::has(consumer.metrics().stats.last_error, "LOADING"); }, kPatience));
  check_idle("LOADING", consumer);
  CHECK(test::has(consumer.metrics().stats.last_error, "LOADING"));
  restart.join();
  CHECK(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
  CHECK(consumer.stop());
}

TEST_CASE("no spin: handlers that return during an outage do not make the consumer reconnect sooner") {
  World world;
  const std::string name = test::fresh_queue();
  Producer(world.url(), name).send_batch(test::numbers(100));
  Ledger ledger;
  std::vector<Gate> gates(100);
  ConsumerOptions options = test::quick(100);
  Consumer consumer(world.url(), name, ledger.watch([&](const Message& message) {
    gates[static_cast<std::size_t>(std::stoi(message.payload()))].pass();
    return ack();
  }),
                    options);
  consumer.start();
  REQUIRE(eventually([&] { return ledger.running() == 100; }, kPatience));
  world.server.stop();
  REQUIRE(eventually([&] { return consumer.metrics().stats.errors >= 6; }, kPatience));  // pauses are now 0.5 to 1 s
  const auto before = consumer.metrics().stats.errors;
  for (std::size_t i = 0; i < gates.size(); ++i) {
    gates[i].open();
    REQUIRE(ledger.settles(i + 1));
  }
  CHECK(ledger.settles(100));
  CHECK(consumer.metrics().stats.errors - before < 40);
  world.server.restart();
  CHECK(eventually([&] { return consumer.metrics().stats.acked == 100; }, kPatience));
  CHECK(ledger.size() == 100);
  CHECK(consumer.stop());
}

}  // namespace
}  // namespace delayqueue
