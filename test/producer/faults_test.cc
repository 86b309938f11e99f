// Errors of a Producer when the server is away, refuses commands, or is no suitable Redis.
#include "support/test.h"

#include <signal.h>
#include <sys/socket.h>

#include "support/proxy.h"
#include "support/raw_server.h"

namespace delayqueue {
namespace {

using test::FaultProxy;
using test::server_with;

TEST_CASE("send: without a server throws ConnectionError with the id; sending that id again creates one message") {
  PrivateServer own;
  Queue queue(own.url(), one_attempt());
  queue.send("before");
  own.stop();
  std::string id;
  try {
    queue.producer.send("42");
  } catch (const ConnectionError& e) {
    REQUIRE(e.ids().size() == 1);
    id = e.ids().front();
    CHECK(has(e.what(), own.socket()));
  }
  REQUIRE(!id.empty());
  const auto again = with(&SendOptions::id, id);
  CHECK(has(thrown([&] { queue.producer.send("42", again); }), "ConnectionError: "));
  own.restart();
  CHECK(queue.producer.send("42", again).created());
  CHECK(!queue.producer.send("42", again).created());
  CHECK(queue.inspector.counts().ready == 2);

  Redis client(own.socket());
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(test::eventually([&] { return queue.empty(client); }, test::kPatience));
  CHECK(consumer->stop());
  CHECK(ledger.payloads() == std::vector<std::string>{"before", "42"});
}

TEST_CASE("send_batch: without a server throws ConnectionError with the ids of all messages, in order") {
  PrivateServer own;
  Queue queue(own.url(), one_attempt());
  queue.send("before");
  own.kill();
  std::vector<OutgoingMessage> messages(450, OutgoingMessage{"x", {}});
  messages[7].options.id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  std::vector<std::string> ids;
  try {
    queue.producer.send_batch(messages);
  } catch (const ConnectionError& e) {
    ids = e.ids();
  }
  REQUIRE(ids.size() == messages.size());
  CHECK(ids[7] == messages[7].options.id);
  own.restart();
  for (std::size_t i = 0; i < ids.size(); ++i) messages[i].options.id = ids[i];
  for (const bool created : {true, false}) {
    const std::vector<Sent> sent = queue.producer.send_batch(messages);
    REQUIRE(sent.size() == ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      CHECK(sent[i].created() == created);
      CHECK(sent[i].id == ids[i]);
    }
  }
}

TEST_CASE("send: after a lost answer there is one message, even if the send is repeated several times") {
  PrivateServer own;
  Queue queue(own.url(), one_attempt());
  queue.send("warm");
  ClientOptions options;
  options.command_timeout = 100ms;
  Producer short_timeout({own.url(), options}, queue.name, one_attempt());
  short_timeout.send("warm, too");
  ::kill(own.pid(), SIGSTOP);  // the send waits in the socket and runs later
  std::vector<std::string> ids;
  try {
    short_timeout.send("once");
  } catch (const ConnectionError& e) {
    ids = e.ids();
  }
  ::kill(own.pid(), SIGCONT);
  REQUIRE(ids.size() == 1);
  const auto again = with(&SendOptions::id, ids.front());
  for (int i = 0; i < 3; ++i) queue.producer.send("once", again);
  const Counts counts = queue.inspector.counts();
  CHECK(counts.ready == 3);
  CHECK(counts.totals.sent == 3);
}

// Sends again and again until the server is known to be away: a connection that was open may still take the bytes.
TEST_CASE("send: not_sent() of its error is true if no server got the message, and false if one may have stored it") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(proxy.url(), one_attempt());
  SendOptions own_id;
  own_id.id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  const std::vector<std::function<void()>> sends{
      [&] { queue.producer.send("x", own_id); },
      [&] {
        queue.producer.send_batch(std::vector<OutgoingMessage>{{"x", own_id}, {"y", {}}});
      },
      [&] { queue.producer.send_async("x", own_id).get(); },
  };
  const auto not_sent = [](const std::function<void()>& send) -> std::optional<bool> {
    try {
      send();
    } catch (const ConnectionError& e) {
      CHECK(e.ids().size() >= 1);
      return e.not_sent();
    }
    return std::nullopt;
  };
  for (const auto& send : sends) {
    CHECK(not_sent(send) == std::nullopt);
    proxy.drop_replies(1);
    CHECK(not_sent(send) == false);
  }
  proxy.refuse(true);
  for (const auto& send : sends) CHECK(test::eventually([&] { return not_sent(send) == true; }));
  proxy.refuse(false);
  CHECK(test::eventually([&] { return not_sent(sends.front()) == std::nullopt; }));

  ProducerOptions options = one_attempt();
  options.durability = Durability::replicas(1, 10ms);
  Producer durable(own.url(), queue.name, options);
  CHECK(not_sent([&] { durable.send("x"); }) == false);
  CHECK(not_sent([&] { static_cast<void>(queue.producer.cancel(own_id.id)); }) == std::nullopt);
}

TEST_CASE("other calls: without a server throw ConnectionError, and succeed when Redis is back") {
  PrivateServer own;
  Queue queue(own.url(), one_attempt());
  const std::string id = queue.send("x");
  own.stop();
  CHECK(has(thrown([&] { return queue.producer.cancel(id); }), "ConnectionError: "));
  CHECK(has(thrown([&] { return queue.producer.reschedule(id, {}); }), "ConnectionError: "));
  CHECK(has(thrown([&] { return queue.inspector.counts(); }), "ConnectionError: "));
  CHECK(has(thrown([&] { return queue.inspector.list(State::ready); }), "ConnectionError: "));
  CHECK(has(thrown([&] { queue.admin.pause(); }), "ConnectionError: "));
  CHECK(has(thrown([&] { return queue.inspector.next_event(1ms); }), "ConnectionError: "));
  own.restart();
  CHECK(queue.inspector.counts().ready == 1);
  CHECK(!queue.inspector.next_event(1ms));
  CHECK(queue.producer.cancel(id) == State::ready);
}

TEST_CASE("Producer and Inspector: a connection that was lost between two calls causes no error") {
  Queue queue;
  ClientOptions producing;
  producing.client_name = "p-" + queue.name;
  ClientOptions inspecting;
  inspecting.client_name = "i-" + queue.name;
  Producer producer({queue.url, producing}, queue.name);
  Inspector inspector({queue.url, inspecting}, queue.name);
  for (std::uint64_t round = 1; round <= 5; ++round) {
    CHECK(producer.send("x").created());
    CHECK(inspector.counts().ready == round);
    CHECK(test::cut_connections("p-" + queue.name) == 1);
    CHECK(test::cut_connections("i-" + queue.name) == 1);
  }
}

TEST_CASE("Producer: can be constructed while the server is away") {
  PrivateServer own;
  own.stop();
  Queue queue(own.url(), one_attempt());
  CHECK(has(thrown([&] { queue.producer.send("x"); }), "ConnectionError: "));
  own.restart();
  CHECK(queue.producer.send("x").created());
}

TEST_CASE("send: a key of a wrong type causes a ReplyError with WRONGTYPE, and nothing is stored") {
  const std::pair<std::string, milliseconds> cases[] = {
      {"ready", 0ms}, {"retry:cnt", 0ms}, {"pending", 1h}, {"retry:cnt", 1h}};
  for (const auto& [key, delay] : cases) {
    const std::string text = key + " " + std::to_string(delay.count());
    CAPTURE(text);
    Queue queue;
    test::redis().cmd({"SET", queue.base + ":" + key, "in the way"});
    const auto before = queue.kept();
    const auto options = delayed(delay);
    const std::string error = thrown([&] { queue.producer.send("x", options); });
    CAPTURE(error);
    CHECK(has(error, "ReplyError: "));
    CHECK(has(error, "WRONGTYPE"));
    CHECK(has(error, test::server().socket()));
    CHECK(queue.kept() == before);
  }
}

TEST_CASE("login: a wrong password, user or database causes an error with the address, without the password") {
  PrivateServer own = server_with({"--user", "ann", "on", ">correct-horse", "~*", "&*", "+@all"});
  const auto attempt = [&](const std::string& user, const std::string& password, const std::string& query = {}) {
    ClientOptions options;
    options.user = user;
    options.password = password;
    Producer producer({own.url() + query, options}, "orders");
    return thrown([&] { producer.send("x"); });
  };
  CHECK(attempt("ann", "correct-horse") == "nothing");
  for (const auto& [user, password] : {std::pair("ann", "wrong-pony"), std::pair("bob", "correct-horse")}) {
    const std::string error = attempt(user, password);
    CAPTURE(error);
    CHECK(has(error, "ReplyError: "));
    CHECK(has(error, "WRONGPASS"));
    CHECK(has(error, own.socket()));
    CHECK(!has(error, password));
  }
  const std::string database = attempt("ann", "correct-horse", "?db=4711");
  CAPTURE(database);
  CHECK(has(database, "ReplyError: "));
  CHECK(has(database, "4711"));
  CHECK(!has(database, "correct-horse"));
  CHECK(attempt("ann", "correct-horse", "?db=3") == "nothing");

  Consumer consumer({own.url(), test::logged_in_as("ann", "wrong-pony")}, "orders",
                    [](const Message&) { return ack(); });
  const std::string refused = thrown([&] { consumer.start(); });
  CAPTURE(refused);
  CHECK(has(refused, "ReplyError: "));
  CHECK(!has(refused, "wrong-pony"));
}

TEST_CASE("send: a user without the needed rights gets a ReplyError, and nothing is stored") {
  PrivateServer own = server_with({"--user", "ann", "on", ">pw", "~*", "&*", "+@all", "-lpush", "-mset"});
  ClientOptions options;
  options.user = "ann";
  options.password = "pw";
  Producer producer({own.url(), options}, "orders");
  const std::string error = thrown([&] { producer.send("x"); });
  CAPTURE(error);
  CHECK(has(error, "ReplyError: "));
  Redis client(own.socket());
  CHECK(test::snapshot("dp:orders", client).count("ready") == 0);
  CHECK(client.cmd({"KEYS", "dp:orders:msg:*"}).array.empty());
}

TEST_CASE("out of memory: a send throws ReplyError and stores nothing, and a consumer still handles stored messages") {
  PrivateServer own = server_with({"--maxmemory-policy", "noeviction"});
  Redis client(own.socket());
  Queue queue(own.url(), one_attempt());
  for (int i = 0; i < 5; ++i) queue.send("x");
  REQUIRE(client.cmd({"CONFIG", "SET", "maxmemory", "1"}) == "OK");
  const auto before = queue.kept(client);
  const std::string error = thrown([&] { queue.producer.send("y"); });
  CAPTURE(error);
  CHECK(has(error, "ReplyError: "));
  CHECK(has(error, "OOM"));
  CHECK(queue.kept(client) == before);
  Ledger ledger;
  const auto consumer =
      queue.consumer(ledger.watch([](const Message& message) { return test::ack_if(message.attempt() > 1); }));
  consumer->start();
  CHECK(test::eventually([&] { return queue.empty(client); }, test::kPatience));
  CHECK(ledger.size() == 10);
  CHECK(consumer->stop());
}

TEST_CASE("hash_tag: a queue that exists in the other form makes the first call throw invalid_argument") {
  Queue queue;
  queue.send("x");
  ClientOptions options;
  options.keys.hash_tag = HashTag::on;
  Producer tagged({queue.url, options}, queue.name);
  for (int i = 0; i < 2; ++i) {
    const std::string error = thrown([&] { tagged.send("y"); });
    CAPTURE(error);
    CHECK(has(error, "invalid_argument: keys.hash_tag"));
    CHECK(has(error, "{" + queue.base + "}"));
  }
  ClientOptions inspecting;
  inspecting.keys.hash_tag = HashTag::on;
  CHECK(has(thrown([&] {
              return Inspector({queue.url, inspecting}, queue.name).counts();
            }),
            "invalid_argument: keys.hash_tag"));
  const auto consumer = queue.consumer([](const Message&) { return ack(); }, test::quick(), inspecting);
  CHECK(has(thrown([&] { consumer->start(); }), "invalid_argument: keys.hash_tag"));
  CHECK(test::snapshot("{" + queue.base + "}").empty());

  const std::string other = test::fresh_queue();
  Producer first({queue.url, options}, other);
  CHECK(first.send("x").created());
  CHECK(test::snapshot("{dp:" + other + "}").count("ready") == 1);
}

TEST_CASE("a server that is not Redis causes an error with its address") {
  test::Listener web([](int fd) {
    const std::string answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
    [[maybe_unused]] const auto sent = ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    test::swallow(fd);
  });
  const std::string where = web.address().text();
  Producer producer("redis://" + where, "orders");
  const std::string error = thrown([&] { producer.send("x"); });
  CAPTURE(error);
  CHECK(has(error, "Error: "));
  CHECK(has(error, where));
}

TEST_CASE("a server that does not answer causes a ConnectionError with the id after the timeout") {
  test::Listener silent([](int fd) { test::swallow(fd); });
  ClientOptions options;
  options.connect_timeout = 50ms;
  Producer producer({"redis://" + silent.address().text(), options}, "orders", one_attempt());
  std::size_t ids = 0;
  try {
    producer.send("x");
  } catch (const ConnectionError& e) {
    ids = e.ids().size();
  }
  CHECK(ids == 1);
}

TEST_CASE("a Redis that is too old causes a ReplyError with its version") {
  test::Listener old([](int fd) {
    const std::string answer = "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n6.0.16\r\n";
    [[maybe_unused]] const auto sent = ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    test::swallow(fd);
  });
  Producer producer("redis://" + old.address().text(), "orders");
  const std::string error = thrown([&] { producer.send("x"); });
  CAPTURE(error);
  CHECK(has(error, "ReplyError: "));
  CHECK(has(error, "6.0.16"));
  CHECK(has(error, "6.2"));
}

TEST_CASE("events: a Producer reports the ids it created, and ignores exceptions of callbacks") {
  Queue queue;
  std::mutex mutex;
  std::vector<Event> events;
  std::vector<std::string> lines;
  ProducerOptions options;
  options.on_event = [&](const Event& event) {
    const std::lock_guard lock(mutex);
    events.push_back(event);
    if (events.size() == 2) throw std::runtime_error("from the callback");
    if (events.size() == 3) throw 42;
  };
  options.logger = [&](const LogEntry& entry) {
    const std::lock_guard lock(mutex);
    lines.push_back(entry.line);
    if (entry.severity == Severity::error) throw std::runtime_error("from the logger");
  };
  Producer producer(queue.url, queue.name, options);
  const Sent one = producer.send("a");
  const std::vector<Sent> two = producer.send_batch(std::vector<std::string>{"b", "c"});
  CHECK(!producer.send("a", with(&SendOptions::id, one.id)).created());
  CHECK(producer.send("d").created());
  REQUIRE(events.size() == 3);
  for (const Event& event : events) CHECK(event.kind == EventKind::sent);
  CHECK(events[0].ids == std::vector<std::string>{one.id});
  CHECK(events[1].ids == std::vector<std::string>{two[0].id, two[1].id});
  CHECK(events[1].count == 2);
  CHECK(std::chrono::system_clock::now() - events[0].at < 1h);
  CHECK(std::any_of(lines.begin(), lines.end(), [](const auto& line) { return has(line, "from the callback"); }));
}

}  // namespace
}  // namespace delayqueue
