// A failure that lasts floods neither the log nor the server, also if attempts succeed for a moment each.
#include "support/test.h"

#include "support/answers.h"
#include "support/local.h"
#include "support/proxy.h"
#include "support/tls_files.h"

namespace delayqueue {
namespace {

using test::FaultProxy;
using test::Lines;
using test::World;

constexpr std::chrono::seconds kSpan{3};

// What fails, from begin() on. repeat() is called every few milliseconds, if there is one.
struct Failure {
  std::string name;
  std::function<void(World&, FaultProxy&, const std::vector<std::string>& bases)> begin;
  std::function<void(World&, FaultProxy&)> repeat = nullptr;
  milliseconds every = 20ms;
  bool reports = true;  // false: the consumer goes on without what is refused
};

void set_rules(World& world, const std::vector<std::string>& rules) {
  std::vector<std::string> words = {"ACL", "SETUSER", "worker"};
  words.insert(words.end(), rules.begin(), rules.end());
  REQUIRE(world.admin.cmd(words) == "OK");
}

void nothing(World& /*world*/, FaultProxy& /*proxy*/, const std::vector<std::string>& /*bases*/) {}

Failure revoked(const std::string& rule, bool reports = true) {
  return {"NOPERM " + rule, [rule](World& world, FaultProxy&, const auto&) { set_rules(world, {rule}); }, nullptr, 20ms,
          reports};
}

Failure setting(const std::string& option, const std::string& value) {
  return {option, [=](World& world, FaultProxy&, const auto&) {
            test::set_config(world.admin, option, value);
            world.end_connections();
          }};
}

Failure links_of(milliseconds life) {
  return {"links of " + std::to_string(life.count()) + " ms", nothing, [](World&, FaultProxy& proxy) { proxy.cut(); },
          life};
}

std::vector<Failure> all_failures() {
  return {
      revoked("-evalsha"),
      revoked("-unlink", false),
      revoked("-bzpopmin", false),
      revoked("-zpopmin", false),
      revoked("-hrandfield", false),
      revoked("-@all"),
      setting("min-replicas-to-write", "1"),
      setting("maxclients", "1"),
      setting("maxmemory", "1"),
      {"WRONGTYPE",
       [](World& world, FaultProxy&, const auto& bases) {
         for (const std::string& base : bases) {
           world.admin.cmd({"DEL", base + ":retry"});
           world.admin.cmd({"SET", base + ":retry", "text"});
         }
       }},
      {"READONLY",
       [](World& world, FaultProxy&, const auto&) {
         REQUIRE(world.admin.cmd({"REPLICAOF", "127.0.0.1", "1"}) == "OK");
       }},
      {"WRONGPASS",
       [](World& world, FaultProxy&, const auto&) {
         set_rules(world, {"resetpass", ">other"});
         world.end_connections();
       }},
      {"nothing listens",
       [](World&, FaultProxy& proxy, const auto&) {
         proxy.refuse(true);
         proxy.cut();
       }},
      {"silence", [](World&, FaultProxy& proxy, const auto&) { proxy.black_hole(true); }},
      {"replies are lost", nothing, [](World&, FaultProxy& proxy) { proxy.drop_replies(1); }, 30ms},
      {"connections are killed", nothing, [](World& world, FaultProxy&) { world.end_connections(); }, 20ms},
      links_of(30ms),
      links_of(500ms),
  };
}

TEST_CASE("lasting failures: few lines in the log and few connections, with one queue, several, and partitions") {
  for (const Failure& failure : all_failures()) {
    CAPTURE(failure.name);
    World world;
    FaultProxy proxy(world.server.socket(), FaultProxy::Via::unix_socket);
    std::deque<Queue> queues;
    for (int i = 0; i < 5; ++i) queues.emplace_back(world.server.url());
    queues.back().admin.set_partitions(8);
    std::deque<Lines> lines(3);
    std::vector<test::ConsumerPtr> consumers;
    const auto options = [&](Lines& log) {
      ConsumerOptions all = quick(4);
      all.logger = log.logger();
      return all;
    };
    ClientOptions client_options = test::logged_in_as("worker", "pw");
    client_options.connect_timeout = client_options.command_timeout = 500ms;
    const Client at("unix://" + proxy.address(), client_options);
    const Handler handler = [](const Message&) { return ack(); };
    consumers.emplace_back(new Consumer(at, queues[0].name, handler, options(lines[0])));
    consumers.emplace_back(new Consumer(
        at, {{queues[1].name, handler}, {queues[2].name, handler}, {queues[3].name, handler}}, options(lines[1])));
    consumers.emplace_back(new Consumer(at, queues[4].name, handler, options(lines[2])));
    for (const auto& consumer : consumers) consumer->start();
    for (Queue& queue : queues) queue.producer.send_batch(std::vector<std::string>(20, "x"));
    for (Queue& queue : queues) REQUIRE(eventually([&] { return queue.inspector.counts().ready == 0; }, kPatience));
    SendOptions soon;
    soon.delay = 200ms;  // so that there is something to move
    for (Queue& queue : queues) queue.producer.send_batch(std::vector<std::string>(20, "y"), soon);
    std::vector<std::size_t> before;
    std::vector<std::uint64_t> connects;
    for (const Lines& log : lines) before.push_back(log.count(Severity::info));
    for (const auto& consumer : consumers) connects.push_back(consumer->metrics().stats.connects);

    std::vector<std::string> bases;
    for (const Queue& queue : queues) bases.push_back(queue.base);
    failure.begin(world, proxy, bases);
    const auto end = std::chrono::steady_clock::now() + kSpan;
    while (std::chrono::steady_clock::now() < end) {
      if (failure.repeat) failure.repeat(world, proxy);
      std::this_thread::sleep_for(failure.every);
    }
    for (std::size_t i = 0; i < consumers.size(); ++i) {
      CAPTURE(i);
      CHECK(lines[i].count(Severity::info) - before[i] <= 10);
      CHECK(consumers[i]->metrics().stats.connects - connects[i] <= 12);
      if (failure.reports) CHECK(lines[i].count() >= 1);
      if (failure.reports) CHECK(consumers[i]->metrics().stats.errors >= 1);
    }
    proxy.cut();
    for (const auto& consumer : consumers) consumer->request_stop();
  }
}

// Waits for the span, and counts what the consumer has logged and how often it has connected.
void check_calm(const Consumer& consumer, const Lines& lines, const std::string& error) {
  const std::size_t before = lines.count(Severity::info);
  const std::uint64_t connects = consumer.metrics().stats.connects;
  std::this_thread::sleep_for(kSpan);
  CHECK_MESSAGE(has(consumer.metrics().stats.last_error, error), consumer.metrics().stats.last_error);
  CHECK(lines.count(Severity::info) - before <= 10);
  CHECK(lines.count() >= 1);
  CHECK(consumer.metrics().stats.connects - connects <= 12);
}

TEST_CASE("lasting failures: a server that loads its data, and a certificate that has expired, are few lines, too") {
  const Handler handler = [](const Message&) { return ack(); };
  ConsumerOptions options = quick(4);
  {
    World world({"--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"});
    test::add_keys_to_load(world);
    Lines lines;
    options.logger = lines.logger();
    Consumer consumer(world.url(), "orders", handler, options);
    consumer.start();
    REQUIRE(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
    std::thread restart([&] { world.server.restart(); });  // loads for 8 s
    CHECK(eventually([&] { return has(consumer.metrics().stats.last_error, "LOADING"); }, kPatience));
    check_calm(consumer, lines, "LOADING");
    restart.join();
    CHECK(consumer.stop());
  }
  const test::Port port;
  const PrivateServer server = test::server_with(test::serving(port));
  const test::TlsFiles& files = test::TlsFiles::shared();
  Lines lines;
  options.logger = lines.logger();
  const Client client("rediss://127.0.0.1:" + std::to_string(port.number()),
                      with(&ClientOptions::tls, test::trusting(files.ca)));
  Consumer consumer(client, "orders", handler, options);
  consumer.start();
  REQUIRE(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
  test::Redis admin(server.socket());
  REQUIRE(admin.cmd({"CONFIG", "SET", "tls-cert-file", files.expired.cert, "tls-key-file", files.expired.key}) == "OK");
  admin.cmd({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  CHECK(eventually([&] { return has(consumer.metrics().stats.last_error, "expired"); }, kPatience));
  check_calm(consumer, lines, "expired");
  CHECK(consumer.stop());
}

TEST_CASE("lasting failures: an outage that costs hundreds of leases is not a line for each") {
  FaultProxy proxy(test::server().socket(), FaultProxy::Via::unix_socket);
  Queue queue;
  Lines lines;
  test::Gate gate;
  ClientOptions client_options;
  ConsumerOptions options = quick(100);
  options.lease = 500ms;
  client_options.command_timeout = 300ms;
  options.logger = lines.logger();
  const Handler waits = [&](const Message&) {
    gate.pass();
    return ack();
  };
  const test::ConsumerPtr consumer(new Consumer({proxy.url(), client_options}, queue.name, waits, options));
  consumer->start();
  queue.producer.send_batch(std::vector<std::string>(100, "x"));
  REQUIRE(eventually([&] { return queue.inspector.counts().unack == 100; }, kPatience));
  proxy.refuse(true);
  proxy.cut();
  const auto other = queue.consumer([](const Message&) { return ack(); }, quick(4));
  other->start();
  REQUIRE(eventually([&] { return other->metrics().stats.acked == 100; }, kPatience));
  proxy.refuse(false);
  CHECK(eventually([&] { return consumer->metrics().queues.front().leases_lost == 100; }, kPatience));
  CHECK(lines.count(Severity::warning, "lost the lease of") == 1);
  CHECK(lines.count() <= 5);
  gate.open();
}

TEST_CASE("lasting failures: hundreds of deliveries beyond processing_timeout are not a line for each") {
  Queue queue;
  Lines lines;
  std::mutex mutex;
  std::vector<Delivery> kept;
  ConsumerOptions options = quick(100);
  options.processing_timeout = 200ms;
  options.logger = lines.logger();
  const Handler keeps = [&](Delivery delivery) {
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(delivery));
  };
  const test::ConsumerPtr consumer(new Consumer(test::server().url(), queue.name, keeps, options));
  consumer->start();
  queue.producer.send_batch(std::vector<std::string>(100, "x"));
  CHECK(eventually([&] { return consumer->metrics().queues.front().leases_lost >= 100; }, kPatience));
  CHECK(lines.count(Severity::warning, "takes longer than processing_timeout") == 1);
  CHECK(lines.count() <= 5);
  const std::lock_guard lock(mutex);
  kept.clear();
}

TEST_CASE("lasting failures: events that cannot be published are one warning of the producer, not one for each send") {
  World world;
  Lines lines;
  ProducerOptions options;
  options.logger = lines.logger();
  Producer producer({world.url(), test::reporting_events()}, test::fresh_queue(), options);
  set_rules(world, {"resetchannels"});
  for (int i = 0; i < 20; ++i) producer.send("x");
  CHECK(lines.count(Severity::warning, "cannot publish an event") == 1);
}

}  // namespace
}  // namespace delayqueue
