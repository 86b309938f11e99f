// dqctl send
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>

#include "queue.h"

namespace {

using namespace std::chrono_literals;
using delayqueue::State;
using nlohmann::json;
using test::has;
using test::Ran;
using test::run;

const std::string kBytes("\0\xff\n{\"'\r\n", 9);

struct Fixture {
  std::string queue = test::fresh_queue() + " with: colon";
  delayqueue::Inspector look{test::server().url(), queue};

  std::string sent_id(const std::vector<std::string>& more, const test::DqctlOptions& options = {}) {
    std::vector<std::string> words = {"send", queue};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run(words, options);
    CHECK(ran.code == 0);
    CHECK(ran.err.empty());
    REQUIRE(ran.out.size() == 37);
    return ran.out.substr(0, 36);
  }
};

TEST_CASE_FIXTURE(Fixture, "send: prints the id; a delay or a time, retries, a TTL and an id are the message's") {
  auto found = look.find(sent_id({"order 42"}));
  CHECK(found->payload == "order 42");
  CHECK(found->state == State::ready);
  CHECK(found->retries == 3);
  CHECK(look.find(sent_id({""}))->payload.empty());
  found = look.find(sent_id({"x", "--delay", "1h", "--retries", "7", "--ttl", "2h"}));
  CHECK(found->state == State::pending);
  CHECK(found->retries == 7);
  CHECK(*found->ttl > 2h + 59min);
  CHECK(look.find(sent_id({"x", "--at", "+10m"}))->state == State::pending);
  const std::string id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  CHECK(sent_id({"x", "--id", id, "--at", "2100-01-01T00:00:00.123Z"}) == id);
  CHECK(*look.find(id)->at == std::chrono::system_clock::time_point(4102444800123ms));
  const Ran again = run({"send", queue, "y", "--id", id});
  CHECK(again.code == 0);
  CHECK(again.out == id + '\n');
  CHECK(has(again.err, "alive already"));
  CHECK(look.find(id)->payload == "x");
  const json told = json::parse(run({"send", queue, "y", "--id", id, "-o", "json"}).out);
  CHECK(told == json::parse(R"({"queue":")" + queue + R"(","id":")" + id + R"(","created":false})"));
}

TEST_CASE_FIXTURE(Fixture, "send: any bytes from stdin") {
  test::DqctlOptions options;
  options.input = kBytes;
  CHECK(look.find(sent_id({"-"}, options))->payload == kBytes);
  CHECK(look.find(sent_id({"-"}))->payload.empty());
}

TEST_CASE_FIXTURE(Fixture, "send --ndjson: a message a line, with what the line says; bad lines are told by number") {
  test::DqctlOptions options;
  const std::string id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  options.input = R"({"payload":"one"}
{"payload":{"a":[1,2]},"delay":"10m","retries":0}
{"payload_base64":"AP8K","ttl_ms":3600000,"id":")" +
                  id + R"("}

nonsense
{"payload":"x","delays":"1h"}
{"payload":"x","delay":"soon"}
{"payload":"x","delay":"1h","at":"+1h"}
{"retries":1}
{"payload":"x","id":"7"}
{"payload":"x","retries":-1}
{"payload_base64":"AP8"}
[1]
{"payload":"again","id":")" +
                  id + "\"}";
  const Ran ran = run({"send", queue, "--ndjson", "-", "--retries", "5"}, options);
  CHECK(ran.code == 4);
  CHECK(ran.out == "sent 4 messages to '" + queue + "', of which 1 existed; 9 lines failed\n");
  for (const char* expected :
       {"line 5: is no JSON: nonsense", "line 6: field delays is not known to send", "line 7: delay: 'soon'",
        "line 8: delay and at: expected one", "line 9: payload: missing", "line 10: id: \"7\"; expected a UUID",
        "line 11: retries: -1; expected", "line 12: payload_base64: \"AP8\"; expected base64",
        "line 13: is no JSON object"}) {
    CHECK_MESSAGE(has(ran.err, expected), ran.err);
  }
  CHECK(look.find(id)->payload == std::string("\0\xff\n", 3));
  CHECK(look.find(id)->ttl);
  CHECK(look.find(id)->retries == 5);
  const auto pending = look.list(State::pending).messages;
  REQUIRE(pending.size() == 1);
  CHECK(pending[0].payload == "{\"a\":[1,2]}");
  CHECK(pending[0].retries == 0);
  CHECK(look.counts().ready == 2);
}

TEST_CASE_FIXTURE(Fixture, "send --ndjson: in JSON forms each id, or the sum with the errors") {
  test::DqctlOptions options;
  options.input = "{\"payload\":\"one\"}\nx\n{\"payload\":\"two\"}\n";
  const auto lines = test::lines_of(run({"send", queue, "--ndjson", "-", "-o", "ndjson"}, options).out);
  REQUIRE(lines.size() == 2);
  CHECK(lines[1].at("line") == 3);
  CHECK(lines[1].at("created") == true);
  CHECK(look.find(lines[1].at("id").get<std::string>())->payload == "two");
  const json sum = json::parse(run({"send", queue, "--ndjson", "-", "-o", "json"}, options).out);
  CHECK(sum.at("sent") == 2);
  CHECK(sum.at("failed") == 1);
  CHECK(sum.at("errors")[0].at("line") == 2);
  options.input = "x\n";
  CHECK(run({"send", queue, "--ndjson", "-"}, options).code == 1);
}

TEST_CASE_FIXTURE(Fixture, "send --ndjson: many thousand, of any size; interrupted it says from which line to go on") {
  test::DqctlOptions options;
  for (int i = 0; i < 20'000; ++i)
    options.input += "{\"payload\":\"" + std::string(i % 100 == 0 ? 50'000 : 20, 'x') + "\"}\n";
  CHECK(run({"send", queue, "--ndjson", "-"}, options).code == 0);
  CHECK(look.counts().ready == 20'000);
  test::Dqctl dqctl({"send", queue, "--ndjson", "-", "-o", "ndjson"}, options);
  CHECK(dqctl.wait_for("\"line\":1000,"));
  dqctl.signal(SIGINT);
  const Ran ran = dqctl.wait();
  CHECK(ran.code == 4);
  const std::uint64_t sent = test::lines_of(ran.out).size();
  CHECK(look.counts().ready == 20'000 + sent);
  CHECK(has(ran.err, "tail -n +" + std::to_string(sent + 1)));
}

TEST_CASE_FIXTURE(Fixture, "send: what makes no sense is code 2, and nothing is sent") {
  const std::pair<std::vector<std::string>, std::string> rows[] = {
      {{"send", queue}, "PAYLOAD: missing"},
      {{"send", queue, "two", "words"}, "PAYLOAD: 2 words; expected one, in quotes"},
      {{"send", queue, "x", "--ndjson", "-"}, "PAYLOAD and --ndjson"},
      {{"send", queue, "--ndjson", "/nowhere/at/all"}, "/nowhere/at/all cannot be read: No such file"},
      {{"send", queue, "--ndjson", "-", "--id", "0197f3a4-5b6c-7d8e-9f01-23456789abcd"}, "--id: every message"},
      {{"send", queue, "x", "--id", "7"}, "--id: 7; expected a UUID"},
      {{"send", queue, "x", "--delay", "1h", "--at", "+1h"}, "--delay and --at"},
      {{"send", queue, "x", "--retries", "-1"}, "--retries: '-1'"},
      {{"send", queue, "x", "--ttl", "0s"}, "ttl: 0 ms"},
  };
  for (const auto& [arguments, expected] : rows) {
    const Ran ran = run(arguments);
    CHECK(ran.code == 2);
    CHECK_MESSAGE(has(ran.err, expected), ran.err);
  }
  CHECK(look.counts().totals.sent == 0);
}

TEST_CASE_FIXTURE(Fixture, "send: a server that is away is code 1; one that comes back in time is not noticed") {
  test::DqctlOptions options;
  options.environment["DELAYQUEUE_URI"] = "unix:///nowhere/at/all";
  const Ran away = run({"send", queue, "x"}, options);
  CHECK(away.code == 1);
  CHECK(has(away.err, "/nowhere/at/all"));
  delayqueue::PrivateServer server;
  options.environment["DELAYQUEUE_URI"] = server.url();
  server.kill();
  test::Dqctl dqctl({"send", queue, "x"}, options);
  std::this_thread::sleep_for(100ms);
  server.restart();
  CHECK(dqctl.wait().code == 0);
  CHECK(delayqueue::Inspector(server.url(), queue).counts().ready == 1);
}

}  // namespace
