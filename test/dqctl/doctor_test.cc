// dqctl doctor
#include <doctest/doctest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "fill.h"
#include "run.h"
#include "support/server.h"

using nlohmann::json;
using test::Ran;
using test::run;
using namespace std::chrono_literals;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Ran doctor(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"doctor", "--settle", "50ms"});
  return run(arguments);
}

// Retries recorded of messages that are not there, and a message with body and retries that is in no place.
std::string damage(const std::string& queue) {
  test::empty_server();
  const std::string id = test::send(queue, {"stranded"}, 1h)[0];
  test::redis().cmd({"ZREM", "dp:" + queue + ":pending", id});
  test::redis().cmd({"HSET", "dp:" + queue + ":retry:cnt", "0190f7c2-5b1f-7000-8000-000000000001", "3"});
  return id;
}

}  // namespace

TEST_CASE("doctor: the server") {
  test::empty_server();
  const Ran ran = run({"doctor"});
  CHECK(ran.code == 0);
  CHECK(ran.err.empty());
  CHECK(ran.out.find("server      ") == 0);
  CHECK(has(ran.out, "\nversion     "));
  CHECK(has(ran.out, "\nrole        master, standalone\n"));
  CHECK(has(ran.out, "\non disk     appendonly yes, appendfsync everysec"));
  CHECK(has(ran.out, "\na call      "));
  CHECK(has(ran.out, " ms at best, "));
  CHECK(has(ran.out, "\nrisks       none found\n"));
  CHECK(test::redis().cmd({"SCARD", "dp:queues"}) == 0);

  const json document = json::parse(run({"doctor", "-o", "json"}).out);
  CHECK(document.at("server").at("append_only") == "yes");
  CHECK(document.at("server").at("call_us").at("median") > 0);
  CHECK(document.at("risks").empty());
  CHECK(document.count("check") == 0);
}

TEST_CASE("doctor: what can lose messages is exit code 5") {
  delayqueue::PrivateServer server;
  test::Redis(server.socket()).cmd({"CONFIG", "SET", "appendonly", "no"});
  test::DqctlOptions options;
  options.environment["DELAYQUEUE_URI"] = server.url();
  const Ran ran = run({"doctor"}, options);
  CHECK(ran.code == 5);
  CHECK(has(ran.out, "\nrisk        appendonly no"));
  const json document = json::parse(run({"doctor", "-o", "ndjson"}, options).out);
  CHECK(document.at("risks")[0].at("kind") == "persistence");
}

TEST_CASE("doctor: a queue in order") {
  test::empty_server();
  test::send("my queue:eu", test::numbered(10));
  const Ran ran = doctor({"my queue:eu"});
  CHECK(ran.code == 0);
  CHECK(has(ran.out, "\nmy queue:eu: all in order\n"));
  const json check = json::parse(doctor({"my queue:eu", "-o", "json"}).out).at("check");
  CHECK(check.at("clean") == true);
  CHECK(check.at("counts").empty());
}

TEST_CASE("doctor: damage is shown, repaired only with --yes, and gone then") {
  const std::string id = damage("my queue:eu");
  const auto before = test::snapshot("dp:my queue:eu");
  const Ran look = doctor({"my queue:eu"});
  CHECK(look.code == 5);
  CHECK(has(look.out, "my queue:eu: damaged\n"));
  CHECK(has(look.out, "\n1x stranded\n"));
  CHECK(has(look.out, "  such as " + id + "\n"));
  CHECK(look.err == "dqctl doctor 'my queue:eu' --repair shows what a repair would do\n");

  const Ran dry = doctor({"my queue:eu", "--repair"});
  CHECK(dry.code == 5);
  CHECK(dry.err == "dry run: this is what a repair would do; add --yes to do it\n");
  CHECK(test::snapshot("dp:my queue:eu") == before);

  const json check = json::parse(doctor({"my queue:eu", "-o", "json"}).out).at("check");
  CHECK(check.at("clean") == false);
  CHECK(check.at("counts") == json::parse(R"({"stranded": 1, "count_alone": 1})"));
  CHECK(check.at("findings")[0].at("repaired") == false);

  const Ran repaired = doctor({"my queue:eu", "--repair", "--yes"});
  CHECK(repaired.code == 0);
  CHECK(repaired.err == "repaired 2\n");
  CHECK(test::redis().cmd({"LRANGE", "dp:my queue:eu:ready", "0", "-1"}) == std::vector<std::string>{id});
  CHECK(doctor({"my queue:eu"}).code == 0);
}

TEST_CASE("doctor: what needs a person is said, with a key of the wrong type") {
  test::empty_server();
  test::send("q", {"x"});
  test::redis().cmd({"SET", "dp:q:pending", "something else"});
  const Ran look = doctor({"q"});
  CHECK(look.code == 5);
  CHECK(has(look.out, "1x wrong_type"));
  CHECK(has(look.out, "such as dp:q:pending"));
  const Ran repair = doctor({"q", "--repair", "--yes"});
  CHECK(repair.code == 4);
  CHECK(repair.err == "repaired 0; 1 need a person\n");
  CHECK(test::redis().cmd({"GET", "dp:q:pending"}) == "something else");
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
  test::Dqctl running({"doctor", "q"});
  REQUIRE(running.wait_for("clock"));
  running.signal(SIGINT);
  const Ran ran = running.wait();
  CHECK(ran.code == 130);
  CHECK(has(ran.err, "interrupted"));
}

TEST_CASE("doctor: progress on a terminal only") {
  test::empty_server();
  test::redis().cmd({"EVAL",
                     R"lua(for i = 1, 20000 do
                             redis.call('ZADD', KEYS[1], i, string.format('0190f7c2-5b1f-7000-8000-%012x', i))
                           end)lua",
                     "1", "dp:q:dead"});
  test::DqctlOptions options;
  options.terminal = true;
  CHECK(has(run({"doctor", "q", "--settle", "1500ms"}, options).out, "\rchecked "));
  CHECK_FALSE(has(run({"doctor", "q", "--settle", "1500ms"}).err, "checked "));
}

TEST_CASE("doctor: errors") {
  test::empty_server();
  CHECK(run({"doctor", "nowhere"}).code == 3);
  CHECK(run({"doctor", "--repair"}).code == 2);
  test::send("q", {"x"});
  CHECK(run({"doctor", "q", "--yes"}).code == 2);
}
