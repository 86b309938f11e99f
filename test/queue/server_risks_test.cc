// Server settings and states that can lose messages: each is provoked on a real server and must be reported.
#include "support/test.h"

#include <sys/socket.h>
#include <unistd.h>

#include "queue/server_risks.h"
#include "support/answers.h"
#include "support/raw_server.h"

namespace delayqueue {
namespace {

using test::Lines;
using test::set_config;

ConsumerOptions logging(Lines& lines) {
  ConsumerOptions options = quick();
  options.logger = lines.logger();
  return options;
}

std::vector<std::string> texts(const std::vector<Risk>& risks, RiskKind kind) {
  std::vector<std::string> found;
  for (const Risk& risk : risks) {
    if (risk.kind == kind) found.push_back(risk.text);
  }
  return found;
}

struct Provoked {
  std::vector<std::pair<std::string, std::string>> settings;
  RiskKind kind;
  std::string begin, meaning;  // of the risk's text
};

std::vector<Provoked> all_provoked() {
  return {
      {{{"maxmemory", "67108864"}, {"maxmemory-policy", "allkeys-lru"}},
       RiskKind::eviction,
       "maxmemory-policy allkeys-lru with maxmemory 67108864: ",
       "messages and whole parts of a queue"},
      {{{"maxmemory", "67108864"}, {"maxmemory-policy", "volatile-ttl"}},
       RiskKind::eviction,
       "maxmemory-policy volatile-ttl with maxmemory 67108864: ",
       "payloads with a TTL"},
      {{{"appendonly", "no"}, {"save", ""}},
       RiskKind::persistence,
       "appendonly no, save \"\": ",
       "a restart of Redis loses the whole queue"},
      {{{"appendonly", "no"}, {"save", "3600 1"}},
       RiskKind::persistence,
       "appendonly no, save \"3600 1\": ",
       "all writes after the last snapshot"},
      {{{"appendfsync", "no"}}, RiskKind::persistence, "appendfsync no: ", "a crash of Redis' machine"},
      {{{"replica-serve-stale-data", "yes"}, {"replicaof", "127.0.0.1 1"}},
       RiskKind::replica,
       "role slave: it is a replica of 127.0.0.1:1: ",
       "connect to the master"},
  };
}

// REPLICAOF is a command, not a setting.
void provoke(Redis& client, const Provoked& provoked) {
  for (const auto& [name, value] : provoked.settings) {
    if (name == "replicaof") {
      REQUIRE(client.cmd({"REPLICAOF", "127.0.0.1", "1"}) == "OK");
    } else {
      set_config(client, name, value);
    }
  }
}

TEST_CASE("risks: a well configured server has none") {
  PrivateServer own;
  Queue queue(own.url());
  for (const Risk& risk : queue.inspector.server().risks) MESSAGE(risk.text);
  CHECK(queue.inspector.server().risks.empty());
  Redis client(own.socket());
  set_config(client, "maxmemory-policy", "allkeys-lru");  // evicts nothing without maxmemory
  CHECK(queue.inspector.server().risks.empty());
  set_config(client, "maxmemory-policy", "noeviction");
  set_config(client, "maxmemory", "67108864");
  set_config(client, "appendfsync", "always");
  CHECK(queue.inspector.server().risks.empty());
  Lines lines;
  const auto consumer = queue.consumer([](const Message&) { return ack(); }, logging(lines));
  consumer->start();
  CHECK(lines.count(Severity::warning, "") == 0);
  CHECK(lines.count(Severity::debug, "cannot tell") == 0);
}

TEST_CASE("risks: each is returned by server(), and logged once per process by a starting consumer or a producer") {
  for (const Provoked& provoked : all_provoked()) {
    CAPTURE(provoked.begin);
    PrivateServer own;
    Queue queue(own.url());
    Redis client(own.socket());
    provoke(client, provoked);
    const auto found = texts(queue.inspector.server().risks, provoked.kind);
    REQUIRE(found.size() == 1);
    CHECK(found[0].rfind(provoked.begin, 0) == 0);
    CHECK(has(found[0], provoked.meaning));
    CHECK(queue.inspector.server().risks.size() == 1);

    ConsumerOptions silent = quick();
    silent.logger = no_log();  // its risks are logged by the next consumer
    const auto quiet = queue.consumer([](const Message&) { return ack(); }, silent);
    quiet->start();
    Lines lines;
    const auto consumer = queue.consumer([](const Message&) { return ack(); }, logging(lines));
    consumer->start();
    CHECK(lines.count(Severity::warning, found[0]) == 1);
    CHECK(lines.count(Severity::warning, "redis at unix:" + own.socket() + ": " + found[0]) == 1);
    const auto another = Queue(own.url()).consumer([](const Message&) { return ack(); }, logging(lines));
    another->start();
    CHECK(lines.count(Severity::warning, found[0]) == 1);

    if (provoked.kind == RiskKind::replica) continue;  // a replica refuses sends
    const auto options = with(&ProducerOptions::logger, lines.logger());
    Producer(own.url(), queue.name, options).send("x");
    CHECK(lines.count(Severity::warning, found[0]) == 1);
    PrivateServer other;  // the same text for another server is another warning
    Redis client_of_other(other.socket());
    provoke(client_of_other, provoked);
    Producer producer(other.url(), queue.name, options);
    CHECK(lines.count(Severity::warning, found[0]) == 1);
    for (int i = 0; i < 3; ++i) producer.send("x");
    CHECK(lines.count(Severity::warning, found[0]) == 2);
    CHECK(lines.count(Severity::warning, "redis at unix:" + other.socket() + ": " + found[0]) == 1);
  }
}

TEST_CASE("risks: while Redis loads its append-only file, nothing is said about persistence") {
  // While it loads, Redis delays each command of the file, and answers others every 1,024 commands.
  PrivateServer own = test::server_with({"--appendonly", "yes", "--appendfsync", "always", "--save", "",
                                         "--aof-use-rdb-preamble", "no", "--key-load-delay", "500"});
  Redis(own.socket()).cmd({"EVAL", "for i = 1, 8000 do redis.call('SET', 'k' .. i, 'x') end", "0"});
  own.kill();
  std::thread starting([&] { own.restart(); });
  bool seen = false;
  CHECK(eventually(
      [&] {
        try {
          seen = has(Redis(own.socket()).cmd({"INFO", "persistence"}).text, "loading:1");
        } catch (const std::exception&) {  // it does not listen yet
        }
        return seen;
      },
      kPatience));
  if (seen) {
    redis::Address address;
    address.path = own.socket();
    ClientOptions patient;
    patient.connect_timeout = patient.command_timeout = kPatience;
    redis::Connection connection(address, {{}, {}, "test", 0}, patient);
    CHECK(texts(find_risks(connection), RiskKind::persistence).empty());
  }
  starting.join();
}

// The value that Redis compares with maxmemory.
long long used_memory(Redis& client) {
  return std::stoll(test::info("memory", "used_memory", client)) -
         std::stoll(test::info("memory", "mem_not_counted_for_evict", client));
}

void set_used_percent(Redis& client, int percent) {
  set_config(client, "maxmemory", std::to_string(used_memory(client) * 100 / percent));
}

// Sends until Redis refuses with OOM.
void fill_memory(Queue& queue, Redis& client) {
  set_config(client, "maxmemory", std::to_string(used_memory(client) + 8'000'000));
  const auto fill = [&] {
    for (int i = 0; i < 10'000; ++i) queue.send(std::string(1000, 'x'));
  };
  CHECK_THROWS_WITH_AS(fill(), doctest::Contains("OOM"), ReplyError);
}

TEST_CASE("risks: full memory is critical, and memory that is almost full is a risk") {
  PrivateServer own;
  Queue queue(own.url());
  Redis client(own.socket());
  fill_memory(queue, client);
  const auto risks = queue.inspector.server().risks;
  REQUIRE(risks.size() == 1);
  CAPTURE(risks[0].text);
  CHECK(risks[0].kind == RiskKind::memory);
  CHECK(risks[0].critical);
  CHECK(has(risks[0].text, " with noeviction: Redis has no memory left and refuses sends (OOM); raise maxmemory"));

  set_used_percent(client, 94);
  const auto nearly = queue.inspector.server().risks;
  REQUIRE(nearly.size() == 1);
  CHECK(nearly[0].kind == RiskKind::memory);
  CHECK_FALSE(nearly[0].critical);
  CHECK(has(nearly[0].text, ": once it is full Redis refuses sends (OOM)"));
  set_used_percent(client, 85);
  CHECK(queue.inspector.server().risks.empty());
  set_used_percent(client, 94);
  set_config(client, "maxmemory-policy", "allkeys-lru");  // evicts: a risk of another kind
  CHECK(texts(queue.inspector.server().risks, RiskKind::memory).empty());
}

TEST_CASE("risks: a consumer warns once about full memory, even when the figures change") {
  PrivateServer own;
  Queue queue(own.url());
  Redis client(own.socket());
  fill_memory(queue, client);
  Lines lines;
  const auto consumer = queue.consumer([](const Message&) { return nack(std::chrono::hours(1)); }, logging(lines));
  consumer->start();
  for (const int percent : {110, 120, 130}) {
    const auto connects = consumer->metrics().stats.connects;
    set_used_percent(client, percent);
    if (percent == 130) set_config(client, "appendfsync", "no");
    REQUIRE(test::cut_connections("delayqueue", client) > 0);
    REQUIRE(eventually([&] { return consumer->metrics().stats.connects > connects; }, kPatience));
  }
  REQUIRE(eventually([&] { return lines.count(Severity::warning, "appendfsync no") == 1; }, kPatience));  // logged last
  CHECK(lines.count(Severity::warning, "refuses sends (OOM)") == 1);
}

TEST_CASE("risks: a risk that several objects find at the same time is logged once") {
  PrivateServer own;
  Redis client(own.socket());
  set_config(client, "appendfsync", "no");
  Lines lines;
  const auto options = with(&ProducerOptions::logger, lines.logger());
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) threads.emplace_back([&] { Producer(own.url(), "q", options).send("x"); });
  for (std::thread& thread : threads) thread.join();
  CHECK(lines.count(Severity::warning, "appendfsync no") == 1);
}

TEST_CASE("risks: a producer that only cancels or reschedules warns, too") {
  const std::string id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  for (const bool cancels : {true, false}) {
    PrivateServer own;
    Redis client(own.socket());
    set_config(client, "appendfsync", "no");
    Lines lines;
    Producer producer(own.url(), "q", with(&ProducerOptions::logger, lines.logger()));
    if (cancels) {
      CHECK(producer.cancel(id) == State::unknown);
    } else {
      CHECK(producer.reschedule(id, {}) == Outcome::unknown);
    }
    CHECK(lines.count(Severity::warning, "appendfsync no") == 1);
  }
}

TEST_CASE("risks: a failed write to disk is reported") {
  PrivateServer own;
  Queue queue(own.url());
  Redis client(own.socket());
  std::filesystem::create_directory(own.folder() + "/dump.rdb");  // makes the snapshot fail
  REQUIRE(!client.cmd({"BGSAVE"}).error());
  const auto seen = [&] { return !texts(queue.inspector.server().risks, RiskKind::disk).empty(); };
  REQUIRE(eventually(seen, kPatience));
  const auto found = texts(queue.inspector.server().risks, RiskKind::disk);
  REQUIRE(found.size() == 1);
  CHECK(has(found[0], "rdb_last_bgsave_status err: the last snapshot failed"));
  Lines lines;
  const auto consumer = queue.consumer([](const Message&) { return ack(); }, logging(lines));
  consumer->start();
  CHECK(lines.count(Severity::warning, found[0]) == 1);
}

TEST_CASE("risks: after a reconnect only new risks are logged") {
  PrivateServer own;
  Queue queue(own.url());
  Redis client(own.socket());
  set_config(client, "appendfsync", "no");
  Lines lines;
  const auto consumer = queue.consumer([](const Message&) { return ack(); }, logging(lines));
  consumer->start();
  const auto reconnect = [&] {
    const auto connects = consumer->metrics().stats.connects;
    REQUIRE(test::cut_connections("delayqueue", client) > 0);
    REQUIRE(eventually([&] { return consumer->metrics().stats.connects > connects; }, kPatience));
    queue.send("x");
    const auto acked = consumer->metrics().stats.acked;
    CHECK(eventually([&] { return consumer->metrics().stats.acked > acked || queue.empty(client); }, kPatience));
  };
  reconnect();
  CHECK(lines.count(Severity::warning, "appendfsync no") == 1);
  set_config(client, "maxmemory-policy", "allkeys-random");
  set_config(client, "maxmemory", "67108864");
  reconnect();
  CHECK(lines.count(Severity::warning, "allkeys-random") == 1);
  CHECK(lines.count(Severity::warning, "appendfsync no") == 1);
  set_config(client, "appendfsync", "everysec");
  reconnect();
  set_config(client, "appendfsync", "no");
  reconnect();
  CHECK(lines.count(Severity::warning, "allkeys-random") == 1);
  CHECK(lines.count(Severity::warning, "appendfsync no") == 2);
}

TEST_CASE("risks: a server that hides its settings is usable, and is reported as far as it shows them") {
  for (const std::string user : {"some", "none"}) {
    CAPTURE(user);
    const bool info = user == "some";
    PrivateServer own;
    Redis client(own.socket());
    set_config(client, "appendonly", "no");
    const std::string hidden = info ? "+info" : "-info";
    REQUIRE(client.cmd({"ACL", "SETUSER", user, "on", ">pw", "~*", "&*", "+@all", "-config", hidden}) == "OK");
    Queue queue("unix://" + user + ":pw@" + own.socket());
    const auto risks = queue.inspector.server().risks;
    CHECK(texts(risks, RiskKind::persistence).size() == (info ? 1 : 0));
    CHECK(texts(risks, RiskKind::unknown).size() == (info ? 2 : 5));
    if (info) CHECK(has(texts(risks, RiskKind::persistence)[0], "or all; set appendonly yes"));
    CHECK(has(texts(risks, RiskKind::unknown)[0], info ? "CONFIG GET save failed: NOPERM" : "INFO memory failed"));

    Lines lines;
    const auto consumer = queue.consumer([](const Message&) { return ack(); }, logging(lines));
    consumer->start();
    CHECK(lines.count(Severity::warning, "") == (info ? 1 : 0));
    CHECK(lines.count(Severity::debug, "cannot examine all risks") == (info ? 2 : 5));
    queue.send("x");
    CHECK(eventually([&] { return consumer->metrics().stats.acked == 1; }, kPatience));
    CHECK(consumer->metrics().stats.errors == 0);
  }
}

TEST_CASE("risks: a connection lost while the risks are read costs one attempt; the next connection skips the read") {
  PrivateServer own;
  const auto connect = [&] {
    redis::Address address;
    address.path = own.socket();
    return std::make_unique<redis::Connection>(address, redis::Login{"", "", "t", 0}, ClientOptions());
  };
  Redis client(own.socket());
  set_config(client, "appendfsync", "no");
  Lines lines;
  const EventSink report({"q", ""}, lines.logger(), nullptr, false);
  RiskWatch watch;
  auto connection = connect();
  REQUIRE(test::cut_connections("t", client) == 1);
  CHECK_THROWS_AS(watch.find(*connection), ConnectionError);
  connection = connect();
  REQUIRE(test::cut_connections("t", client) == 1);
  CHECK_FALSE(watch.find(*connection));  // sends nothing
  connection = connect();
  const auto risks = watch.find(*connection);
  REQUIRE(risks);
  watch.log(*risks, connection->where(), report);
  CHECK(lines.count(Severity::warning, "appendfsync no") == 1);
}

TEST_CASE("risks: replies of an unexpected type cause no error") {
  for (const std::string answer : {":1\r\n", "$-1\r\n", "*1\r\n:5\r\n", "+OK\r\n", "*-1\r\n", "-ERR no\r\n",
                                   "*2\r\n*0\r\n:1\r\n", "$7\r\n:::\r\n\r\r\r\n", "-LOADING x\r\n"}) {
    CAPTURE(answer);
    test::Listener listener([&](int fd) {
      const std::string hello = "*2\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n";
      char request[4096];
      for (const std::string& reply : {hello, answer + answer + answer + answer + answer}) {
        if (::read(fd, request, sizeof request) <= 0) return;
        if (::send(fd, reply.data(), reply.size(), MSG_NOSIGNAL) <= 0) return;
      }
      test::swallow(fd);
    });
    redis::Connection connection(listener.address(), redis::Login{"", "", "t", 0}, ClientOptions());
    CHECK_NOTHROW(find_risks(connection));
  }
}

// A master of a Cluster.
ServerInfo master_of_cluster(const std::string& address, milliseconds ahead, const std::string& full_coverage) {
  ServerInfo info;
  info.address = address;
  info.clock_ahead = ahead;
  info.full_coverage = full_coverage;
  info.round_trip = 10ms;
  return info;
}

TEST_CASE("risks: cluster-require-full-coverage yes stops all partitions of a queue when one master is away") {
  std::vector<ServerInfo> masters = {master_of_cluster("a:1", 0ms, "yes"), master_of_cluster("b:1", 0ms, "no"),
                                     master_of_cluster("c:1", 0ms, "")};
  add_partition_risks(masters);
  REQUIRE(masters[0].risks.size() == 1);
  CHECK(masters[0].risks[0].kind == RiskKind::coverage);
  CHECK_FALSE(masters[0].risks[0].critical);
  CHECK(has(masters[0].risks[0].text, "set cluster-require-full-coverage no"));
  CHECK(masters[1].risks.empty());
  REQUIRE(masters[2].risks.size() == 1);
  CHECK(masters[2].risks[0].kind == RiskKind::unknown);
  CHECK(has(masters[2].risks[0].text, "grant +config|get"));
  std::vector<ServerInfo> single = {master_of_cluster("a:1", 0ms, "yes")};
  add_partition_risks(single);
  CHECK(single[0].risks.empty());
}

TEST_CASE("risks: the clocks of the masters of a Cluster are compared, except of one that did not answer") {
  std::vector<ServerInfo> masters = {master_of_cluster("a:1", 300ms, "no"), master_of_cluster("b:1", -900ms, "no"),
                                     master_of_cluster("c:1", 9000ms, "no")};
  masters[2].error = "away";
  add_partition_risks(masters);
  REQUIRE(masters[0].risks.size() == 1);
  CHECK(masters[0].risks[0].kind == RiskKind::clock);
  CHECK(has(masters[0].risks[0].text, "1.2 s ahead of that of the master b:1"));
  CHECK(masters[1].risks.empty());
  CHECK(masters[2].risks.empty());
  std::vector<ServerInfo> near = {master_of_cluster("a:1", 300ms, "no"), master_of_cluster("b:1", -700ms, "no")};
  add_partition_risks(near);
  CHECK(near[0].risks.empty());
  std::vector<ServerInfo> none;
  add_partition_risks(none);
}

}  // namespace
}  // namespace delayqueue
