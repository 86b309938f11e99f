// Every error that a server may answer, provoked on a real server under a consumer, a producer and an inspector. Errors
// of passwords and ACL rules are in answers_config_test.cc.
#include "support/test.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/answers.h"
#include "support/raw_server.h"

namespace delayqueue {
namespace {

using test::Lines;
using test::see_through;
using test::set_config;
using test::World;

TEST_CASE("READONLY: a master that becomes a replica") {
  World world;
  see_through({"READONLY", "ConnectionError", "READONLY", "the server is a replica; use its master",
               [](World& w) {
                 REQUIRE(w.admin.cmd({"REPLICAOF", "127.0.0.1", "1"}) == "OK");
               },
               [](World& w) {
                 REQUIRE(w.admin.cmd({"REPLICAOF", "NO", "ONE"}) == "OK");
               },
               false},
              world);
}

TEST_CASE("MASTERDOWN: a replica that lost its master and is configured not to serve stale data") {
  World world({"--replica-serve-stale-data", "no"});
  see_through({"MASTERDOWN", "ConnectionError", "MASTERDOWN", "the server is a replica that lost its master",
               [](World& w) {
                 REQUIRE(w.admin.cmd({"REPLICAOF", "127.0.0.1", "1"}) == "OK");
               },
               [](World& w) {
                 REQUIRE(w.admin.cmd({"REPLICAOF", "NO", "ONE"}) == "OK");
               }},
              world);
}

TEST_CASE("NOREPLICAS: a master with fewer replicas than min-replicas-to-write") {
  World world;
  see_through({"NOREPLICAS", "ReplyError", "NOREPLICAS", "connect replicas, or lower min-replicas-to-write",
               [](World& w) { set_config(w.admin, "min-replicas-to-write", "1"); },
               [](World& w) { set_config(w.admin, "min-replicas-to-write", "0"); }, false},
              world);
}

// Saves in the background, and waits for the expected outcome.
void save(World& world, const std::string& outcome) {
  world.admin.cmd({"BGSAVE"});
  const auto saved = [&] { return test::info("persistence", "rdb_last_bgsave_status", world.admin) == outcome; };
  REQUIRE(eventually(saved, kPatience));
}

TEST_CASE("MISCONF: a master that cannot save to its disk") {
  World world;
  const std::string in_the_way = world.admin.cmd({"CONFIG", "GET", "dir"}).array.at(1).text + "/dump.rdb";
  see_through({"MISCONF", "ReplyError", "MISCONF", "free space on its disk or repair its folder",
               [&](World& w) {
                 set_config(w.admin, "save", "3600 1");
                 std::filesystem::create_directories(in_the_way + "/full");
                 save(w, "err");
               },
               [&](World& w) {
                 std::filesystem::remove_all(in_the_way);
                 save(w, "ok");
               },
               false},
              world);
}

TEST_CASE("BUSY: another client's endless script") {
  World world({"--lua-time-limit", "1"});
  std::thread script;
  see_through({"BUSY", "ConnectionError", "BUSY", "end it with SCRIPT KILL",
               [&](World& w) {
                 script = std::thread([socket = w.server.socket()] {
                   try {
                     Redis(socket).cmd({"EVAL", "while true do end", "0"});
                   } catch (const std::exception&) {  // the test's client waits for 10 s only
                   }
                 });
                 REQUIRE(eventually([&] { return test::has(w.admin.cmd({"PING"}).text, "BUSY"); }));
               },
               [&](World& w) {
                 REQUIRE(w.admin.cmd({"SCRIPT", "KILL"}) == "OK");
                 script.join();
               }},
              world);
}

TEST_CASE("LOADING: a server that reads its data after a restart") {
  World world({"--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"});
  std::thread restart;
  see_through({"LOADING", "ConnectionError", "LOADING", "wait until it has read its data",
               [&](World& w) {
                 const std::string fill =
                     "for i = 1, 4000 do redis.call('SET', 'other:' .. i, string.rep('x', 100)) end";
                 w.admin.cmd({"EVAL", fill, "0"});
                 w.admin.cmd({"BGREWRITEAOF"});
                 REQUIRE(eventually([&] { return test::info("persistence", "aof_rewrites", w.admin) != "0"; }));
                 const auto written = [&] {
                   return test::info("persistence", "aof_rewrite_in_progress", w.admin) == "0" &&
                          test::info("persistence", "aof_rewrite_scheduled", w.admin) == "0";
                 };
                 REQUIRE(eventually(written, kPatience));
                 restart = std::thread([&w] { w.server.restart(); });
                 REQUIRE(eventually([&]() -> bool {
                   try {
                     return test::has(Redis(w.server.socket()).cmd({"GET", "x"}).text, "LOADING");
                   } catch (const std::exception&) {
                     return false;
                   }
                 }));
               },
               [&](World&) { restart.join(); }},
              world);
}

TEST_CASE("max clients: a server that accepts no more clients") {
  World world;
  see_through({"max clients", "ConnectionError", "max number of clients reached", "raise maxclients",
               [](World& w) {
                 set_config(w.admin, "maxclients", "1");
                 w.end_connections();
               },
               [](World& w) { set_config(w.admin, "maxclients", "1000"); }},
              world);
}

TEST_CASE("silence: a server that is stopped, and continues") {
  World world;
  see_through({"silence", "ConnectionError", "no answer from", "it may be stopped, overloaded or unreachable",
               [](World& w) { ::kill(w.server.pid(), SIGSTOP); }, [](World& w) { ::kill(w.server.pid(), SIGCONT); },
               true, true},
              world);
}

TEST_CASE("reset: a server that is killed with unread requests, and is started again") {
  World world({"--appendfsync", "always"});  // the kill must not undo ready2unack
  see_through({"reset", "ConnectionError", "cannot connect to", "refused",
               [](World& w) {
                 ::kill(w.server.pid(), SIGSTOP);
                 std::this_thread::sleep_for(100ms);  // so that the consumer sends a request
                 w.server.kill();
               },
               [](World& w) { w.server.restart(); }},
              world);
}

TEST_CASE("NOSCRIPT: scripts flushed continually, while two consumers and three producers run") {
  World world;
  test::Queue queue(world.url());
  Ledger ledger;
  const auto handler = ledger.watch([](const Message& message) { return test::ack_if(message.attempt() == 2); });
  const auto one = queue.consumer(handler, test::quick(2));
  const auto two = queue.consumer(handler, test::quick(2));
  one->start();
  two->start();
  std::vector<std::thread> senders;
  std::atomic<int> failed{0};
  for (int i = 0; i < 3; ++i) {
    senders.emplace_back([&] {
      Producer producer(world.url(), queue.name);
      for (int n = 0; n < 100; ++n) failed += test::thrown([&] { producer.send_batch(test::numbers(3)); }) != "nothing";
    });
  }
  std::thread flush([&] {
    Redis other(world.server.socket());
    while (ledger.size() < 1700) other.cmd({"SCRIPT", "FLUSH"}), std::this_thread::sleep_for(1ms);
  });
  for (std::thread& sender : senders) sender.join();
  flush.join();
  CHECK(eventually([&] { return queue.empty(world.admin); }, kPatience));
  CHECK(failed == 0);
  CHECK(ledger.size() == 1800);
  CHECK(ledger.different() == 900);
  CHECK(one->metrics().stats.errors + two->metrics().stats.errors == 0);
  CHECK(one->stop());
  CHECK(two->stop());
}

TEST_CASE("EOF: repeatedly killed connections cause no error for callers, and no consumer loses a message") {
  World world;
  test::Queue queue(world.url());
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), test::quick(2));
  consumer->start();
  for (std::size_t round = 1; round <= 10; ++round) {
    world.end_connections();
    CHECK(queue.producer.send("x").created());
    CHECK(queue.inspector.counts().totals.sent == round);
    CHECK(ledger.settles(round));
  }
  CHECK(consumer->metrics().stats.errors >= 1);
  CHECK(consumer->metrics().stats.connects >= 2);
  CHECK(eventually([&] { return queue.empty(world.admin); }, kPatience));
  CHECK(ledger.size() == 10);
  CHECK(consumer->stop());
}

TEST_CASE("garbage: a consumer waits, with pauses, for a server of another protocol until it is a Redis") {
  int port = 0;
  Lines lines;
  Ledger ledger;
  ConsumerOptions options = test::quick();
  options.logger = lines.logger();
  std::unique_ptr<Consumer> consumer;
  const std::string name = test::fresh_queue();
  {
    test::Listener web([](int fd) {
      const std::string answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
      [[maybe_unused]] const auto sent = ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
      ::shutdown(fd, SHUT_WR);
      test::swallow(fd);
    });
    port = web.address().port;
    const std::string url = "redis://" + web.address().text();
    consumer = std::make_unique<Consumer>(url, name, ledger.watch(), options);
    consumer->start();
    CHECK(eventually([&] { return consumer->metrics().stats.errors >= 4; }, kPatience));
    CHECK(consumer->metrics().stats.errors < 50);
    CHECK(test::has(lines.find("does not speak Redis' protocol"), web.address().text()));
    Producer producer(url, name);
    CHECK(
        test::has(test::thrown([&] { producer.send("x"); }), "ConnectionError: the server at " + web.address().text()));
    Inspector inspector(url, name);
    CHECK(test::has(test::thrown([&] { return inspector.counts(); }), "does not speak Redis' protocol"));
  }
  PrivateServerOptions on_port;
  on_port.arguments = {"--port", std::to_string(port), "--bind", "127.0.0.1"};
  PrivateServer server(on_port);
  Producer(server.url(), name).send("x");
  CHECK(ledger.settles(1));
  CHECK(consumer->stop(kPatience));
}

}  // namespace
}  // namespace delayqueue
