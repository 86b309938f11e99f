// Errors of passwords and ACL rules: reported, retried with long pauses, and work continues when the cause is removed.
#include "support/test.h"

#include "support/answers.h"

namespace delayqueue {
namespace {

using test::Lines;
using test::see_through;
using test::World;

void set_rules(World& world, const std::vector<std::string>& rules) {
  std::vector<std::string> words = {"ACL", "SETUSER", "worker"};
  words.insert(words.end(), rules.begin(), rules.end());
  REQUIRE(world.admin.cmd(words) == "OK");
}

TEST_CASE("NOAUTH: a server that requires a password from now on") {
  World world;
  see_through({"NOAUTH", "ReplyError", "NOAUTH", "give a password in the URL or in ClientOptions::password",
               [](World& w) {
                 REQUIRE(w.admin.cmd({"CONFIG", "SET", "requirepass", "secret"}) == "OK");
                 w.end_connections();
               },
               [](World& w) {
                 REQUIRE(w.admin.cmd({"CONFIG", "SET", "requirepass", ""}) == "OK");
               },
               true, false, 5s},
              world, world.server.url());
}

TEST_CASE("WRONGPASS: a password that was changed, and changed back") {
  World world;
  see_through({"WRONGPASS", "ReplyError", "WRONGPASS", "check the user and password",
               [](World& w) {
                 set_rules(w, {"resetpass", ">other"});
                 w.end_connections();
               },
               [](World& w) { set_rules(w, {">pw"}); }, true, false, 5s},
              world);
}

TEST_CASE("NOPERM: a right that was revoked, and granted again") {
  const std::string advice = "see \"The smallest ACL rule\" in docs/operations.md";
  struct {
    const char* error;
    std::vector<std::string> taken, given;
    bool reads;
  } const cases[] = {
      {"has no permissions to run", {"-evalsha"}, {"+evalsha"}, true},
      {"NOPERM", {"resetkeys", "~something:*"}, {"allkeys"}, true},
      {"script", {"-time"}, {"+time"}, true},
  };
  for (const auto& one : cases) {
    World world;
    see_through({one.error, "ReplyError", one.error, advice, [&](World& w) { set_rules(w, one.taken); },
                 [&](World& w) { set_rules(w, one.given); }, one.reads, false, 5s},
                world);
  }
}

TEST_CASE("a refused password is retried seldom and logged once, and work continues when it is right") {
  World world;
  const std::string name = test::fresh_queue();
  Producer(world.url(), name).send("x");
  Lines lines;
  Ledger ledger;
  ConsumerOptions options = test::quick();
  options.logger = lines.logger();
  Consumer consumer(world.url(), name, ledger.watch(), options);
  consumer.start();
  CHECK(ledger.settles(1));
  REQUIRE(eventually([&] { return consumer.metrics().stats.acked == 1; }, kPatience));
  set_rules(world, {"resetpass", ">other"});
  world.end_connections();
  REQUIRE(eventually([&] { return !lines.find("WRONGPASS").empty(); }, kPatience));
  const auto before = consumer.metrics().stats.errors;
  const std::size_t logged = lines.count();
  std::this_thread::sleep_for(3s);
  CHECK(consumer.metrics().stats.errors - before <= 6);  // pauses of at least 0.25 s, 0.5 s, 1 s, 2 s
  CHECK(consumer.metrics().stats.errors - before >= 1);
  CHECK(lines.count() == logged);
  for (const char* secret : {"pw@", ":pw", "other"}) CHECK(lines.find(secret, Severity::debug).empty());
  set_rules(world, {">pw"});
  CHECK(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
  CHECK(consumer.stop());
}

TEST_CASE("leases are renewed while a missing right prevents settling") {
  World world;
  test::Queue queue(world.url());
  queue.producer.send_batch(test::numbers(3));
  Ledger ledger;
  ConsumerOptions options = test::quick(3);
  options.lease = 7s;  // so that a pause of the machine of two seconds does no harm
  const auto consumer = queue.consumer(ledger.watch(), options);
  set_rules(world, {"-unlink"});  // an ack cannot be settled
  consumer->start();
  REQUIRE(ledger.settles(3));
  std::this_thread::sleep_for(10s);  // longer than the lease, and than the pauses between retries
  CHECK(consumer->metrics().stats.errors >= 3);
  set_rules(world, {"+unlink"});
  CHECK(eventually([&] { return queue.empty(world.admin); }, kPatience));
  CHECK(ledger.size() == 3);
  CHECK(consumer->metrics().stats.stale == 0);
  CHECK(queue.inspector.counts().totals.retried == 0);
  CHECK(consumer->stop());
}

TEST_CASE("optional rights: without them there are no events and the queue is not registered, but it works") {
  World world;
  set_rules(world, {"-publish", "-sadd", "-bzpopmin", "-info", "-config"});
  const std::string name = test::fresh_queue();
  Lines lines;
  Ledger ledger;
  ConsumerOptions options = test::quick();
  options.logger = lines.logger();
  ProducerOptions producing;
  producing.logger = lines.logger();
  const Client client(world.url(), test::reporting_events());
  Producer producer(client, name, producing);
  Consumer consumer(client, name, ledger.watch(), options);
  consumer.start();
  for (int i = 0; i < 5; ++i) CHECK(producer.send("x").created());
  CHECK(ledger.settles(5));
  CHECK(eventually([&] { return consumer.metrics().stats.acked == 5; }, kPatience));
  CHECK(consumer.metrics().stats.errors == 0);
  CHECK(consumer.metrics().stats.connects == 1);
  CHECK(test::has(lines.find("cannot publish an event"), "NOPERM"));  // logged, because events were configured
  CHECK(world.admin.cmd({"SMEMBERS", "dp:queues"}).array.empty());
  CHECK(consumer.stop());
}

}  // namespace
}  // namespace delayqueue
