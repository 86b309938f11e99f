// Tests of servers that refuse commands, as managed services do: docs/deployment.md lists what each of them refuses.
#include "preamble.h"

using delayqueue::ack;
using delayqueue::State;

namespace {

using Words = std::vector<std::string>;

// Refused by ElastiCache, MemoryDB or Azure Cache for Redis, in whole or in part. Here always in whole.
Words refused_by_vendors() {
  return {"ACL",    "BGREWRITEAOF", "BGSAVE", "CLUSTER",   "CONFIG", "DEBUG",    "MIGRATE",
          "MODULE", "PSYNC",        "SAVE",   "REPLICAOF", "SYNC",   "SHUTDOWN", "SLAVEOF"};
}

// All that the library can do without.
Words refused_by_the_strictest() {
  Words all = refused_by_vendors();
  for (const char* name :
       {"CLIENT", "COMMAND", "FAILOVER", "FCALL",    "FCALL_RO", "FUNCTION", "INFO",   "KEYS",    "LASTSAVE", "LATENCY",
        "MEMORY", "MONITOR", "OBJECT",   "REPLCONF", "PUBLISH",  "ROLE",     "SELECT", "SLOWLOG", "SWAPDB",   "WAIT"}) {
    all.push_back(name);
  }
  return all;
}

// A server that answers "ERR unknown command".
delayqueue::PrivateServer server_without(const Words& commands, Words more = {}) {
  for (const std::string& command : commands) more.insert(more.end(), {"--rename-command", command, ""});
  return test::server_with(more);
}

std::string url_of(const delayqueue::PrivateServer& server, const std::string& login = "") {
  return "unix://" + login + server.socket();
}

// The warnings and errors of a process.
class Log {
 public:
  delayqueue::Logger logger() {
    return [this](const delayqueue::LogEntry& entry) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(entry.line);
    };
  }

  Words lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  Words lines_;
};

// Sends, cancels, moves, handles, and brings a dead letter back.
void use_library(const std::string& url, const delayqueue::KeyOptions& queue, Log& log) {
  const delayqueue::Client client(url, with(&delayqueue::ClientOptions::keys, queue));
  delayqueue::ProducerOptions producing;
  producing.logger = log.logger();
  delayqueue::Producer producer(client, "orders", producing);
  CHECK(producer.send("now").created());
  auto later = delayed(1h);
  later.headers.set("tenant", "7");
  const auto cancelled = producer.send("later", later).id;
  CHECK(producer.cancel(cancelled) == State::pending);
  const auto moved = producer.send("moved", later).id;
  CHECK(producer.reschedule(moved, {}) == delayqueue::Outcome::done);
  const auto own = with(&delayqueue::SendOptions::id, kId);
  CHECK(producer.send("own", own).created());
  CHECK(!producer.send("own", own).created());
  CHECK(producer.send_batch({"fail", "reject", std::string(5'000, 'x')}, delayqueue::SendOptions()).size() == 3);
  CHECK(producer.send_async("async", {}).get().created());

  delayqueue::ConsumerOptions consuming;
  consuming.logger = log.logger();
  consuming.backoff = delayqueue::Backoff::fixed(0ms);
  std::atomic<int> handled{0};
  delayqueue::Consumer consumer(
      client, "orders",
      [&](const delayqueue::Message& message) {
        if (message.payload() == "fail" && message.attempt() == 1) return delayqueue::nack("again");
        if (message.payload() == "reject") return delayqueue::reject("no such order");
        ++handled;
        return ack();
      },
      consuming);
  consumer.start();
  CHECK(eventually([&] { return handled == 6 && consumer.metrics().stats.acked == 6; }, kPatience));

  // A wake-up, and the sleep until a due time.
  const auto soon = delayed(50ms);
  producer.send("soon", soon);
  producer.send("at once");
  CHECK(eventually([&] { return handled == 8; }, kPatience));
  CHECK(consumer.stop());

  delayqueue::Inspector inspector(client, "orders");
  CHECK(inspector.counts().dead == 1);
  const auto dead = inspector.list(State::dead).messages;
  REQUIRE(dead.size() == 1);
  CHECK(dead[0].reason == "no such order");
  delayqueue::QueueAdmin admin(client, "orders");
  CHECK(admin.redrive({dead[0].id}).front() == delayqueue::Outcome::done);
  CHECK(admin.check().clean());
  admin.pause();
  admin.resume();
  CHECK(admin.purge(State::ready) == 1);
  CHECK(inspector.counts().totals.sent == 10);
}

// Runs commands of dqctl that read, change and work, and the check of the keys.
void use_dqctl(const std::string& url, const Words& globals = {}) {
  const auto run = [&](Words arguments, int code = 0) {
    arguments.insert(arguments.end(), globals.begin(), globals.end());
    const Ran ran = test::run(arguments, at(url));
    CAPTURE(arguments);
    CAPTURE(ran.out);
    CAPTURE(ran.err);
    CHECK(ran.code == code);
    return ran.out;
  };
  run({"send", "orders", "hello"});
  run({"send", "orders", "later", "--delay", "1h"});
  CHECK(has(run({"queues"}), "orders"));
  run({"stats", "orders"});
  run({"stuck", "orders"});
  run({"metrics"});
  run({"scripts", "load"});
  run({"work", "orders", "--exec", "exit 65", "--until-empty"}, 4);
  CHECK(has(run({"reasons", "orders"}), "exit code 65"));
  run({"redrive", "orders", "--all", "--yes"});
  CHECK(has(run({"export", "orders"}), "\"hello\""));
  run({"find", "hello"});
  run({"pause", "orders"});
  run({"resume", "orders"});
  CHECK(has(run({"purge", "orders", "--state", "ready", "--all", "--yes"}), "purged 1 "));
  CHECK(has(run({"doctor", "orders", "--settle", "50ms"}), "\nunknown     cannot examine all risks: CONFIG GET "));
}

}  // namespace

TEST_CASE("managed services: without the commands that ElastiCache, MemoryDB and Azure refuse, all works") {
  const auto server = server_without(refused_by_vendors());
  Log log;
  use_library(url_of(server), {}, log);
  CAPTURE(log.lines());
  CHECK(log.lines().size() <= 10);
  use_dqctl(url_of(server));
}

TEST_CASE(
    "managed services: the library needs none of CLIENT, INFO, ROLE, SELECT, WAIT, functions and administration") {
  const auto server = server_without(refused_by_the_strictest());
  Log log;
  use_library(url_of(server), {}, log);
  CAPTURE(log.lines());
  CHECK(log.lines().size() <= 10);
  use_dqctl(url_of(server));

  const auto options = with(&delayqueue::ProducerOptions::durability, delayqueue::Durability::replicas(1, 100ms));
  delayqueue::Producer producer(url_of(server), "payments", options);
  CHECK_THROWS_WITH_AS(producer.send("42"), doctest::Contains("WAIT"), delayqueue::Error);
}

TEST_CASE("managed services: it is the same if the user has no right to these commands") {
  auto server = test::server_with({});
  Words user = {"ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"};
  for (const std::string& command : refused_by_the_strictest()) user.push_back("-" + command);
  Redis admin(server.socket());
  REQUIRE(admin.cmd(user) == "OK");
  Log log;
  use_library(url_of(server, "app:secret@"), {}, log);
  CAPTURE(log.lines());
  CHECK(log.lines().size() <= 10);
  use_dqctl(url_of(server, "app:secret@"));
}

// As the Enterprise policy of Azure Managed Redis: one address, no MOVED, but all keys of a command in one slot.
TEST_CASE("managed services: behind one address of a Cluster, hash_tag = on makes a queue work") {
  auto server = test::server_with({"--cluster-enabled", "yes", "--rename-command", "CONFIG", ""});
  Redis admin(server.socket());
  REQUIRE(admin.cmd({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"}) == "OK");
  REQUIRE(eventually([&] { return has(admin.cmd({"CLUSTER", "INFO"}).text, "cluster_state:ok"); }));

  delayqueue::Producer without(url_of(server), "mails");
  CHECK_THROWS_WITH_AS(without.send("42"), doctest::Contains("set keys.hash_tag to on"), delayqueue::ReplyError);

  const auto queue = with(&delayqueue::KeyOptions::hash_tag, delayqueue::HashTag::on);
  Log log;
  use_library(url_of(server), queue, log);
  CAPTURE(log.lines());
  CHECK(log.lines().size() <= 10);
  use_dqctl(url_of(server), {"--hash-tag", "on"});
}
