// A Client: what its copies and objects share, and what they do not; check(); forks.
#include "support/test.h"

#include "support/forked.h"

namespace delayqueue {
namespace {

using test::server;

// The ids of the connections with this name.
std::vector<std::string> ids(const std::string& name, Redis& on = test::redis()) {
  std::istringstream all(on.cmd({"CLIENT", "LIST"}).text);
  std::vector<std::string> found;
  for (std::string line; std::getline(all, line);) {
    if (has(line, " name=" + name + " ")) found.push_back(line.substr(0, line.find(' ')));
  }
  return found;
}

// A Client whose connections have this name.
Client client_named(const std::string& name) { return {server().url(), with(&ClientOptions::client_name, name)}; }

KeyOptions prefixed(const std::string& prefix) { return with(&KeyOptions::prefix, prefix); }

TEST_CASE("client: copies and with_keys() share connections, also after the Client is gone, and keys are their own") {
  const std::string name = fresh_queue(), queue = fresh_queue();
  auto client = std::make_unique<Client>(client_named(name));
  auto producer = std::make_unique<Producer>(*client, queue);
  Inspector inspector(Client(*client), queue);
  Producer tenant(client->with_keys(prefixed("tenant7")), queue);
  CHECK(client->keys().prefix == "dp");
  CHECK(client->with_keys(prefixed("tenant7")).keys().prefix == "tenant7");
  CHECK(producer->send("x").created());
  CHECK(tenant.send("y").created());
  CHECK(test::redis().cmd({"LLEN", "dp:" + queue + ":ready"}) == 1);
  CHECK(test::redis().cmd({"LLEN", "tenant7:" + queue + ":ready"}) == 1);
  CHECK(inspector.counts().ready == 1);
  CHECK(ids(name).size() == 1);
  const auto one = ids(name);
  client.reset();
  CHECK(producer->send("x").created());
  producer.reset();
  CHECK(inspector.counts().ready == 2);
  CHECK(tenant.send("y").created());
  CHECK(ids(name) == one);
}

TEST_CASE("client: a Client without objects keeps the connections, and the last of all closes them") {
  const std::string name = fresh_queue(), queue = fresh_queue();
  auto client = std::make_unique<Client>(client_named(name));
  CHECK(Producer(*client, queue).send("x").created());
  const auto one = ids(name);
  CHECK(one.size() == 1);
  CHECK(Producer(*client, queue).send("x").created());
  CHECK(ids(name) == one);
  const auto other = std::make_unique<Client>(*client);
  client.reset();
  CHECK(Producer(*other, queue).send("x").created());
  CHECK(ids(name) == one);
  Client assigned = client_named(name);
  assigned = *other;
  CHECK(Producer(assigned, queue).send("x").created());
  CHECK(ids(name) == one);
}

TEST_CASE("client: two that are made of the same URL share no connection, and a URL makes one for each object") {
  const std::string name = fresh_queue(), queue = fresh_queue();
  const Client first = client_named(name), second = client_named(name);
  Producer one(first, queue), two(second, queue);
  for (Producer* producer : {&one, &two}) CHECK(producer->send("x").created());
  CHECK(ids(name).size() == 2);
  const std::string url = server().url();
  Producer three(url, queue), four(url.c_str(), queue);
  CHECK(three.send("x").created());
  CHECK(four.send("x").created());
}

TEST_CASE("client: one that is not used connects to nothing, and none is needed") {
  const std::string name = fresh_queue();
  {
    const Client client = client_named(name);
    const Client copy = client.with_keys(prefixed("other"));
    const Producer producer(client, "orders");
    CHECK(ids(name).empty());
  }
  CHECK(thrown([] { Client("redis://no.such.host.invalid"); }) == "nothing");
}

TEST_CASE("client: check() connects and logs in, and the first call uses its connection") {
  const std::string name = fresh_queue(), queue = fresh_queue();
  const Client client = client_named(name);
  client.check();
  const auto one = ids(name);
  CHECK(one.size() == 1);
  Producer producer(client, queue);
  CHECK(producer.send("x").created());
  CHECK(ids(name) == one);
}

TEST_CASE("client: check() throws as a send would") {
  PrivateServerOptions arguments;
  arguments.arguments = {"--user", "ann", "on", ">pw", "~*", "&*", "+@all"};
  PrivateServer own(arguments);
  Client("unix://ann:pw@" + own.socket()).check();
  const Client wrong("unix://ann:no@" + own.socket());
  CHECK_THROWS_AS(wrong.check(), AccessDenied);
  CHECK(thrown([&] { wrong.check(); }) == thrown([&] { Producer(wrong, "orders").send("x"); }));
  const Client away(own.url());
  away.check();
  own.stop();
  CHECK_THROWS_AS(away.check(), ConnectionError);
  own.restart();
  away.check();
}

TEST_CASE("client: a missing URL is an error that names it") {
  const char* const unset = std::getenv("DELAYQUEUE_TEST_NOT_SET");
  const std::string null = "invalid_argument: url: null; is the environment variable set?";
  CHECK(thrown([&] { Client client(unset); }) == null);
  CHECK(thrown([&] { Client(unset, ClientOptions()); }) == null);
  CHECK(thrown([&] { Producer(unset, "orders"); }) == null);
  CHECK(thrown([&] { Inspector(unset, "orders"); }) == null);
  CHECK(thrown([&] { Consumer(unset, "orders", [](const Message&) { return ack(); }); }) == null);
  CHECK(has(thrown([] { Client(""); }), "invalid_argument: url: "));
}

TEST_CASE("client: keys that no queue of a Cluster can have are refused, with their names") {
  const Client cluster("redis+cluster://127.0.0.1:1");
  CHECK(has(thrown([&] { static_cast<void>(cluster.with_keys(with(&KeyOptions::hash_tag, HashTag::off))); }),
            "invalid_argument: keys.hash_tag: off, but a Cluster"));
  CHECK(has(thrown([&] { static_cast<void>(cluster.with_keys(prefixed("a{b"))); }), "invalid_argument: keys.prefix: "));
  CHECK(Client(server().url()).with_keys(prefixed("a{b")).keys().prefix == "a{b");
}

TEST_CASE("client: works in a fork of the process, with other connections, and the parent keeps its own") {
  const std::string name = fresh_queue(), queue = fresh_queue();
  const Client client = client_named(name);
  Producer producer(client, queue);
  CHECK(producer.send("a").created());
  const auto before = ids(name);
  CHECK(test::in_child([&] {
          Redis redis(server().socket());
          Producer own(client, queue);
          Inspector inspector(client, queue);
          return own.send("b").created() && inspector.counts().ready == 2 && ids(name, redis).size() == 2;
        }) == 0);
  CHECK(producer.send("c").created());
  CHECK(eventually([&] { return ids(name) == before; }, kPatience));
  CHECK(Inspector(client, queue).counts().ready == 3);
}

// A program makes a static Client, and then forks its processes.
TEST_CASE("client: one that the parent has not used serves any number of processes that are forked later") {
  const std::string name = fresh_queue(), queue = fresh_queue();
  static std::unique_ptr<Client> client;
  client = std::make_unique<Client>(client_named(name));
  for (int i = 0; i < 3; ++i) {
    CHECK(test::in_child([&] { return Producer(*client, queue).send("x").created(); }) == 0);
  }
  CHECK(Inspector(*client, queue).counts().ready == 3);
  const auto one = ids(name);
  CHECK(one.size() == 1);
  const Producer of_parent(*client, queue);
  CHECK(test::in_child([&] {
          const Client before = *client;
          client.reset();
          if (!Producer(before, queue).send("x").created()) return false;
          return test::in_child([&] { return Producer(before, queue).send("x").created(); }) == 0;
        }) == 0);
  CHECK(Inspector(*client, queue).counts().ready == 5);
  CHECK(ids(name) == one);
  client.reset();
}

TEST_CASE("client: of an embedded: URL all have one server for the process") {
  const Client one("embedded:"), two("embedded:");
  CHECK(Producer(one, "orders").send("x").created());
  CHECK(Inspector(two, "orders").counts().ready >= 1);
}

}  // namespace
}  // namespace delayqueue
