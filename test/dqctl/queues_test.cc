// Tests of dqctl queues.
#include "preamble.h"

#include "support/cluster.h"

namespace {

void send_some(const std::string& queue, int count, bool later = false) {
  delayqueue::SendOptions options;
  if (later) options.delay = std::chrono::hours(1);
  delayqueue::Producer producer(test::server().url(), queue);
  for (int i = 0; i < count; ++i) producer.send("payload", options);
}

}  // namespace

TEST_CASE("queues: every registered queue is listed with its counts, under any name") {
  test::redis().cmd({"FLUSHALL"});
  send_some("plain", 2);
  send_some("with space: and colon", 3, true);
  test::send("raw\xff\n\x1b[31m", {"payload"});
  delayqueue::QueueAdmin(test::server().url(), "plain").pause();

  expect(run({"queues"}), 0,
         {err_is(""), out_is("QUEUE                  PENDING  READY  UNACK  RETRY  DEAD\n"
                             "plain                        0      2      0      0     0  paused\n"
                             "raw\\xff\\n\\x1b[31m            0      1      0      0     0\n"
                             "with space: and colon        3      0      0      0     0\n")});

  const Ran document = expect(run({"queues", "-o", "json"}), 0);
  const json queues = parse_json(document.out).at("queues");
  REQUIRE(queues.size() == 3);
  CHECK(queues[0] == parse_json(R"({"queue": "plain", "pending": 0, "ready": 2, "unack": 0, "retry": 0, "dead": 0,
                                     "due": 0, "overdue": 0, "paused": true, "error": null})"));
  CHECK(queues[1].at("queue_base64") == "cmF3/wobWzMxbQ==");
  CHECK(queues[2].at("pending") == 3);

  const Ran lines = run({"-o", "ndjson", "queues"});
  CHECK(std::count(lines.out.begin(), lines.out.end(), '\n') == 3);
  CHECK(parse_json(lines.out.substr(0, lines.out.find('\n'))) == queues[0]);
}

TEST_CASE("queues: --sort puts the largest count first, equal counts by name, and queues that cannot be read last") {
  test::redis().cmd({"FLUSHALL"});
  send_some("a", 1);
  send_some("b", 3);
  send_some("c", 3);
  send_some("d", 1, true);
  send_some("bad", 9);
  test::redis().cmd({"DEL", "dp:bad:ready"});
  test::redis().cmd({"SET", "dp:bad:ready", "of another program"});
  const auto order = [](const std::string& column) {
    std::string names;
    for (const json& line : lines_of(run({"queues", "--sort", column, "-o", "ndjson"}).out)) {
      names += line.at("queue").get<std::string>() + ' ';
    }
    return names;
  };
  CHECK(order("ready") == "b c a bad d ");
  CHECK(order("pending") == "d a b bad c ");
  CHECK(order("name") == "a b bad c d ");
  const Ran table = expect(run({"queues", "--sort", "ready"}), 4);
  CHECK(table.out.find("\nb ") < table.out.find("\na "));
  CHECK(run({"queues", "--sort", "oldest"}).code == 2);
  CHECK(run({"queues", "--sort", "dead", "--names"}).code == 2);
  test::redis().cmd({"DEL", "dp:bad:ready"});
}

TEST_CASE("queues: --watch lists the queues again and again, as tables, documents or lines") {
  test::redis().cmd({"FLUSHALL"});
  send_some("q", 1);
  Dqctl running({"queues", "--watch", "50ms", "-o", "ndjson"});
  REQUIRE(running.wait_for("\"ready\":1"));
  send_some("q", 1);
  REQUIRE(running.wait_for("\"ready\":2"));
  running.signal(SIGINT);
  CHECK(running.wait().code == 0);
  const Ran tables = expect(run({"queues", "--watch", "10ms", "--count", "3"}), 0);
  CHECK(std::count(tables.out.begin(), tables.out.end(), '\n') == 3 * 2 + 2);  // an empty line between two tables
  const Ran documents = run({"queues", "--watch", "10ms", "--count", "2", "-o", "json"});
  const std::size_t second = documents.out.find("{\"queues\"", 1);
  REQUIRE(second != std::string::npos);
  CHECK(parse_json(documents.out.substr(0, second)) == parse_json(documents.out.substr(second)));
  CHECK(run({"queues", "--watch", "0s"}).code == 2);
  CHECK(run({"queues", "--count", "2"}).code == 2);
}

TEST_CASE("queues: --watch continues after a restart of the server") {
  delayqueue::PrivateServer server;
  delayqueue::Producer(server.url(), "q").send("x");
  Dqctl running({"queues", "--watch", "50ms", "-o", "ndjson"}, at(server.url()));
  REQUIRE(running.wait_for("\"ready\":1"));
  server.kill();
  REQUIRE(running.wait_for("dqctl: "));
  server.restart();
  delayqueue::Producer(server.url(), "q").send("x");
  CHECK(running.wait_for("\"ready\":2"));
  running.signal(SIGINT);
  CHECK(running.wait().code == 0);
}

TEST_CASE("queues: an empty list is no error") {
  test::redis().cmd({"FLUSHALL"});
  const Ran ran = expect(run({"queues"}), 0, {out_is("")});
  CHECK(ran.err.find("no queue is at unix://") == 0);
  CHECK(parse_json(run({"queues", "-o", "json"}).out) == parse_json(R"({"queues": []})"));
}

TEST_CASE("queues, stats: the row of a queue that cannot be read has the error, and the others are shown") {
  test::redis().cmd({"FLUSHALL"});
  send_some("good", 2);
  send_some("bad", 1);
  test::redis().cmd({"DEL", "dp:bad:ready"});
  test::redis().cmd({"SET", "dp:bad:ready", "of another program"});

  expect(run({"queues"}), 4,
         {out_has("\ngood "), out_has("\nbad "), out_has("WRONGTYPE"),
          out_has("something else uses a key of this queue; dqctl doctor QUEUE shows which")});
  const Ran document = expect(run({"queues", "-o", "json"}), 4);
  const json queues = parse_json(document.out).at("queues");
  REQUIRE(queues.size() == 2);
  CHECK(queues[0].at("ready").is_null());
  CHECK(has(queues[0].at("error"), "WRONGTYPE"));
  CHECK(queues[1].at("ready") == 2);
  CHECK(run({"queues", "-o", "ndjson"}).code == 4);

  expect(run({"stats", "bad", "good", "nowhere"}), 4,
         {out_has("WRONGTYPE"), out_has("nowhere is not at"), out_has("good  20")});
  const json stats = parse_json(run({"stats", "bad", "good", "-o", "json"}).out).at("queues");
  CHECK(has(stats[0].at("error"), "WRONGTYPE"));
  CHECK(stats[1].at("error").is_null());
  test::redis().cmd({"DEL", "dp:good:ready"});
  test::redis().cmd({"SET", "dp:good:ready", "of another program"});
  CHECK(run({"queues"}).code == 1);  // no queue could be read
  test::redis().cmd({"DEL", "dp:bad:ready", "dp:good:ready"});
}

TEST_CASE("queues: a queue that the user has no rights to is listed with the error") {
  test::redis().cmd({"FLUSHALL"});
  send_some("mine", 2);
  send_some("theirs", 1);
  test::redis().cmd({"ACL", "SETUSER", "me", "on", ">geheim", "+@all", "~dp:queues", "~dp:mine:*"});
  DqctlOptions options;
  options.environment["DELAYQUEUE_PASSWORD"] = "geheim";
  const Ran ran = expect(run({"queues", "--user", "me", "-o", "json"}, options), 4);
  const json queues = parse_json(ran.out).at("queues");
  REQUIRE(queues.size() == 2);
  CHECK(queues[0].at("ready") == 2);
  CHECK(queues[1].at("ready").is_null());
  CHECK_FALSE(queues[1].at("error").is_null());
  test::redis().cmd({"ACL", "DELUSER", "me"});
}

TEST_CASE("queues: a frozen shard of a Cluster hides its own queues only, and costs one timeout for all of them") {
  test::ClusterOptions cluster_options;
  cluster_options.node_timeout = std::chrono::seconds(60);
  test::Cluster cluster(cluster_options);
  constexpr int kQueues = 30;
  for (int i = 0; i < kQueues; ++i) {
    delayqueue::Producer(cluster.url(), "q" + std::to_string(i)).send("payload");
  }
  const test::Node& home = cluster.owner("dp:queues");
  test::Node& frozen = cluster.other_master(home);
  frozen.freeze();
  const Ran ran =
      run({"queues", "-o", "json", "--connect-timeout", "3s", "--command-timeout", "3s", "-u", cluster.url()});
  frozen.thaw();
  CHECK(ran.code == 4);
  const json queues = parse_json(ran.out).at("queues");
  REQUIRE(queues.size() == kQueues);
  const auto away = std::count_if(queues.begin(), queues.end(), [](const json& q) { return !q.at("error").is_null(); });
  CHECK(away > 0);
  CHECK(away < kQueues);
  CHECK(ran.took < std::chrono::seconds(30));
}
