// The smallest ACL rules that work: those of docs/operations.md.
#include "support/test.h"

#include "redis/connection.h"
#include "store/keys.h"
#include "store/record.h"
#include "store/script_calls.h"
#include "support/acl.h"
#include "support/answers.h"

namespace delayqueue {
namespace {

using test::Lines;

using test::commands_of;
using test::documented_rules;
using test::Guarded;
using test::rule_of;
using test::Words;

const std::string kBase = "dp:orders";

// Keys that only optional features need. Everything else works without access to them.
bool is_optional(const std::string& object) {
  return object == "dp:queues" || object.rfind("{dp:orders}:", 0) == 0 || object.rfind("{dp:orders#", 0) == 0;
}

// ---- What each role does with a queue: together, all that its scripts can do ----

struct Seeds {
  explicit Seeds(Guarded& guarded) : admin(guarded.admin), producer(guarded.server.url(), "orders") {}

  std::string send(const std::string& payload, milliseconds delay = 0ms, int retries = 3) {
    SendOptions options;
    options.delay = delay;
    options.retries = retries;
    options.ttl = 1h;
    return producer.send(payload, options).id;
  }
  // Takes a message from ready into unack. Its lease or backoff ends in `ends_in` seconds; negative: it has ended.
  std::string unack(const std::string& payload, double ends_in, int retries = 3) {
    const std::string id = send(payload, 0ms, retries);
    admin.cmd({"LREM", kBase + ":ready", "0", id});
    const double now = static_cast<double>(test::redis_time_us(admin)) / 1e6;
    admin.cmd({"ZADD", kBase + ":unack", std::to_string(now + ends_in), id});
    return id;
  }
  std::string dead(const std::string& payload) {
    const std::string id = send(payload);
    admin.cmd({"LREM", kBase + ":ready", "0", id});
    admin.cmd({"HDEL", kBase + ":retry:cnt", id});
    admin.cmd({"ZADD", kBase + ":dead", "1000", id});
    return id;
  }
  std::string retry(const std::string& payload) {
    const std::string id = send(payload);
    admin.cmd({"LREM", kBase + ":ready", "0", id});
    admin.cmd({"LPUSH", kBase + ":retry", id});
    admin.cmd({"HSET", kBase + ":attempts", id, "1 1000"});
    return id;
  }

  Redis& admin;
  Producer producer;
};

void must(bool worked) {
  if (!worked) throw std::runtime_error("it did not work");
}

void produce(Guarded& guarded, const std::string& user, const KeyOptions& queue = {}) {
  Seeds seeds(guarded);
  Producer producer({guarded.url(user), with(&ClientOptions::keys, queue)}, "orders");
  SendOptions later;
  later.delay = 1h;
  later.ttl = 1h;
  later.headers = {{"k", "v"}};
  const std::string id = producer.send("x", later).id;
  auto when = with(&RescheduleOptions::delay, 2h);
  must(producer.reschedule(id, when) == Outcome::done);
  when.delay = 0ms;
  must(producer.reschedule(id, when) == Outcome::done);
  later.id = id;
  must(!producer.send("x", later).created());
  must(producer.cancel(id) == State::ready);
  later.id = store::new_ids(1).front();
  must(producer.send("x", later).created());
  later.id = store::new_ids(1).front();
  must(producer.send(std::string(100'000, 'x'), later).created());
  must(producer.send(std::string(100'000, 'x'), with(&SendOptions::id, store::new_ids(1).front())).created());
  must(producer.send_batch({"a", "b"}).size() == 2);
  must(producer.send(std::string(100'000, 'x')).created());
  must(producer.reschedule(seeds.retry("y"), when) == Outcome::done);
  must(producer.cancel(seeds.dead("z")) == State::dead);
}

// Ends early once the server has refused something.
void consume(Guarded& guarded, const std::string& user) {
  Seeds seeds(guarded);
  guarded.admin.cmd({"CONFIG", "RESETSTAT"});
  for (const char* payload : {"ack", "nack", "reject", "snooze", "again", "hold", "slow", "late"}) seeds.send(payload);
  seeds.send("reject", 0ms, 0);
  seeds.send("ack", 30ms);
  seeds.unack("ack", -10.0000005);
  seeds.unack("ack", -10.0000005, 0);
  for (int i = 0; i < 3; ++i) seeds.dead("trimmed");
  const std::string orphan = store::new_ids(1).front();
  guarded.admin.cmd({"HSET", kBase + ":attempts", orphan, "2 1000"});
  guarded.admin.cmd({"HSET", kBase + ":headers", orphan, "\1k\1v"});
  guarded.admin.cmd({"HSET", kBase + ":keys", orphan, "key"});
  guarded.admin.cmd({"HSET", kBase + ":unique", "key", orphan + " 1 0"});
  guarded.admin.cmd({"SADD", kBase + ":garbage", orphan});
  ConsumerOptions options = test::quick(4);
  options.lease = 600ms;
  options.dead_limit = 2;
  options.tuning.poll_interval = 200ms;  // a consumer watches for shorter delays
  Redis aside(guarded.server.socket());
  std::mutex mutex;
  std::atomic<bool> snoozed{false}, again{false}, held{false};
  Consumer consumer(
      guarded.url(user), "orders",
      [&](const Message& message) {
        if (message.payload() == "nack" && message.attempt() == 1) return nack(0ms, "why");
        if (message.payload() == "reject") return reject("why");
        if (message.payload() == "snooze" && !snoozed.exchange(true)) return snooze(150ms);
        if (message.payload() == "again" && !again.exchange(true)) return snooze(0ms);
        if (message.payload() == "hold" && !held.exchange(true)) return pause_queue(100ms, "429");
        if (message.payload() == "slow") std::this_thread::sleep_for(500ms);
        if (message.payload() == "late") {
          const std::lock_guard lock(mutex);
          aside.cmd({"ZREM", kBase + ":unack", message.id()});
        }
        return ack();
      },
      options);
  consumer.start();
  Inspector inspector(guarded.server.url(), "orders");
  const auto done = [&] {
    const Counts counts = inspector.counts();
    const ConsumerStats stats = consumer.metrics().stats;
    return counts.totals.acked >= 8 && counts.dead == 2 && counts.garbage == 0 && counts.unack == 0 &&
           counts.pending == 0 && stats.delivered >= 10 &&
           guarded.admin.cmd({"HEXISTS", kBase + ":attempts", orphan}) == 0 &&
           guarded.admin.cmd({"EXISTS", kBase + ":keys", kBase + ":unique"}) == 0 &&
           !test::info("commandstats", "cmdstat_bzpopmin", guarded.admin).empty();
  };
  const auto refused = [&] {
    const auto objects = guarded.refused();
    return consumer.metrics().stats.errors > 0 || !std::all_of(objects.begin(), objects.end(), is_optional);
  };
  must(eventually([&] { return done() || refused(); }, 20s));
  if (refused()) return static_cast<void>(consumer.stop(10ms));
  must(consumer.stop(kPatience));
}

void admin_by_id(Guarded& guarded, Seeds& seeds, Inspector& inspector, QueueAdmin& admin) {
  const std::string waits = seeds.send("x", 1h);
  must(admin.reschedule({waits, seeds.retry("y")}, with(&RescheduleOptions::delay, 2h)) ==
       std::vector<Outcome>(2, Outcome::done));
  must(admin.extend({seeds.unack("x", 1000.0000005)}, 1h, HeldMessages::force).front() == Outcome::done);
  must(admin.bury({waits, seeds.send("x")}) == std::vector<Outcome>(2, Outcome::done));
  const MessageInfo entry = *inspector.find(waits);
  must(admin.purge_ids(State::dead, {waits}).messages == 1);
  must(admin.restore({entry}).front().created());
  MessageInfo living = *inspector.find(seeds.send("x"));
  must(admin.purge_ids(State::ready, {living.id}).messages == 1);
  must(admin.restore({living}).front().created());
  living.payload = std::string(100'000, 'x');
  living.size = living.payload.size();
  must(admin.purge_ids(State::ready, {living.id}).messages == 1);
  must(admin.restore({living}).front().created());
  must(admin.cancel({living.id}).front() == State::ready);
  guarded.admin.cmd({"DEL", kBase + ":unack"});
}

void inspect(Guarded& guarded, const std::string& user) {
  Seeds seeds(guarded);
  Inspector inspector(guarded.url(user), "orders");
  QueueAdmin admin(guarded.url(user), "orders");
  const std::string pending = seeds.send("x", 1h);
  const std::string ready = seeds.send("x");
  const std::string retry = seeds.retry("x");
  const std::string held = seeds.unack("x", 1000.0000005);
  const std::string cancelled = seeds.unack("x", 1000.0000005);
  guarded.admin.cmd({"HDEL", kBase + ":retry:cnt", cancelled});
  const std::string dead = seeds.dead("x");
  const std::string bare = seeds.dead("x");
  guarded.admin.cmd({"DEL", kBase + ":msg:" + bare});
  must(inspector.counts().dead == 2);
  for (const State state : {State::pending, State::ready, State::unack, State::retry, State::dead}) {
    must(!inspector.list(state).messages.empty());
  }
  must(inspector.find(dead)->payload == "x");
  must(inspector.find(ready)->state == State::ready);
  must(admin.redrive({dead}).front() == Outcome::done);
  must(admin.redrive({bare}).front() == Outcome::no_payload);
  must(admin.release({pending}).front() == Outcome::done);
  must(admin.release({held}, HeldMessages::force).front() == Outcome::done);
  must(admin.release({cancelled}, HeldMessages::force).front() == Outcome::unknown);
  admin.pause({1h, "why"});
  must(inspector.paused()->reason == "why");
  admin.resume();
  admin.record({{}, "anna@host7", 1, "done", "redrive"});
  must(inspector.actions().size() == 1);
  admin_by_id(guarded, seeds, inspector, admin);
  seeds.send("x", 1h);
  seeds.dead("x");
  for (const State state : {State::pending, State::ready, State::retry, State::dead}) must(admin.purge(state) >= 1);
}

const std::map<std::string, std::function<void(Guarded&, const std::string&)>> kRoles = {
    {"producer", [](Guarded& guarded, const std::string& user) { produce(guarded, user); }},
    {"consumer", consume},
    {"inspector", inspect}};

TEST_CASE("ACL: with the documented rules everything works, for each role and for a user with all roles") {
  for (const auto& one : kRoles) {
    const std::string& role = one.first;
    const auto& work = one.second;
    for (const std::string& user : {role, std::string("all")}) {
      CAPTURE(role);
      CAPTURE(user);
      Guarded guarded;
      CHECK(thrown([&] { work(guarded, user); }) == "nothing");
      for (const std::string& object : guarded.refused()) {
        // Without these two, the queue is not in the list of queues, and wake-ups of partitions come one by one.
        const bool optional = role == "producer" ? object == "sadd" : role == "consumer" && object == "zpopmin";
        CHECK_MESSAGE((is_optional(object) || optional), object);
      }
    }
  }
}

TEST_CASE("ACL: with the documented rules an inspector sets limits, a consumer keeps them, and a handler may pause") {
  Guarded guarded;
  guarded.allow({{"ACL", "SETUSER", "orders-inspector", "+zscan"}});
  Seeds seeds(guarded);
  QueueAdmin admin(guarded.url("inspector"), "orders");
  QueueLimits limits;
  limits.rate = Rate{1000, 1s, 10};
  limits.running = 2;
  seeds.unack("lost", -10.0000005);
  REQUIRE(admin.set_limits(limits));
  for (int i = 0; i < 30; ++i) seeds.send(std::to_string(i));
  std::atomic<bool> paused{false};
  Consumer consumer(
      guarded.url("consumer"), "orders",
      [&](const Message& message) {
        if (message.payload() == "7" && !paused.exchange(true)) return pause_queue(50ms, "429");
        if (message.payload() == "8" && message.attempt() == 1) return nack(1ms, "again");
        return ack();
      },
      test::quick(4));
  consumer.start();
  Inspector inspector(guarded.url("inspector"), "orders");
  CHECK(eventually(
      [&] {
        const Counts counts = inspector.counts();
        return counts.totals.acked == 31 && counts.in_flight == 0;
      },
      kPatience));
  CHECK(consumer.stop());
  CHECK(consumer.metrics().stats.errors == 0);
  for (const std::string& object : guarded.refused())
    CHECK_MESSAGE((is_optional(object) || object == "zpopmin"), object);
}

TEST_CASE("ACL: each command of a rule is needed") {
  for (const auto& one : kRoles) {
    const std::string& role = one.first;
    const auto& work = one.second;
    Guarded guarded;
    guarded.allow(documented_rules().optional);
    for (const std::string& command : commands_of(rule_of(role))) {
      CAPTURE(role);
      CAPTURE(command);
      guarded.admin.cmd({"FLUSHALL"});
      guarded.admin.cmd({"ACL", "LOG", "RESET"});
      REQUIRE(guarded.admin.cmd({"ACL", "SETUSER", "orders-" + role, "-" + command}) == "OK");
      thrown([&] { work(guarded, role); });
      CHECK(guarded.refused().count(command) == 1);
      REQUIRE(guarded.admin.cmd({"ACL", "SETUSER", "orders-" + role, "+" + command}) == "OK");
    }
  }
}

TEST_CASE("ACL: a user cannot reach keys and channels outside the queue") {
  Guarded guarded;
  guarded.allow(documented_rules().optional);
  const std::string advice = "see \"The smallest ACL rule\" in docs/operations.md";
  for (const std::string role : {"producer", "consumer", "inspector", "all"}) {
    CAPTURE(role);
    const std::string url = guarded.url(role);
    for (const char* queue : {"other", "order", "orders2"}) {
      std::vector<std::string> errors = {
          thrown([&] { Producer(url, queue).send("x"); }), thrown([&] { return Inspector(url, queue).counts(); }),
          thrown([&] { Consumer(url, queue, [](const Message&) { return ack(); }).start(); })};
      for (const std::string& error : errors) {
        CHECK(has(error, "ReplyError: "));
        CHECK_MESSAGE((has(error, "NOPERM") || has(error, "script")), error);
        CHECK(has(error, advice));
      }
    }
    redis::Address address;
    address.path = guarded.server.socket();
    redis::Connection link(address, {"orders-" + role, "secret", "test", 0}, {});
    const auto ask = [&](std::initializer_list<std::string_view> words) {
      std::string bytes;
      redis::append_command(bytes, words);
      link.write(bytes);
      const redis::ReplyPtr answer = link.read();
      const redis::Reply reply(answer.get());
      return reply.is_error() ? std::string(reply.text()) : "no error";
    };
    CHECK(has(ask({"GET", "secret"}), "NOPERM"));
    CHECK(has(ask({"SET", "secret", "x"}), "NOPERM"));
    CHECK(has(ask({"EXISTS", "secret"}), "NOPERM"));
    guarded.allow({{"ACL", "SETUSER", "orders-" + role, "+eval"}});
    CHECK(has(ask({"EVAL", "return redis.call('EXISTS', KEYS[1])", "1", "secret"}), "NOPERM"));
    const std::string undeclared = ask({"EVAL", "return redis.call('EXISTS', ARGV[1])", "0", "secret"});
    CHECK_MESSAGE((has(undeclared, "can't access") || has(undeclared, "ACL failure in script")), undeclared);
    CHECK(has(ask({"PUBLISH", "other", "x"}), "NOPERM"));
    CHECK(has(ask({"SUBSCRIBE", "other"}), "NOPERM"));
    CHECK(has(ask({"FLUSHALL"}), "NOPERM"));
    CHECK(has(ask({"KEYS", "*"}), "NOPERM"));
    CHECK(has(ask({"CONFIG", "SET", "maxmemory", "1"}), "NOPERM"));
  }
}

TEST_CASE("ACL: server() returns what the user may see of the server") {
  Guarded guarded;
  const ServerInfo report = Inspector(guarded.url("inspector"), "orders").server();
  CHECK(report.version.empty());
  CHECK(report.fsync.empty());
  CHECK(!report.memory);
  CHECK(report.round_trip > 0us);
}

TEST_CASE("ACL: with the least rules a consumer registers, and no inspector may read that without the optional right") {
  Guarded guarded;
  test::Ledger ledger;
  Consumer consumer(guarded.url("consumer"), "orders", ledger.watch(), test::quick());
  consumer.start();
  REQUIRE(eventually([&] { return guarded.admin.cmd({"HLEN", kBase + ":consumers"}) == 1; }, kPatience));
  Inspector inspector(guarded.url("inspector"), "orders");
  CHECK(has(thrown([&] { return inspector.workers(); }), "NOPERM"));
  guarded.allow({{"ACL", "SETUSER", "orders-inspector", "+hrandfield", "+hstrlen"}});
  CHECK(inspector.workers().size() == 1);
  CHECK(consumer.stop());
}

TEST_CASE("ACL: with the scripts of a version before the registry a consumer warns once, and delivers") {
  Guarded guarded(false);
  for (const redis::Script* script : store::scripts::all()) {
    if (script == &store::scripts::register_consumer) continue;
    guarded.admin.cmd({"SCRIPT", "LOAD", std::string(script->body)});
  }
  Lines lines;
  ConsumerOptions options = test::quick(1);
  options.logger = lines.logger();
  test::Ledger ledger;
  Consumer consumer(guarded.url("consumer"), "orders", ledger.watch(), options);
  consumer.start();
  const std::string warning = "cannot write what this consumer does into dp:orders:consumers";
  REQUIRE(eventually([&] { return !lines.find(warning).empty(); }, kPatience));
  CHECK(has(lines.find(warning), "the scripts are not loaded"));
  Producer(guarded.server.url(), "orders").send("x");
  CHECK(ledger.settles(1));
  CHECK(eventually([&] { return consumer.metrics().stats.acked == 1; }, kPatience));
  CHECK(consumer.metrics().stats.errors == 0);
  CHECK(consumer.stop());
}

TEST_CASE("ACL: with the optional rules, events, wake-ups and the list of queues work") {
  Guarded guarded;
  guarded.allow(documented_rules().optional);
  ProducerOptions producing;
  ClientOptions client_options = test::reporting_events();
  client_options.keys.go.remove_from_lists = true;
  ConsumerOptions consuming;
  consuming.concurrency = 1;
  consuming.tuning.poll_interval = 1h;  // only a wake-up delivers a message in time
  Lines lines;
  producing.logger = consuming.logger = lines.logger();
  test::Ledger ledger;
  Consumer consumer({guarded.url("consumer"), test::reporting_events()}, "orders", ledger.watch(), consuming);
  Producer producer({guarded.url("producer"), client_options}, "orders", producing);
  Inspector inspector(guarded.url("inspector"), "orders");
  CHECK(!inspector.next_event(1ms));
  consumer.start();
  REQUIRE(
      eventually([&] { return !test::info("commandstats", "cmdstat_bzpopmin", guarded.admin).empty(); }, kPatience));
  producer.send("x");
  CHECK(ledger.settles(1));
  std::set<EventKind> seen;  // the events of the producer and of the consumer come in any order
  while (seen.size() < 3) {
    const auto event = inspector.next_event(kPatience);
    REQUIRE(event);
    seen.insert(event->kind);
  }
  CHECK((seen == std::set<EventKind>{EventKind::sent, EventKind::delivered, EventKind::acked}));
  CHECK(inspector.queues() == Words{"orders"});
  CHECK(inspector.workers().size() == 1);
  CHECK(consumer.stop());
  producer.send("y", {1h, {}, {}, {}, {}});
  CheckOptions check;
  check.repair = true;
  check.recheck_after = 0ms;
  QueueAdmin admin(guarded.url("inspector"), "orders");
  CHECK(admin.check(check).clean());
  CHECK(admin.purge(State::pending) == 1);
  CHECK(admin.forget().none());
  for (const Risk& risk : inspector.server().risks) CHECK_MESSAGE(risk.kind != RiskKind::unknown, risk.text);
  CHECK(!inspector.server().version.empty());
  CHECK(!inspector.server().fsync.empty());
  guarded.admin.cmd({"ACL", "LOG", "RESET"});
  CHECK(thrown([&] { produce(guarded, "producer", client_options.keys); }) == "nothing");
  for (const std::string& object : guarded.refused()) CHECK_MESSAGE(object.rfind("{dp:orders}:", 0) == 0, object);
  CHECK_MESSAGE(lines.count() == 0, lines.find(""));
}

TEST_CASE("schedules R14: with the smallest rule a consumer keeps a schedule going; Schedules needs one more rule") {
  Guarded guarded;
  Schedule every_second;
  every_second.every = std::chrono::seconds(1);
  Schedules(guarded.server.url(), "orders").set("tick", every_second);
  test::Ledger ledger;
  Consumer consumer(guarded.url("consumer"), "orders", ledger.watch(), test::quick());
  consumer.start();
  CHECK(ledger.settles(3));
  CHECK(consumer.stop());
  CHECK(consumer.metrics().stats.errors == 0);
  guarded.allow(documented_rules().optional);
  Schedules schedules(guarded.url("inspector"), "orders");
  CHECK(schedules.set("other", every_second) == SetResult::created);
  CHECK(schedules.list().size() == 2);
  CHECK(schedules.pause("other"));
  CHECK(schedules.resume("other"));
  CHECK(schedules.remove("other"));
  schedules.advance();
  // A consumer without the right to ZPOPMIN forwards no marker.
  for (const std::string& object : guarded.refused()) {
    CHECK_MESSAGE((object == "zpopmin" || is_optional(object)), object);
  }
}

TEST_CASE("ACL: with the optional rules a producer uses all partitions of a queue, and wakes consumers for them") {
  Guarded guarded;
  guarded.allow(documented_rules().optional);
  QueueAdmin(guarded.server.url(), "orders").set_partitions(4);
  Producer producer(guarded.url("producer"), "orders");
  std::set<unsigned> used;
  for (int i = 0; i < 8; ++i) {
    const std::string id = producer.send(i % 2 == 0 ? "x" : std::string(100'000, 'x')).id;
    used.insert(store::partition_of(id, store::name_crc("orders", "dp")).value_or(0));
    if (i > 4) CHECK(producer.cancel(id) == State::ready);
  }
  CHECK(used.size() == 4);
  CHECK(guarded.admin.cmd({"ZCARD", "dp:orders:wakes"}) == 3);
  for (const std::string& object : guarded.refused()) CHECK_MESSAGE(is_optional(object), object);
}

TEST_CASE("ACL: with the optional rules a consumer serves all partitions of a queue") {
  Guarded guarded;
  guarded.allow(documented_rules().optional);
  QueueAdmin(guarded.server.url(), "orders").set_partitions(4);
  test::Ledger ledger;
  Consumer consumer(guarded.url("consumer"), "orders", ledger.watch(), test::quick());
  consumer.start();
  Producer producer(guarded.server.url(), "orders");
  for (int i = 0; i < 8; ++i) producer.send("x");  // two to each
  CHECK(ledger.settles(8));
  CHECK(consumer.metrics().stats.errors == 0);
  CHECK(consumer.stop());
  for (const std::string& object : guarded.refused()) CHECK_MESSAGE(is_optional(object), object);
}

const std::string kNotLoaded =
    "and this user may not EVAL: run `dqctl scripts load` there as a user who may, or grant +eval";

TEST_CASE("ACL: without loaded scripts a call throws with the address of the server and what to do") {
  Guarded guarded(false);
  const auto names_server_and_advice = [&](const std::string& error) {
    return has(error, "ReplyError: the scripts are not loaded at unix:" + guarded.server.socket() + ' ' + kNotLoaded);
  };
  const std::string sending = thrown([&] { Producer(guarded.url("producer"), "orders").send("x"); });
  CHECK_MESSAGE(names_server_and_advice(sending), sending);
  const std::string looking = thrown([&] { return Inspector(guarded.url("inspector"), "orders").counts(); });
  CHECK_MESSAGE(names_server_and_advice(looking), looking);
}

TEST_CASE("ACL: a consumer warns and waits until the scripts are loaded, at its start and after a restart of Redis") {
  Guarded guarded(false);
  Lines lines;
  ConsumerOptions options = test::quick(1);
  options.logger = lines.logger();
  test::Ledger ledger;
  Consumer consumer(guarded.url("consumer"), "orders", ledger.watch(), options);
  CHECK(thrown([&] { consumer.start(); }) == "nothing");
  Producer(guarded.server.url(), "orders").send("first");  // this user may EVAL
  guarded.admin.cmd({"SCRIPT", "FLUSH"});
  REQUIRE(eventually([&] { return !lines.find(kNotLoaded).empty(); }, kPatience));
  CHECK(ledger.size() == 0);
  guarded.load();
  CHECK(ledger.settles(1));
  guarded.restart();
  Producer(guarded.server.url(), "orders").send("second");
  guarded.admin.cmd({"SCRIPT", "FLUSH"});
  const auto refused = consumer.metrics().stats.errors;
  REQUIRE(eventually([&] { return consumer.metrics().stats.errors > refused + 1; }, 20s));
  CHECK(ledger.size() == 1);
  guarded.load();
  CHECK(ledger.settles(2));
  CHECK(consumer.stop());
}

TEST_CASE("ACL: scripts that an older version loaded still run, even if another script is missing") {
  Guarded guarded;
  Producer producer(guarded.url("producer"), "orders");
  producer.send("x");
  CHECK(thrown([&] { return producer.cancel(producer.send("y").id); }) == "nothing");
  guarded.admin.cmd({"SCRIPT", "FLUSH"});
  guarded.admin.cmd({"SCRIPT", "LOAD", std::string(store::scripts::send_one.body)});
  const std::string id = producer.send("z").id;
  CHECK(has(thrown([&] { return producer.cancel(id); }), kNotLoaded));
}

TEST_CASE("ACL: the convenient rules add only EVAL, and then no script has to be loaded") {
  for (const Words& words : documented_rules().eval) CHECK(Words(words.begin() + 3, words.end()) == Words{"+eval"});
  for (const auto& one : kRoles) {
    CAPTURE(one.first);
    Guarded guarded(false);
    guarded.allow(documented_rules().eval);
    CHECK(thrown([&] { one.second(guarded, one.first); }) == "nothing");
  }
}

TEST_CASE("ACL: the loader can load and list the scripts but run none, and needs all of its rule") {
  Guarded guarded(false);
  const std::string url = guarded.url("loader");
  const auto before = find_scripts(url);
  REQUIRE(before.size() == 1);
  CHECK(before[0].address == "unix:" + guarded.server.socket());
  CHECK(before[0].loaded.empty());
  CHECK(before[0].missing.size() == store::scripts::all().size());
  CHECK(load_scripts(url)[0].loaded == before[0].missing);
  CHECK(find_scripts(url)[0].missing.empty());
  CHECK(has(thrown([&] { return Inspector(url, "orders").counts(); }), "NOPERM"));
  guarded.allow({{"ACL", "SETUSER", "orders-loader", "-script|load"}});
  CHECK(has(load_scripts(url)[0].error, "NOPERM"));
  CHECK(find_scripts(url)[0].error.empty());
  guarded.allow({{"ACL", "SETUSER", "orders-loader", "-script|exists"}});
  CHECK(has(find_scripts(url)[0].error, "NOPERM"));
  CHECK(commands_of(rule_of("loader")) == std::set<std::string>{"script|exists", "script|load"});
}

}  // namespace
}  // namespace delayqueue
