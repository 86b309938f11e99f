// A Client: what its copies and objects share, and what they do not; check(); forks.
#include "support/test.h"

#include "support/forked.h"

namespace delayqueue {
namespace {

using test::client_named;
using test::connection_ids;
using test::server;

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
  CHECK(connection_ids(name).size() == 1);
  const auto one = connection_ids(name);
  client.reset();
  CHECK(producer->send("x").created());
  producer.reset();
  CHECK(inspector.counts().ready == 2);
  CHECK(tenant.send("y").created());
  CHECK(connection_ids(name) == one);
}

TEST_CASE("client: a Client without objects keeps the connections, and the last of all closes them") {
  const std::string name = fresh_queue(), queue = fresh_queue();
  auto client = std::make_unique<Client>(client_named(name));
  CHECK(Producer(*client, queue).send("x").created());
  const auto one = connection_ids(name);
  CHECK(one.size() == 1);
  CHECK(Producer(*client, queue).send("x").created());
  CHECK(connection_ids(name) == one);
  const auto other = std::make_unique<Client>(*client);
  client.reset();
  CHECK(Producer(*other, queue).send("x").created());
  CHECK(connection_ids(name) == one);
  Client assigned = client_named(name);
  assigned = *other;
  CHECK(Producer(assigned, queue).send("x").created());
  CHECK(connection_ids(name) == one);
}

TEST_CASE("client: two that are made of the same URL share no connection, and a URL makes one for each object") {
  const std::string name = fresh_queue(), queue = fresh_queue();
  const Client first = client_named(name), second = client_named(name);
  Producer one(first, queue), two(second, queue);
  for (Producer* producer : {&one, &two}) CHECK(producer->send("x").created());
  CHECK(connection_ids(name).size() == 2);
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
    CHECK(connection_ids(name).empty());
  }
  CHECK(thrown([] { Client("redis://no.such.host.invalid"); }) == "nothing");
}

TEST_CASE("client: check() connects and logs in, and the first call uses its connection") {
  const std::string name = fresh_queue(), queue = fresh_queue();
  const Client client = client_named(name);
  client.check();
  const auto one = connection_ids(name);
  CHECK(one.size() == 1);
  Producer producer(client, queue);
  CHECK(producer.send("x").created());
  CHECK(connection_ids(name) == one);
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
  const auto before = connection_ids(name);
  CHECK(test::in_child([&] {
          Redis redis(server().socket());
          Producer own(client, queue);
          Inspector inspector(client, queue);
          return own.send("b").created() && inspector.counts().ready == 2 && connection_ids(name, redis).size() == 2;
        }) == 0);
  CHECK(producer.send("c").created());
  CHECK(eventually([&] { return connection_ids(name) == before; }, kPatience));
  CHECK(Inspector(client, queue).counts().ready == 3);
}

// A server whose only user with rights is "ann", with a password that the test changes.
struct Rotating {
  Rotating() : server(arguments()) { set("first"); }

  static PrivateServerOptions arguments() {
    PrivateServerOptions options;
    options.arguments = {"--user", "ann", "on", "~*", "&*", "+@all", ">first"};
    return options;
  }

  // From now on only this password is right. Open connections stay, or end.
  void set(const std::string& password) {
    const std::lock_guard lock(mutex);
    secret = password;
    Redis(server.socket()).cmd({"ACL", "SETUSER", "ann", "resetpass", ">" + password});
  }
  void end_connections() { Redis(server.socket()).cmd({"CLIENT", "KILL", "USER", "ann"}); }

  Client client(std::chrono::milliseconds lifetime = {}) {
    ClientOptions options;
    options.client_name = "rotating";
    options.credentials = [this, lifetime] {
      const std::lock_guard lock(mutex);
      ++calls;
      Credentials current{"ann", secret, {}};
      if (lifetime.count() > 0) current.expires = std::chrono::system_clock::now() + lifetime;
      return current;
    };
    return {"unix://" + server.socket(), options};
  }

  PrivateServer server;
  std::mutex mutex;  // guards the next two
  std::string secret;
  int calls = 0;
};

TEST_CASE("credentials: each login gets the password of that moment, for a Producer, an Inspector and a Consumer") {
  Rotating rotating;
  const Client client = rotating.client();
  Producer producer(client, "orders");
  Inspector inspector(client, "orders");
  Ledger ledger;
  Consumer consumer(client, "orders", ledger.watch(), quick());
  consumer.start();
  CHECK(rotating.calls >= 1);
  for (std::size_t i = 1; i <= 3; ++i) {
    CHECK(producer.send("x").created());
    CHECK(ledger.settles(i));
    rotating.set("password " + std::to_string(i));
    CHECK(inspector.counts().pending == 0);  // over a connection that is open
    rotating.end_connections();
    CHECK(inspector.counts().pending == 0);
  }
  CHECK(producer.send("x").created());
  CHECK(ledger.settles(4));
  CHECK(thrown([&] { client.check(); }) == "nothing");
  CHECK(consumer.stop());
}

TEST_CASE("credentials: connections are replaced before the login expires, and no call fails") {
  Rotating rotating;
  const Client client = rotating.client(2s);
  Producer producer(client, "orders");
  Ledger ledger;
  Consumer consumer(client, "orders", ledger.watch(), quick());
  consumer.start();
  const auto named = [&] {
    Redis admin(rotating.server.socket());
    return connection_ids("rotating", admin);
  };
  CHECK(producer.send("x").created());
  CHECK(ledger.settles(1));
  const auto before = named();
  std::size_t sent = 1;
  const auto replaced = [&] {
    CHECK(producer.send("x").created());
    ++sent;
    const std::lock_guard lock(rotating.mutex);
    return rotating.calls >= 8;
  };
  CHECK(eventually(replaced, kPatience));
  CHECK(ledger.settles(sent));
  CHECK(named() != before);
  CHECK(consumer.metrics().stats.connects >= 2);
  CHECK(consumer.metrics().stats.errors == 0);
  CHECK(consumer.stop());
}

TEST_CASE("credentials: an exception, a late answer and an expired login are errors that tell which") {
  const auto error_with = [](std::function<Credentials()> credentials) {
    ClientOptions options;
    options.connect_timeout = 500ms;
    options.credentials = std::move(credentials);
    return thrown([&] { Producer({server().url(), options}, "orders").send("x"); });
  };
  const std::string threw = error_with([]() -> Credentials { throw std::runtime_error("no token today"); });
  CHECK(has(threw, "ReplyError: cannot log in at "));
  CHECK(has(threw, "credentials threw: no token today"));
  const std::string late = error_with([] {
    std::this_thread::sleep_for(700ms);
    return Credentials();
  });
  CHECK(has(late, "ConnectionError: cannot log in at "));
  CHECK(has(late, "took longer than connect_timeout"));
  const std::string expired = error_with([] {
    Credentials current;
    current.expires = std::chrono::system_clock::now() - 1s;
    return current;
  });
  CHECK(has(expired, "returned a login that has expired"));
  ClientOptions both;
  both.credentials = [] { return Credentials(); };
  both.user = "ann";
  CHECK(has(thrown([&] { Client(server().url(), both); }), "invalid_argument: credentials: set, but so is user"));
  const auto for_ever = [] {
    Credentials current;
    current.expires = std::chrono::system_clock::time_point::max();
    return current;
  };
  CHECK(error_with(for_ever) == "nothing");
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
  const auto one = connection_ids(name);
  CHECK(one.size() == 1);
  const Producer of_parent(*client, queue);
  CHECK(test::in_child([&] {
          const Client before = *client;
          client.reset();
          if (!Producer(before, queue).send("x").created()) return false;
          return test::in_child([&] { return Producer(before, queue).send("x").created(); }) == 0;
        }) == 0);
  CHECK(Inspector(*client, queue).counts().ready == 5);
  CHECK(connection_ids(name) == one);
  client.reset();
}

TEST_CASE("client: of an embedded: URL all have one server for the process") {
  const Client one("embedded:"), two("embedded:");
  CHECK(Producer(one, "orders").send("x").created());
  CHECK(Inspector(two, "orders").counts().ready >= 1);
}

}  // namespace
}  // namespace delayqueue
