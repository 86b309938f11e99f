// Loading the scripts into every server of a queue, so that users without the right to EVAL keep working after a
// failover.
#include "support/test.h"

#include "store/scripts.h"
#include "support/acl.h"
#include "support/answers.h"
#include "support/cluster.h"
#include "support/local.h"
#include "support/scripted_server.h"
#include "support/sentinels.h"

namespace delayqueue {
namespace {

using test::Words;

// Adds the user of the documented rule, with the hash tag that a Cluster needs in its keys.
void add_user(const test::Node& node, const std::string& role, const Words& more) {
  Words words = test::rule_of(role);
  for (std::string& word : words) {
    if (word == "~dp:orders:*") word = "~{dp:orders}:*";
  }
  words.insert(words.end(), more.begin(), more.end());
  test::must(node, words);
}

Client as(const std::string& role, const std::string& url) {
  ClientOptions options = test::logged_in_as("orders-" + role, "secret");
  options.keys.hash_tag = HashTag::on;
  return {url, options};
}

void check_loaded(const std::string& url, std::size_t servers) {
  const Client loader = as("loader", url);
  for (const ServerScripts& one : find_scripts(loader)) CHECK(one.loaded.empty());
  const auto loaded = load_scripts(loader);
  CHECK(loaded.size() == servers);
  for (const ServerScripts& one : loaded) CHECK_MESSAGE(one.error.empty(), one.address, ": ", one.error);
  for (const ServerScripts& one : find_scripts(loader)) {
    CHECK(one.missing.empty());
    CHECK(one.loaded.size() == store::scripts::all().size());
  }
}

// Checks that a producer and a consumer without EVAL work before and after the master changes.
template <class Change>
void check_failover(const std::string& url, Change change) {
  ConsumerOptions options;
  options.concurrency = 1;
  test::Ledger ledger;
  Consumer consumer(as("consumer", url), "orders", ledger.watch(), options);
  consumer.start();
  Producer producer(as("producer", url), "orders");
  producer.send("before");
  REQUIRE(ledger.settles(1));
  change();
  std::string error;
  const auto sends = [&] { return (error = thrown([&] { producer.send("after"); })) == "nothing"; };
  CHECK_MESSAGE(eventually(sends, 30s), error);
  CHECK(ledger.settles(2));
  CHECK(consumer.stop());
}

TEST_CASE("loading scripts: with Sentinels the replicas get them too, so that a failover needs no EVAL") {
  test::Sentinels world;
  for (std::size_t i = 0; i < test::Sentinels::kNodes; ++i) {
    add_user(world.node(i), "loader", {});
    for (const char* role : {"producer", "consumer"}) add_user(world.node(i), role, {"+role"});
  }
  check_loaded(world.url(), test::Sentinels::kNodes);
  check_failover(world.url(), [&] { world.failover(); });
}

TEST_CASE("loading scripts: all nodes of a Cluster get them, so that a migrated slot needs no EVAL") {
  test::Cluster world;
  const Words more = {"+cluster|slots", "+cluster|info", "+asking"};
  for (std::size_t i = 0; i < test::Cluster::kNodes; ++i) {
    add_user(world.node(i), "loader", {"+cluster|nodes"});
    for (const char* role : {"producer", "consumer"}) add_user(world.node(i), role, more);
  }
  check_loaded(world.url(), test::Cluster::kNodes);
  const std::string key = "{dp:orders}:ready";
  check_failover(world.url(), [&] {
    const int slot = test::slot_of(key);
    world.begin_migration(slot, world.other_master(world.owner(key)));
    while (world.migrate_keys(slot, 100) > 0) {
    }
    world.finish_migration(slot);
  });
}

TEST_CASE("loading scripts: a server that is away is reported, and the others get them") {
  test::Sentinels world;
  world.node(2).kill();
  const auto loaded = load_scripts(world.url());
  CHECK(loaded.size() == test::Sentinels::kNodes);
  const auto failed = [](const ServerScripts& one) { return !one.error.empty() && one.loaded.empty(); };
  CHECK(std::count_if(loaded.begin(), loaded.end(), failed) == 1);
}

TEST_CASE("loading scripts: a user without the right to load them gets the list of missing ones") {
  PrivateServer server;
  test::Redis(server.socket())
      .cmd({"ACL", "SETUSER", "looker", "on", ">secret", "~*", "+@all", "-script", "+script|exists"});
  ClientOptions options;
  options.user = "looker";
  options.password = "secret";
  const auto refused = load_scripts({server.url(), options});
  REQUIRE(refused.size() == 1);
  CHECK(!refused[0].error.empty());
  CHECK(refused[0].loaded.empty());
  CHECK(refused[0].missing.size() == store::scripts::all().size());
}

// A Sentinel whose replies the test gives. It names a master at a port where no server listens.
class FalseSentinel {
 public:
  explicit FalseSentinel(const std::vector<std::string>& replicas) {
    std::vector<std::string> all;
    for (const std::string& ip : replicas) {
      all.push_back(test::array({test::bulk("ip"), test::bulk(ip), test::bulk("port"), test::bulk(port())}));
    }
    replicas_ = test::array(all);
  }

  std::string url(const std::string& scheme) const { return scheme + "+sentinel://" + server_.host() + "/m"; }

 private:
  std::string port() const { return std::to_string(closed_port_.number()); }

  std::string answer(const Words& words) const {
    if (words[0] == "HELLO") return test::hello();
    if (words[1] == "MASTER") return test::array({});
    if (words[1] == "REPLICAS") return replicas_;
    return test::array({test::bulk("127.0.0.1"), test::bulk(port())});
  }

  const test::Port closed_port_;
  std::string replicas_;
  const test::ScriptedServer server_{[this](const Words& words) { return answer(words); }};
};

TEST_CASE("loading scripts: a replica whose name TLS refuses is reported, and one without a name is left out") {
  const FalseSentinel sentinel({"", ".example"});
  ClientOptions options;
  options.sentinel.encrypted = false;
  const std::string url = sentinel.url("rediss");
  for (const auto& servers : {load_scripts({url, options}), find_scripts({url, options})}) {
    REQUIRE(servers.size() == 2);
    CHECK(servers[0].error.find("Connection refused") != std::string::npos);
    CHECK(servers[1].address.find(".example:") == 0);
    CHECK(servers[1].error.find("tls.server_name") != std::string::npos);
  }
}

TEST_CASE("loading scripts: of more servers than a Cluster can have, the first thousand are used") {
  std::vector<std::string> replicas;
  std::string nodes;
  const test::Port closed_port;
  for (int i = 0; i < 5000; ++i) {
    replicas.push_back("127.1." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1));
    nodes += std::string(40, 'a') + " " + replicas.back() + ":" + std::to_string(closed_port.number()) +
             "@1 slave - 0 0 1 connected\n";
  }
  const FalseSentinel sentinel(replicas);
  CHECK(load_scripts(sentinel.url("redis")).size() == 1000);
  const test::ScriptedServer node(
      [&](const Words& words) { return words[0] == "HELLO" ? test::hello() : test::bulk(nodes); });
  CHECK(load_scripts("redis+cluster://" + node.host()).size() == 1000);
}

}  // namespace
}  // namespace delayqueue
