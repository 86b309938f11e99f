// Tests of the test tools for faults and topologies.
#include "support/test.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/cluster.h"
#include "support/proxy.h"
#include "support/sentinels.h"

namespace test {
namespace {

using Clock = std::chrono::steady_clock;

std::string failure(Redis& client, const std::vector<std::string>& words) {
  try {
    const Reply reply = client.cmd(words);
    return "none, but " + reply.text;
  } catch (const std::runtime_error& e) {
    return e.what();
  }
}

// A plain server for the tests of the proxy.
Node& node() {
  static Node one;
  return one;
}

TEST_CASE("node: a restarted node keeps its port and its data") {
  Node kept({{"--appendonly", "yes", "--appendfsync", "always", "--requirepass", "two words\""}, {"two words\""}});
  const int port = kept.port(), pid = kept.pid();
  CHECK(kept.cmd({"SET", "key", "value"}) == "OK");
  CHECK(has(Redis(port).cmd({"GET", "key"}).text, "NOAUTH"));
  kept.kill();
  CHECK_FALSE(kept.running());
  CHECK(kept.pid() == -1);
  Redis client(port, {10s, {"two words\""}});
  CHECK(has(failure(client, {"PING"}), "refused"));
  kept.restart();
  CHECK(kept.port() == port);
  CHECK(kept.pid() != pid);
  CHECK(client.cmd({"GET", "key"}) == "value");
}

TEST_CASE("node: a frozen node does not answer until it is thawed") {
  Redis client(node().port(), {100ms, {}});
  CHECK(node().cmd({"PING"}) == "PONG");
  node().freeze();
  CHECK_FALSE(node().running());
  CHECK(has(failure(client, {"PING"}), "temporarily unavailable"));
  node().thaw();
  CHECK(node().running());
  CHECK(node().cmd({"PING"}) == "PONG");
}

TEST_CASE("node: the error of a server that does not start contains its log") {
  CHECK_THROWS_WITH_AS(Node({{"--no-such-setting", "1"}}), doctest::Contains("no-such-setting"), std::runtime_error);
}

TEST_CASE("sentinels: a failover happens on request, and when the master dies") {
  Sentinels sentinels;
  Node& first = sentinels.master();
  CHECK(&first == &sentinels.node(0));
  CHECK(first.cmd({"SET", "key", "value"}) == "OK");
  CHECK(first.cmd({"WAIT", "2", "5000"}) == 2);
  Node& second = sentinels.failover();
  CHECK(&second != &first);
  CHECK(&sentinels.master() == &second);
  CHECK(second.cmd({"SET", "after", "failover"}) == "OK");

  second.kill();
  Node& third = sentinels.wait_for_master(second);
  CHECK(&third != &second);
  CHECK(third.cmd({"GET", "key"}) == "value");
  CHECK(sentinels.sentinel(2).cmd({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "dqm"}) ==
        std::vector<std::string>{"127.0.0.1", std::to_string(third.port())});
  CHECK(has(sentinels.url(), "127.0.0.1:" + std::to_string(sentinels.sentinel(1).port()) + ","));
}

Cluster& cluster() {
  static Cluster one;
  return one;
}

// Stores `count` keys in the slot of `tag`, on its owner.
void fill(const std::string& tag, int count) {
  for (int i = 0; i < count; ++i) CHECK(cluster().owner(tag).cmd({"SET", tag + std::to_string(i), "value"}) == "OK");
}

TEST_CASE("cluster: slot_of agrees with the server") {
  for (const std::string key : {"key", "{a}b", "a", "{}a", "x{b}{c}", "{a", "dp:orders", "{dp:orders}:ready"}) {
    CHECK(node().cmd({"CLUSTER", "KEYSLOT", key}).error());  // not a cluster
    CHECK(cluster().node(0).cmd({"CLUSTER", "KEYSLOT", key}) == slot_of(key));
  }
}

TEST_CASE("cluster: during a migration a slot stays with its owner until it is finished") {
  const std::string tag = "{moving}";
  const int slot = slot_of(tag);
  fill(tag, 5);
  Node& from = cluster().owner(tag);
  Node& to = cluster().other_master(from);
  cluster().begin_migration(slot, to);
  CHECK(from.cmd({"GET", tag + "0"}) == "value");
  CHECK(has(from.cmd({"GET", tag + "none"}).text, "ASK " + std::to_string(slot) + " " + to.address()));
  CHECK(cluster().migrate_keys(slot, 3) == 3);
  CHECK(has(from.cmd({"MGET", tag + "0", tag + "1", tag + "2", tag + "3", tag + "4"}).text, "TRYAGAIN"));
  CHECK_THROWS_AS(cluster().finish_migration(slot), std::runtime_error);
  CHECK(cluster().migrate_keys(slot, 100) == 2);
  CHECK(cluster().migrate_keys(slot, 100) == 0);
  CHECK(&cluster().owner(tag) == &from);
  cluster().finish_migration(slot);
  CHECK(&cluster().owner(tag) == &to);
  CHECK(to.cmd({"GET", tag + "4"}) == "value");
  CHECK(has(from.cmd({"GET", tag + "4"}).text, "MOVED " + std::to_string(slot) + " " + to.address()));
}

TEST_CASE("cluster: a replica takes over on request, and when its master dies") {
  const std::string tag = "{heir}";
  fill(tag, 1);
  Node& first = cluster().owner(tag);
  Node& heir = cluster().replica_of(first);
  CHECK(&cluster().failover(tag) == &heir);
  CHECK(&cluster().owner(tag) == &heir);
  CHECK(heir.cmd({"GET", tag + "0"}) == "value");
  CHECK(&cluster().replica_of(heir) == &first);
  CHECK(has(first.cmd({"GET", tag + "0"}).text, "MOVED"));

  heir.kill();
  CHECK(&cluster().owner(tag) == &first);
  heir.restart();
  cluster().wait_ok();
  CHECK(&cluster().replica_of(first) == &heir);
}

TEST_CASE("proxy: without faults, all bytes pass") {
  for (const bool by_port : {true, false}) {
    CAPTURE(by_port);
    FaultProxy proxy(by_port ? node().address() : node().file("s"),
                     by_port ? FaultProxy::Via::port : FaultProxy::Via::unix_socket);
    Redis client = by_port ? Redis(proxy.port()) : Redis(proxy.address());
    const std::string big(3'000'000, 'x');
    CHECK(client.cmd({"SET", "big", big}) == "OK");
    CHECK(client.cmd({"GET", "big"}).text.size() == big.size());
    CHECK(proxy.url() == (by_port ? "redis://127.0.0.1:" + std::to_string(proxy.port()) : "unix://" + proxy.address()));
    CHECK(proxy.counts().links == 1);
    CHECK(proxy.counts().open == 1);
    { const Redis gone = std::move(client); }
    CHECK(eventually([&] { return proxy.counts().open == 0; }));
    CHECK(proxy.counts().cut == 0);
  }
}

TEST_CASE("proxy: a delay applies in both directions") {
  FaultProxy proxy(node().address());
  Redis client(proxy.port());
  client.cmd({"PING"});
  proxy.delay(100ms);
  const auto begin = Clock::now();
  CHECK(client.cmd({"PING"}) == "PONG");
  CHECK(Clock::now() - begin >= 200ms);
  proxy.delay(0ms);
  CHECK(client.cmd({"PING"}) == "PONG");
  CHECK(proxy.counts().links == 1);
}

TEST_CASE("proxy: cut and reset close all open links") {
  FaultProxy proxy(node().address());
  Redis one(proxy.port()), two(proxy.port());
  one.cmd({"PING"});
  two.cmd({"PING"});
  CHECK(proxy.cut() == 2);
  CHECK(has(failure(one, {"PING"}), "closed the connection"));
  CHECK(one.cmd({"PING"}) == "PONG");
  CHECK(proxy.reset() == 1);
  CHECK(has(failure(one, {"PING"}), "reset"));
  const auto counts = proxy.counts();
  CHECK(counts.links == 3);
  CHECK(counts.open == 0);
  CHECK(counts.cut == 2);
  CHECK(counts.reset == 1);
}

TEST_CASE("proxy: a dropped reply belongs to a command that ran, a dropped command does not run") {
  FaultProxy proxy(node().address());
  Redis client(proxy.port());
  node().cmd({"SET", "n", "0"});
  proxy.drop_replies(2);
  CHECK(has(failure(client, {"INCR", "n"}), "closed the connection"));
  CHECK(node().cmd({"GET", "n"}) == "1");
  CHECK(has(failure(client, {"INCR", "n"}), "closed the connection"));
  CHECK(client.cmd({"INCR", "n"}) == 3);
  proxy.drop_commands(1);
  CHECK(has(failure(client, {"INCR", "n"}), "closed the connection"));
  CHECK(client.cmd({"GET", "n"}) == "3");
  CHECK(proxy.counts().dropped == 3);
}

// A client without a parser: it returns bytes as received. `words` is an inline command.
class Raw {
 public:
  explicit Raw(const FaultProxy& proxy) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    proxy.address().copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }

  void send(const std::string& words) {
    const std::string line = words + "\r\n";
    REQUIRE(::send(fd_.get(), line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size()));
  }

  bool silent(std::chrono::milliseconds span) {
    pollfd one{fd_.get(), POLLIN, 0};
    return ::poll(&one, 1, static_cast<int>(span.count())) == 0;
  }

  std::string receive() {  // returns the next bytes; "" at the end
    char bytes[256];
    REQUIRE_FALSE(silent(10s));
    return {bytes, static_cast<std::size_t>(std::max<ssize_t>(::recv(fd_.get(), bytes, sizeof bytes, 0), 0))};
  }

 private:
  const delayqueue::Descriptor fd_;
};

TEST_CASE("proxy: only the first half of a truncated reply passes") {
  for (const auto delay : {0ms, 20ms}) {
    FaultProxy proxy(node().file("s"), FaultProxy::Via::unix_socket);
    Raw client(proxy);
    proxy.delay(delay);
    client.send("ECHO first");
    CHECK(client.receive() == "$5\r\nfirst\r\n");
    proxy.truncate_replies(1);
    client.send("PING");
    CHECK(client.receive() == "+PO");
    CHECK(client.receive().empty());
    CHECK(proxy.counts().truncated == 1);
    CHECK(proxy.counts().open == 0);
  }
}

TEST_CASE("proxy: commands are cut after so many bytes, within a command or between two, and the link is closed") {
  FaultProxy proxy(node().file("s"), FaultProxy::Via::unix_socket);
  node().cmd({"SET", "n", "0"});
  const std::string increment = "INCR n\r\n";
  for (const std::size_t bytes : {increment.size(), 2 * increment.size() - 1}) {
    CAPTURE(bytes);
    const std::string before = node().cmd({"GET", "n"}).text;
    Raw client(proxy);
    proxy.cut_commands_after(bytes);
    client.send("INCR n\r\nINCR n");  // in one read
    while (!client.receive().empty()) continue;
    CHECK(eventually([&] { return node().cmd({"GET", "n"}).text != before; }));
    CHECK(node().cmd({"GET", "n"}).text == std::to_string(std::stoi(before) + 1));
  }
  CHECK(proxy.counts().truncated == 2);
  Raw later(proxy);
  later.send("INCR n");
  CHECK(later.receive() == ":3\r\n");
}

TEST_CASE("proxy: a black hole passes nothing until it ends, and then everything") {
  FaultProxy proxy(node().file("s"), FaultProxy::Via::unix_socket);
  Raw open(proxy);
  open.send("PING");
  CHECK(open.receive() == "+PONG\r\n");
  node().cmd({"SET", "n", "0"});
  proxy.black_hole(true);
  Raw late(proxy);
  open.send("INCR n");
  late.send("INCR n");
  CHECK(open.silent(100ms));
  CHECK(late.silent(0ms));
  CHECK(node().cmd({"GET", "n"}) == "0");
  CHECK(proxy.counts().open == 2);
  proxy.black_hole(false);
  CHECK(std::set{open.receive(), late.receive()} == std::set<std::string>{":1\r\n", ":2\r\n"});
}

TEST_CASE("proxy: a black hole that begins with a command keeps that one and all after it") {
  FaultProxy proxy(node().file("s"), FaultProxy::Via::unix_socket);
  Raw first(proxy), second(proxy);
  node().cmd({"SET", "n", "0"});
  proxy.black_hole_from("n 2");
  first.send("INCRBY n 1");
  CHECK(first.receive() == ":1\r\n");
  second.send("INCRBY n 2");
  CHECK(second.silent(100ms));
  first.send("INCRBY n 1");
  CHECK(first.silent(100ms));
  CHECK(node().cmd({"GET", "n"}) == "1");
  proxy.black_hole(false);
  CHECK(first.receive() != "");
  CHECK(second.receive() != "");
  CHECK(node().cmd({"GET", "n"}) == "4");
  first.send("INCRBY n 2");
  CHECK(first.receive() == ":6\r\n");  // once
}

TEST_CASE("proxy: a command whose reply is held has run") {
  FaultProxy proxy(node().file("s"), FaultProxy::Via::unix_socket);
  Raw client(proxy);
  node().cmd({"SET", "n", "0"});
  proxy.hold_replies(true);
  client.send("INCR n");
  CHECK(eventually([] { return node().cmd({"GET", "n"}) == "1"; }));
  CHECK(client.silent(50ms));
  proxy.hold_replies(false);
  CHECK(client.receive() == ":1\r\n");
}

TEST_CASE("proxy: refuse keeps the open links") {
  for (const auto via : {FaultProxy::Via::port, FaultProxy::Via::unix_socket}) {
    FaultProxy proxy(node().address(), via);
    const auto make = [&] { return via == FaultProxy::Via::port ? Redis(proxy.port()) : Redis(proxy.address()); };
    Redis old = make(), fresh = make();
    CHECK(old.cmd({"PING"}) == "PONG");
    proxy.refuse(true);
    CHECK(has(failure(fresh, {"PING"}), "refused"));
    CHECK(old.cmd({"PING"}) == "PONG");
    proxy.refuse(false);
    CHECK(fresh.cmd({"PING"}) == "PONG");
    CHECK(proxy.counts().links == 2);
  }
}

TEST_CASE("proxy: new links go to the new target, even if the old server is gone") {
  Node other;
  FaultProxy proxy(other.address());
  Redis client(proxy.port());
  CHECK(client.cmd({"PING"}) == "PONG");
  other.kill();
  for (int i = 0; i < 2; ++i) CHECK(failure(client, {"PING"}).find("none, but") == std::string::npos);
  proxy.retarget(node().address());
  node().cmd({"SET", "who", "node"});
  CHECK(client.cmd({"GET", "who"}) == "node");
  CHECK_THROWS_AS(FaultProxy("localhost:1"), std::invalid_argument);
}

}  // namespace
}  // namespace test
