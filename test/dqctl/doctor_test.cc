// Tests of dqctl doctor.
#include "preamble.h"

#include "support/cluster.h"
#include "support/scripted_server.h"

namespace {

Ran doctor(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"doctor", "--settle", "50ms"});
  return run(arguments);
}

void set(Redis& client, const std::string& name, const std::string& value) {
  REQUIRE(client.cmd({"CONFIG", "SET", name, value}) == "OK");
}

// Damages a queue: retries recorded for messages that do not exist, and a message with a body and retries in no state.
std::string damage(const std::string& queue) {
  test::empty_server();
  const std::string id = test::send(queue, {"stranded"}, 1h)[0];
  test::redis().cmd({"ZREM", "dp:" + queue + ":pending", id});
  test::redis().cmd({"HSET", "dp:" + queue + ":retry:cnt", "0190f7c2-5b1f-7000-8000-000000000001", "3"});
  return id;
}

}  // namespace

TEST_CASE("doctor: it reports the settings of the server") {
  test::empty_server();
  const Ran ran = expect(run({"doctor"}), 0, {err_is("")});
  CHECK(ran.out.find("server      ") == 0);
  CHECK(has(ran.out, "\nversion     "));
  CHECK(has(ran.out, "\nrole        master, standalone\n"));
  CHECK(has(ran.out, "\non disk     appendonly yes, appendfsync everysec"));
  CHECK(has(ran.out, "\na call      "));
  CHECK(has(ran.out, " ms at best, "));
  CHECK(has(ran.out, "\nrisks       none found\n"));
  CHECK(test::redis().cmd({"SCARD", "dp:queues"}) == 0);

  const json document = parse_json(run({"doctor", "-o", "json"}).out);
  CHECK(document.at("server").at("append_only") == "yes");
  CHECK(document.at("server").at("call_us").at("median") > 0);
  CHECK(document.at("risks").empty());
  CHECK(document.count("check") == 0);
}

TEST_CASE("doctor: a server that can lose messages is exit code 5") {
  delayqueue::PrivateServer server;
  Redis(server.socket()).cmd({"CONFIG", "SET", "appendonly", "no"});
  DqctlOptions options;
  options.environment["DELAYQUEUE_URI"] = server.url();
  expect(run({"doctor"}, options), 5, {out_has("\nrisk        appendonly no")});
  const json document = parse_json(run({"doctor", "-o", "ndjson"}, options).out);
  CHECK(document.at("risks")[0].at("kind") == "persistence");
}

TEST_CASE("doctor: nearly full memory is a warning, and full memory is critical") {
  delayqueue::PrivateServer server;
  Redis client(server.socket());
  delayqueue::Producer producer(server.url(), "q");
  const auto used = [&] { return std::stoll(test::info("memory", "used_memory", client)); };
  set(client, "maxmemory", std::to_string(used() + 8'000'000));
  const auto fill = [&] {
    for (int i = 0; i < 10'000; ++i) producer.send(std::string(1000, 'x'));
  };
  REQUIRE_THROWS_WITH_AS(fill(), doctest::Contains("OOM"), delayqueue::ReplyError);
  expect(run({"doctor"}, at(server.url())), 5, {out_has("\ncritical    used_memory "), out_has("refuses sends (OOM)")});
  const json risks = parse_json(run({"doctor", "-o", "json"}, at(server.url())).out).at("risks");
  REQUIRE(risks.size() == 1);
  CHECK(holds(risks[0],
              {{"server", "unix:" + server.socket()}, {"kind", "memory"}, {"level", "critical"}, {"accepted", false}}));

  set(client, "maxmemory", std::to_string(used() * 100 / 94));
  expect(run({"doctor"}, at(server.url())), 5, {out_has("\nrisk        used_memory ")});
  CHECK(parse_json(run({"doctor", "-o", "json"}, at(server.url())).out).at("risks")[0].at("level") == "warning");
  set(client, "maxmemory", std::to_string(used() * 2));
  CHECK(run({"doctor"}, at(server.url())).code == 0);
}

TEST_CASE("doctor: --accept accepts a risk by its name, still shows it, and hides no other risk and no damage") {
  delayqueue::PrivateServer server;
  Redis client(server.socket());
  set(client, "appendonly", "no");
  const auto options = at(server.url());
  CHECK(run({"doctor"}, options).code == 5);
  expect(run({"doctor", "--accept", "persistence"}, options), 0, {out_has("\naccepted    appendonly no")});
  const json risks = parse_json(run({"doctor", "--accept", "persistence", "-o", "json"}, options).out).at("risks");
  REQUIRE(risks.size() == 1);
  CHECK(holds(risks[0], {{"accepted", true}, {"level", "warning"}}));

  set(client, "maxmemory", "67108864");
  set(client, "maxmemory-policy", "allkeys-lru");
  expect(run({"doctor", "--accept", "persistence"}, options), 5,
         {out_has("\nrisk        maxmemory-policy allkeys-lru")});
  CHECK(run({"doctor", "--accept", "persistence", "--accept", "eviction"}, options).code == 0);
  CHECK(run({"doctor", "--accept=eviction", "--accept=persistence"}, options).code == 0);

  delayqueue::Producer(server.url(), "q").send("x");
  const std::vector<std::string> both = {"doctor",   "--accept", "persistence", "--accept",
                                         "eviction", "--settle", "50ms",        "q"};
  CHECK(run(both, options).code == 0);
  client.cmd({"HSET", "dp:q:retry:cnt", "0190f7c2-5b1f-7000-8000-000000000001", "3"});
  CHECK(run(both, options).code == 5);

  expect(run({"doctor", "--accept", "persistance"}, options), 2,
         {err_has("--accept: 'persistance'; expected one of eviction, memory, persistence, disk, replica, clock")});
}

TEST_CASE("doctor: every master of a Cluster is examined, and one that does not answer is reported") {
  test::ClusterOptions options;
  options.node.arguments = {"--appendonly", "yes"};
  test::Cluster six(options);
  const auto in_cluster = at(six.url());
  const std::string queue = fresh_queue();
  delayqueue::Producer(six.url(), queue).send("x");
  expect(run({"doctor"}, in_cluster), 0, {out_has("\nmasters     3 in this Cluster\nrisks       none found\n")});

  test::Node& owner = six.owner("{dp:" + queue + "}");
  test::Node& other = six.other_master(owner);
  REQUIRE(other.cmd({"CONFIG", "SET", "maxmemory", "67108864"}) == "OK");
  REQUIRE(other.cmd({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"}) == "OK");
  for (const std::string& name : {std::string(), queue}) {
    CAPTURE(name);
    std::vector<std::string> arguments = {"doctor", "--settle", "50ms"};
    if (!name.empty()) arguments.push_back(name);
    expect(run(arguments, in_cluster), 5,
           {out_has("\nrisk        " + other.address() + ": maxmemory-policy allkeys-lru")});
    arguments.insert(arguments.end(), {"-o", "json"});
    const json document = parse_json(run(arguments, in_cluster).out);
    CHECK(document.at("servers").size() == 3);
    std::set<std::string> servers;
    for (const json& server : document.at("servers")) {
      servers.insert(server.at("where"));
      CHECK(server.at("role") == "master");
      CHECK(server.at("error").is_null());
    }
    CHECK(servers.size() == 3);
    CHECK(servers.count(other.address()) == 1);
    if (!name.empty()) CHECK(document.at("server").at("where") == owner.address());
    REQUIRE(document.at("risks").size() == 1);
    CHECK(holds(document.at("risks")[0], {{"server", other.address()}, {"kind", "eviction"}}));
  }
  for (const std::size_t i : {0, 1, 2}) REQUIRE(six.node(i).cmd({"CONFIG", "SET", "appendfsync", "no"}) == "OK");
  const Ran same = expect(run({"doctor", "--accept", "eviction", "--accept", "persistence"}, in_cluster), 0);
  const auto first = same.out.find("appendfsync no:");
  REQUIRE(first != std::string::npos);
  CHECK(same.out.find("appendfsync no:", first + 1) == std::string::npos);  // shown once, with all three addresses
  for (const std::size_t i : {0, 1, 2}) CHECK(has(same.out, six.node(i).address()));

  six.replica_of(other).kill();
  other.kill();
  const std::vector<std::string> accept = {"doctor", "--accept", "eviction", "--accept", "persistence"};
  expect(run(accept, in_cluster), 4, {out_has("\nerror       " + other.address() + ": "), out_has("\naccepted    ")});
  CHECK(run({"doctor"}, in_cluster).code == 5);  // the risks of the other masters
  const json document = parse_json(run({"doctor", "-o", "json"}, in_cluster).out);
  REQUIRE(document.at("servers").size() == 3);
  for (const json& server : document.at("servers"))
    CHECK(server.at("error").is_null() == (server.at("where") != other.address()));
}

TEST_CASE("doctor: if the queue's own Cluster node does not answer, the risks of the others and the error are shown") {
  test::ClusterOptions options;
  options.node.arguments = {"--appendonly", "yes"};
  test::Cluster six(options);
  const std::string queue = fresh_queue();
  delayqueue::Producer(six.url(), queue).send("x");
  test::Node& owner = six.owner("{dp:" + queue + "}");
  six.replica_of(owner).kill();
  owner.kill();
  const Ran ran =
      expect(run({"doctor", queue}, at(six.url())), 1,
             {out_has("masters     3 in this Cluster\n"), out_has("\nerror       " + owner.address() + ": ")});
  CHECK(ran.err.size() > 10);
  CHECK(parse_json(run({"doctor", queue, "-o", "json"}, at(six.url())).out).count("error") == 1);
}

TEST_CASE("doctor: the address that a Cluster reports for a node is escaped") {
  const std::string evil = "evil\033[2J\n\xe2\x80\xae";
  int port = 0;
  test::ScriptedServer server([&](const std::vector<std::string>& words) -> std::string {
    if (words[0] == "HELLO") return test::hello();
    if (words[0] == "INFO" || (words[0] == "CLUSTER" && words[1] == "INFO")) return test::bulk("redis_version:7\r\n");
    if (words[0] == "TIME") return test::array({test::bulk("1700000000"), test::bulk("0")});
    if (words[0] != "CLUSTER") return "-ERR no\r\n";
    const auto range = [](const std::string& first, const std::string& last, const std::string& host, int at) {
      const std::string node = test::array({test::bulk(host), ":" + std::to_string(at) + "\r\n"});
      return test::array({":" + first + "\r\n", ":" + last + "\r\n", node});
    };
    return test::array({range("0", "8000", "127.0.0.1", port), range("8001", "16383", evil, 1)});
  });
  port = server.port();
  const auto options = at("redis+cluster://" + server.host());
  const Ran ran = expect(run({"doctor", "--accept", "clock"}, options), 4,
                         {out_has("\nerror       evil\\x1b[2J\\x0a\\xe2\\x80\\xae:1: ")});
  for (const Ran& one : {ran, run({"doctor", "-o", "json"}, options)}) {
    CHECK_FALSE(has(one.out + one.err, "\033"));
    CHECK_FALSE(has(one.out + one.err, "\xe2\x80\xae"));
  }
}

TEST_CASE("doctor: a queue without damage is clean") {
  test::empty_server();
  test::send("my queue:eu", test::numbered(10));
  expect(doctor({"my queue:eu"}), 0, {out_has("\nmy queue:eu: all in order\n")});
  const json check = parse_json(doctor({"my queue:eu", "-o", "json"}).out).at("check");
  CHECK(check.at("clean") == true);
  CHECK(check.at("counts").empty());
}

TEST_CASE("doctor: damage is shown, and repaired only with --yes") {
  const std::string id = damage("my queue:eu");
  const auto before = test::snapshot("dp:my queue:eu");
  expect(doctor({"my queue:eu"}), 5,
         {out_has("my queue:eu: damaged\n"), out_has("\n1x stranded\n"), out_has("  such as " + id + "\n"),
          err_is("dqctl doctor 'my queue:eu' --repair shows what a repair would do\n")});

  const Ran dry = expect(doctor({"my queue:eu", "--repair"}), 5);
  CHECK(dry.err == "dry run: this is what a repair would do; add --yes to do it\n");
  CHECK(test::snapshot("dp:my queue:eu") == before);

  const json check = parse_json(doctor({"my queue:eu", "-o", "json"}).out).at("check");
  CHECK(holds(check, {{"clean", false}, {"counts", parse_json(R"({"stranded": 1, "orphaned_retries": 1})")}}));
  CHECK(check.at("findings")[0].at("repaired") == false);

  const Ran repaired = expect(doctor({"my queue:eu", "--repair", "--yes"}), 0);
  CHECK(repaired.err == "repaired 2\n");
  CHECK(test::redis().cmd({"LRANGE", "dp:my queue:eu:ready", "0", "-1"}) == std::vector<std::string>{id});
  CHECK(doctor({"my queue:eu"}).code == 0);
}

TEST_CASE("doctor: damage that it cannot repair is reported, including a key of the wrong type") {
  test::empty_server();
  test::send("q", {"x"});
  test::redis().cmd({"SET", "dp:q:pending", "something else"});
  expect(doctor({"q"}), 5, {out_has("1x wrong_type"), out_has("such as dp:q:pending")});
  expect(doctor({"q", "--repair", "--yes"}), 4, {err_is("repaired 0; 1 finding needs a person\n")});
  CHECK(test::redis().cmd({"GET", "dp:q:pending"}) == "something else");
}

TEST_CASE("doctor: another program's key at settings or at the list of queues is named, not advised in a circle") {
  test::empty_server();
  test::send("q", {"x"});
  test::redis().cmd({"DEL", "dp:q:settings"});
  test::redis().cmd({"SET", "dp:q:settings", "something else"});
  expect(doctor({"q"}), 1,
         {err_has("the key dp:q:settings is no hash, so another program uses it; rename or delete that key"),
          err_lacks("dqctl doctor QUEUE")});
  test::redis().cmd({"DEL", "dp:q:settings", "dp:queues"});
  test::redis().cmd({"SET", "dp:queues", "something else"});
  expect(doctor({"q"}), 5, {out_has("1x wrong_type"), out_has("such as dp:queues")});
}

TEST_CASE("doctor: what it may not read is named, and the rest is examined") {
  delayqueue::PrivateServer server;
  Redis admin(server.socket());
  admin.cmd({"ACL", "SETUSER", "some", "on", ">secret", "~*", "&*", "+@all", "-scan", "-dbsize"});
  delayqueue::Producer(server.url(), "q").send("x");
  admin.cmd({"HSET", "dp:q:retry:cnt", "0190f7c2-5b1f-7000-8000-000000000001", "3"});
  DqctlOptions options = at(server.url());
  options.environment["DELAYQUEUE_PASSWORD"] = "secret";
  expect(run({"--user", "some", "doctor", "q", "--settle", "1ms", "--accept", "persistence"}, options), 5,
         {out_has("only a part was examined"), out_has("scan"), out_has("1x orphaned_retries")});
}

TEST_CASE("doctor: SIGINT ends the check") {
  test::empty_server();
  test::send("q", {"x"});
  damage("q");
  test::redis().cmd({"EVAL",
                     R"lua(for i = 1, 100000 do
                             local id = string.format('0190f7c2-5b1f-7000-8000-%012x', i)
                             redis.call('ZADD', KEYS[1], i, id)
                             redis.call('HSET', KEYS[2], id, '3')
                           end)lua",
                     "2", "dp:q:pending", "dp:q:retry:cnt"});
  Dqctl running({"doctor", "q"});
  REQUIRE(running.wait_for("clock"));
  running.signal(SIGINT);
  expect(running.wait(), 130, {err_has("interrupted")});
}

TEST_CASE("doctor: progress is shown on a terminal only") {
  test::empty_server();
  test::redis().cmd({"EVAL",
                     R"lua(for i = 1, 20000 do
                             redis.call('ZADD', KEYS[1], i, string.format('0190f7c2-5b1f-7000-8000-%012x', i))
                           end)lua",
                     "1", "dp:q:dead"});
  CHECK(has(run({"doctor", "q", "--settle", "1500ms"}, with(&DqctlOptions::terminal, true)).out, "\rchecked "));
  CHECK_FALSE(has(run({"doctor", "q", "--settle", "1500ms"}).err, "checked "));
}

TEST_CASE("doctor: a missing queue is exit code 3, and wrong arguments are exit code 2") {
  test::empty_server();
  CHECK(run({"doctor", "nowhere"}).code == 3);
  CHECK(run({"doctor", "--repair"}).code == 2);
  test::send("q", {"x"});
  CHECK(run({"doctor", "q", "--yes"}).code == 2);
}
