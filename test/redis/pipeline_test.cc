// Several pipelines in flight on one connection, on a real server.
#include "support/test.h"

#include <unistd.h>

#include "redis/pipeline.h"
#include "redis/topology.h"
#include "store/scripts.h"
#include "support/raw_server.h"
#include "support/scripted_server.h"

namespace delayqueue::redis {
namespace {

using test::address_of;

// A list, and a script that pushes to it and that the server has not loaded.
struct Scene {
  Scene() { test::redis().cmd({"SCRIPT", "FLUSH"}); }

  void by_script(Pipeline& pipeline, const std::string& word) const { pipeline.script(pushes).key(list).arg(word); }
  void by_command(Pipeline& pipeline, const std::string& word) const { pipeline.command("RPUSH").key(list).arg(word); }
  std::vector<std::string> words() const { return test::redis().cmd({"LRANGE", list, "0", "-1"}).strings(); }

  const std::string list = test::fresh_queue();
  const std::string body = "-- " + list + "\nreturn redis.call('RPUSH', KEYS[1], ARGV[1])";
  const std::string sha1 = test::redis().cmd({"SCRIPT", "LOAD", body}).text;
  const Script pushes{"push", sha1, body};
  Connection connection{address_of(), {{}, {}, "pipelines", 0}, {}};
};

TEST_CASE("pipelines: receive_arrived waits for no answer, and keeps those that have arrived") {
  Scene scene;
  Pipeline first(scene.connection), second(scene.connection);
  first.command("PING");
  first.command("BLPOP").key(scene.list).arg(0);
  second.command("ECHO").arg("last");
  first.send();
  second.send();
  CHECK_FALSE(second.receive_arrived());
  CHECK_FALSE(first.receive_arrived());
  CHECK(scene.connection.due() > Clock::now());
  test::redis().cmd({"RPUSH", scene.list, "pushed"});
  CHECK(test::eventually([&] { return second.receive_arrived(); }));
  CHECK(first.receive_arrived());
  CHECK(first.reply(1)[1].text() == "pushed");
  CHECK(second.reply(0).text() == "last");
  CHECK_FALSE(scene.connection.is_stale());
}

TEST_CASE("pipelines: receive_arrived fails when the answer is overdue") {
  Connection connection{address_of(), {{}, {}, "pipelines", 0}, with(&ClientOptions::command_timeout, 200ms)};
  Pipeline pipeline(connection);
  pipeline.command("BLPOP").key(test::fresh_queue()).arg(0);
  pipeline.send();
  const auto begin = Clock::now();
  CHECK_FALSE(pipeline.receive_arrived());
  CHECK(test::eventually([&] {
    try {
      return pipeline.receive_arrived();
    } catch (const ConnectionError&) {
      return true;
    }
  }));
  CHECK(Clock::now() - begin >= 200ms);
  CHECK(connection.is_stale());
}

TEST_CASE("pipelines: of two in flight, each gets its own answers, in either order of receive()") {
  for (const bool in_order : {true, false}) {
    Scene scene;
    Pipeline first(scene.connection), second(scene.connection), none(scene.connection);
    scene.by_command(first, "a");
    scene.by_command(first, "b");
    scene.by_command(second, "c");
    first.send();
    none.send();
    second.send();
    (in_order ? first : second).receive();
    none.receive();
    (in_order ? second : first).receive();
    CHECK(first.reply(0).integer() == 1);
    CHECK(first.reply(1).integer() == 2);
    CHECK(second.reply(0).integer() == 3);
    CHECK_FALSE(first.resent());
    CHECK_FALSE(scene.connection.is_stale());
  }
}

TEST_CASE("pipelines: an unloaded script is sent again after all pipelines in flight, and the answers stay in order") {
  Scene scene;
  Pipeline first(scene.connection), second(scene.connection), third(scene.connection);
  scene.by_command(first, "a");
  scene.by_script(first, "late");
  scene.by_command(second, "b");
  scene.by_script(third, "later");
  scene.by_command(third, "c");
  for (Pipeline* pipeline : {&first, &second, &third}) pipeline->send();
  for (Pipeline* pipeline : {&first, &second, &third}) pipeline->receive();
  CHECK(scene.words() == std::vector<std::string>{"a", "b", "c", "late", "later"});
  CHECK(first.resent());
  CHECK_FALSE(second.resent());
  CHECK(third.resent());
  CHECK(first.reply(0).integer() == 1);
  CHECK(first.reply(1).integer() == 4);
  CHECK(second.reply(0).integer() == 2);
  CHECK(third.reply(0).integer() == 5);
  CHECK(third.reply(1).integer() == 3);
  CHECK_FALSE(scene.connection.is_stale());
}

// ---- A command and a script in a transaction ----

Address address_of(const test::ScriptedServer& server) {
  Address address;
  address.host = "127.0.0.1";
  address.port = server.port();
  return address;
}

TEST_CASE("transactions: the command and the script are one request, whose answer is the script's") {
  Scene scene;
  test::redis().cmd({"SCRIPT", "LOAD", scene.body});
  for (const bool arrived : {false, true}) {
    test::redis().cmd({"DEL", scene.list});
    Pipeline pipeline(scene.connection);
    pipeline.command("PING");
    pipeline.command("RPUSH").key(scene.list).arg("a").in_transaction_with(scene.pushes).key(scene.list).arg("b");
    scene.by_command(pipeline, "c");
    CHECK(pipeline.size() == 3);
    pipeline.send();
    if (arrived) CHECK(test::eventually([&] { return pipeline.receive_arrived(); }));
    if (!arrived) pipeline.receive();
    CHECK(pipeline.reply(0).text() == "PONG");
    CHECK(pipeline.reply(1).integer() == 2);
    CHECK(pipeline.reply(2).integer() == 3);
    CHECK((scene.words() == std::vector<std::string>{"a", "b", "c"}));
  }
  CHECK_FALSE(scene.connection.is_stale());
}

TEST_CASE("transactions: one whose script is not loaded is sent again as a whole, after all pipelines in flight") {
  Scene scene;
  const std::string counter = test::fresh_queue();
  Pipeline first(scene.connection), second(scene.connection);
  first.command("INCR").key(counter).in_transaction_with(scene.pushes).key(scene.list).arg("a");
  scene.by_command(second, "b");
  first.send();
  second.send();
  first.receive();
  second.receive();
  CHECK(first.resent());
  CHECK(first.reply(0).integer() == 2);
  CHECK((scene.words() == std::vector<std::string>{"b", "a"}));
  CHECK(test::redis().cmd({"GET", counter}) == "2");
  CHECK_FALSE(scene.connection.is_stale());
}

TEST_CASE(
    "transactions: if the script fails, the first error is that of both, and the connection can be used further") {
  Scene scene;
  test::redis().cmd({"SCRIPT", "LOAD", scene.body});
  const std::string text = test::fresh_queue();
  test::redis().cmd({"SET", text, "no list"});
  const auto error_of = [&](const char* command, const std::string& key, const std::string& list) {
    Pipeline pipeline(scene.connection);
    pipeline.command(command).key(key).arg("x").in_transaction_with(scene.pushes).key(list).arg("y");
    pipeline.run();
    return test::thrown([&] { static_cast<void>(pipeline.reply(0)); });
  };
  CHECK(error_of("NOCOMMAND", scene.list, scene.list).find("unknown command 'NOCOMMAND'") != std::string::npos);
  CHECK(scene.words().empty());  // Redis has executed neither
  CHECK(error_of("INCR", text, scene.list).find("wrong number of arguments for 'incr'") != std::string::npos);
  CHECK(scene.words().empty());
  CHECK(error_of("DECRBY", text, text).find("not an integer") != std::string::npos);
  CHECK(error_of("RPUSH", scene.list, text).find("WRONGTYPE") != std::string::npos);
  CHECK((scene.words() == std::vector<std::string>{"x"}));
  CHECK(error_of("RPUSH", text, scene.list) == "nothing");  // Redis executes the script after a command that fails
  CHECK((scene.words() == std::vector<std::string>{"x", "y"}));
  Pipeline ping(scene.connection);
  ping.command("PING");
  ping.run();
  CHECK(ping.reply(0).text() == "PONG");
}

TEST_CASE("transactions: an answer to EXEC of another shape is an error, and the connection is used no more") {
  for (const std::string exec : {"*1\r\n+OK\r\n", "*-1\r\n", "+OK\r\n", "-ERR unknown command 'EXEC'\r\n"}) {
    CAPTURE(exec);
    const test::ScriptedServer server([&](const std::vector<std::string>& words) {
      if (words[0] == "HELLO") return test::hello();
      if (words[0] == "EXEC") return exec;
      return std::string(words[0] == "MULTI" ? "+OK\r\n" : "+QUEUED\r\n");
    });
    Connection connection(address_of(server), {{}, {}, "pipelines", 0}, {});
    Scene scene;
    Pipeline pipeline(connection);
    pipeline.command("RPUSH").key("k").arg("x").in_transaction_with(scene.pushes).key("k").arg("y");
    pipeline.run();
    CHECK_THROWS_AS(static_cast<void>(pipeline.reply(0).integer()), ReplyError);
    CHECK(connection.is_stale());
  }
}

TEST_CASE("transactions: on a server that does not know EXEC, the second of two in flight has not run either") {
  int begun = 0;
  const test::ScriptedServer server([&](const std::vector<std::string>& words) -> std::string {
    if (words[0] == "HELLO") return test::hello();
    if (words[0] == "EXEC") return "-ERR unknown command 'EXEC'\r\n";
    if (words[0] != "MULTI") return "+QUEUED\r\n";
    return ++begun == 1 ? "+OK\r\n" : "-ERR MULTI calls can not be nested\r\n";
  });
  Connection connection(address_of(server), {{}, {}, "pipelines", 0}, {});
  Scene scene;
  Pipeline pipeline(connection);
  for (const char* word : {"a", "b"}) {
    pipeline.command("SET").key("k").arg(word).in_transaction_with(scene.pushes).key(scene.list).arg(word);
  }
  pipeline.run();
  CHECK(test::thrown([&] { static_cast<void>(pipeline.reply(0)); }).find("EXEC") != std::string::npos);
  CHECK(test::thrown([&] { static_cast<void>(pipeline.reply(1)); }).find("MULTI") != std::string::npos);
  CHECK(connection.is_stale());
}

TEST_CASE("pipelines: payloads arrive whole and in their places, whether they are copied or not") {
  Scene scene;
  std::vector<std::string> payloads;
  for (std::size_t i = 0; i < 300; ++i) payloads.emplace_back(i * 97, static_cast<char>('a' + i % 26));
  payloads.emplace_back(3'000'000, '\n');  // more than a socket takes at once
  Pipeline pipeline(scene.connection);
  pipeline.command("RPUSH").key(scene.list);
  for (const std::string& payload : payloads) pipeline.payload(payload);
  pipeline.script(scene.pushes).key(scene.list).payload(payloads[200]);
  pipeline.run();
  CHECK(pipeline.reply(0).integer() == 301);
  CHECK(pipeline.reply(1).integer() == 302);
  payloads.push_back(payloads[200]);
  CHECK((scene.words() == payloads));
}

TEST_CASE("pipelines: one that is destroyed while in flight makes the connection stale") {
  Scene scene;
  {
    Pipeline pipeline(scene.connection);
    scene.by_command(pipeline, "a");
    CHECK_FALSE(scene.connection.is_stale());
    pipeline.send();
  }
  CHECK(scene.connection.is_stale());
}

TEST_CASE("pipelines: after an answer that was overdue the connection is used no more, so none gets that of another") {
  Connection connection{address_of(), {{}, {}, "pipelines", 0}, with(&ClientOptions::command_timeout, 100ms)};
  const std::string list = test::fresh_queue();
  {
    Pipeline first(connection);
    first.command("BLPOP").key(list).arg(0);
    CHECK_THROWS_AS(first.run(), ConnectionError);
  }
  test::redis().cmd({"RPUSH", list, "late"});
  Pipeline second(connection);
  second.command("ECHO").arg("second");
  CHECK_THROWS_WITH_AS(second.run(), doctest::Contains("already broken"), ConnectionError);
}

TEST_CASE("pipelines: a connection lost between two answers is an error for all later pipelines") {
  const test::Listener server([](int fd) {
    const std::string hello = "*2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n";
    char asked[4096];
    for (const std::string& said : {hello, std::string("+first\r\n")}) {
      if (::read(fd, asked, sizeof asked) <= 0 || ::write(fd, said.data(), said.size()) < 0) return;
    }
  });
  Connection connection(server.address(), {{}, {}, "pipelines", 0}, {});
  Pipeline first(connection), second(connection);
  first.command("PING").send();
  second.command("PING").send();
  first.receive();
  CHECK(first.reply(0).text() == "first");
  CHECK_THROWS_AS(second.receive(), ConnectionError);
  CHECK_THROWS_AS(second.receive(), ConnectionError);
  CHECK(connection.is_stale());
}

TEST_CASE(
    "pipelines: requests for many slots that have moved to one node follow together, and the topology learns of all") {
  const test::ScriptedServer target(
      [](const std::vector<std::string>& words) { return words[0] == "HELLO" ? test::hello() : "+here\r\n"; });
  std::string own_port;
  const test::ScriptedServer node([&](const std::vector<std::string>& words) -> std::string {
    if (words[0] == "HELLO") return test::hello();
    if (words[0] != "CLUSTER") return "-MOVED " + std::to_string(slot_of(words[1])) + ' ' + target.host() + "\r\n";
    if (words[1] == "INFO") return test::bulk("cluster_state:ok");
    const std::string owner = test::array({test::bulk("127.0.0.1"), ":" + own_port + "\r\n"});
    return test::array({test::array({":0\r\n", ":16383\r\n", owner})});
  });
  own_port = std::to_string(node.port());
  const auto topology = cluster(parse_url("redis+cluster://" + node.host()), {});
  const auto connection = topology->connect(0);
  CHECK(topology->server_of(slot_of("0")) == topology->server_of(slot_of("1")));
  CHECK(topology->reuse(*connection, slot_of("0")));
  Pipeline pipeline(*connection);
  constexpr std::size_t kKeys = 20;
  for (std::size_t i = 0; i < kKeys; ++i) pipeline.command("GET").key(std::to_string(i));
  pipeline.run();
  for (std::size_t i = 0; i < kKeys; ++i) {
    CHECK(pipeline.reply(i).text() == "here");
    CHECK_FALSE(topology->reuse(*connection, slot_of(std::to_string(i))));
  }
  CHECK(topology->server_of(slot_of("0")) == topology->server_of(slot_of("1")));
  CHECK(topology->server_of(slot_of("0")) != topology->server_of(slot_of("not moved")));
}

}  // namespace
}  // namespace delayqueue::redis
