// Several pipelines in flight on one connection, on a real server.
#include "redis/pipeline.h"

#include <delayqueue/error.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "redis/topology.h"
#include "store/scripts.h"
#include "support/raw_server.h"
#include "support/scripted_server.h"
#include "support/server.h"

namespace delayqueue::redis {
namespace {

using namespace std::chrono_literals;
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
  ConnectionOptions options;
  options.command_timeout = 200ms;
  Connection connection{address_of(), {{}, {}, "pipelines", 0}, options};
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
