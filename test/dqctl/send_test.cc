// Tests of dqctl send.
#include "preamble.h"

namespace {

using delayqueue::State;

const std::string kBytes("\0\xff\n{\"'\r\n", 9);

struct SendFixture {
  std::string queue = fresh_queue() + " with: colon";
  delayqueue::Inspector inspector{test::server().url(), queue};

  std::string sent_id(const std::vector<std::string>& more, const DqctlOptions& options = {}) {
    std::vector<std::string> words = {"send", queue};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = expect(run(words, options), 0, {err_is("")});
    REQUIRE(ran.out.size() == 37);
    return ran.out.substr(0, 36);
  }
};

TEST_CASE_FIXTURE(SendFixture, "send: it prints the id, and sets delay or time, retries, TTL and id of the message") {
  auto found = inspector.find(sent_id({"order 42"}));
  CHECK(found->payload == "order 42");
  CHECK(found->state == State::ready);
  CHECK(found->retries == 3);
  CHECK(inspector.find(sent_id({""}))->payload.empty());
  found = inspector.find(sent_id({"x", "--delay", "1h", "--retries", "7", "--ttl", "2h"}));
  CHECK(found->state == State::pending);
  CHECK(found->retries == 7);
  CHECK(*found->ttl > 2h + 59min);
  CHECK(inspector.find(sent_id({"x", "--at", "+10m"}))->state == State::pending);
  const std::string id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  CHECK(sent_id({"x", "--id", id, "--at", "2100-01-01T00:00:00.123Z"}) == id);
  CHECK(*inspector.find(id)->at == std::chrono::system_clock::time_point(4102444800123ms));
  expect(run({"send", queue, "y", "--id", id}), 0, {out_is(id + '\n'), err_has("alive already")});
  CHECK(inspector.find(id)->payload == "x");
  const json report = parse_json(run({"send", queue, "y", "--id", id, "-o", "json"}).out);
  CHECK(report == parse_json(R"({"queue":")" + queue + R"(","id":")" + id +
                             R"(","result":"existed","created":false,"cancelled":false})"));
}

TEST_CASE_FIXTURE(SendFixture, "send --key: while a message has the key, --on-conflict says what happens") {
  const std::string id = sent_id({"1", "--key", "k", "--delay", "1h"});
  expect(run({"send", queue, "2", "--key", "k"}), 0, {out_is(id + '\n'), err_has("nothing was sent")});
  CHECK(inspector.find(id)->payload == "1");
  const std::vector<std::string> replace = {"send", queue, "22", "--key", "k", "--on-conflict", "replace"};
  expect(run(replace), 0, {out_is(id + '\n'), err_has("was replaced")});
  CHECK(inspector.find(id)->payload == "22");
  const auto at = inspector.find(id)->at;
  const json report = parse_json(run({"send", queue, "3", "--key", "k", "--on-conflict", "postpone", "--delay", "9h",
                                      "--max-wait", "2h", "-o", "json"})
                                     .out);
  CHECK(report["result"] == "replaced");
  CHECK(report["id"] == id);
  CHECK(*inspector.find(id)->at >= *at + 59min);
  CHECK(*inspector.find(id)->at <= *at + 61min);
  CHECK(sent_id({"x", "--key", "w", "--window", "1h", "--ignore-in-flight"}).size() == 36);
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--key", ""},
                                             {"--window", "1h"},
                                             {"--key", std::string(129, 'k')},
                                             {"--key", "k", "--on-conflict", "replace", "--window", "1h"},
                                             {"--key", "k", "--max-wait", "1h"},
                                             {"--key", "k", "--on-conflict", "drop"}}) {
    std::vector<std::string> words = {"send", queue, "x"};
    words.insert(words.end(), wrong.begin(), wrong.end());
    CAPTURE(wrong);
    expect(run(words), 2, {out_is("")});
  }
}

TEST_CASE_FIXTURE(SendFixture, "send --ndjson: a line has its own key") {
  DqctlOptions options;
  options.input =
      R"({"payload": "1", "key": "k", "delay": "1h"})"
      "\n"
      R"({"payload": "2", "key": "k", "on_conflict": "replace"})"
      "\n"
      R"({"payload": "3", "key": "k", "window": "1h", "while_in_flight": false})"
      "\n"
      R"({"payload": "4", "key_base64": "aw==", "on_conflict": "postpone", "max_wait": "2h", "delay": "1h"})"
      "\n"
      R"({"payload": "5", "key": "k", "on_conflict": "other"})"
      "\n";
  const Ran ran = run({"send", queue, "--ndjson", "-", "-o", "json"}, options);
  CHECK(ran.code == 4);
  const json report = parse_json(ran.out);
  CHECK(report["sent"] == 4);
  CHECK(report["kept"] == 1);
  CHECK(report["replaced"] == 2);
  CHECK(report["failed"] == 1);
  CHECK(has(ran.err, "line 5: on_conflict: \"other\"; expected keep, replace or postpone"));
  CHECK(inspector.counts().pending == 1);
  expect(run({"send", queue, "--ndjson", "-", "--key", "k"}, options), 2, {err_has("its own")});
}

TEST_CASE_FIXTURE(SendFixture, "send --header: each one is a header of the message; the value may contain anything") {
  const auto found = inspector.find(sent_id({"x", "--header", "b=1=2", "--header", "a=", "--header", "c= x "}));
  CHECK((found->headers == delayqueue::Headers{{"b", "1=2"}, {"a", ""}, {"c", " x "}}));
  CHECK(inspector.find(sent_id({"x"}))->headers.empty());
  const std::vector<std::pair<std::vector<std::string>, const char*>> refused = {
      {{"--header", "none"}, "--header: none; expected NAME=VALUE"},
      {{"--header", "=v"}, "--header: header \"\": expected a name of 1 to 127 characters"},
      {{"--header", "a\x1b=v"}, "--header: header \"a\\x1b\": expected a name"},
      {{"--header", "a=1", "--header", "a=2"}, "--header: a is there twice"},
      {{"--header", "a=" + std::string(8192, 'x')}, "--header: header \"a\": a value of 8192 bytes"},
      {{"--header", "dq-a=v"}, "header \"dq-a\": names that begin with \"dq-\" are reserved"}};
  for (const auto& [more, says] : refused) {
    std::vector<std::string> words = {"send", queue, "x"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run(words);
    CHECK(ran.code != 0);
    CHECK_MESSAGE(has(ran.err, says), ran.err);
  }
  CHECK(inspector.counts().totals.sent == 2);
}

TEST_CASE_FIXTURE(SendFixture, "send --ndjson: a line has its own headers, or those of --header") {
  DqctlOptions options;
  options.input = R"({"payload":"own","headers":[{"name":"b","value":"1"},{"name":"a","value_base64":"AP8K"}]}
{"payload":"none","headers":[]}
{"payload":"default"}
{"payload":"bad","headers":{"a":"1"}}
{"payload":"bad","headers":[{"name":"a"}]}
{"payload":"bad","headers":[{"name":"a b","value":"1"}]}
{"payload":"bad","headers":[{"name":"a","value":"1"},{"name":"a","value":"2"}]}
)";
  const Ran ran = run({"send", queue, "--ndjson", "-", "--header", "k=v"}, options);
  CHECK(ran.code != 0);
  for (const char* line :
       {"line 4: headers: ", "line 5: headers: ", "line 6: headers: ", "line 7: headers: a is there"}) {
    CHECK_MESSAGE(has(ran.err, line), ran.err);
  }
  std::map<std::string, delayqueue::Headers> all;
  for (const auto& message : inspector.list(State::ready)) all[message.payload] = message.headers;
  CHECK(
      (all == std::map<std::string, delayqueue::Headers>{
                  {"own", {{"b", "1"}, {"a", std::string("\0\xff\n", 3)}}}, {"none", {}}, {"default", {{"k", "v"}}}}));
}

TEST_CASE_FIXTURE(SendFixture, "send: - sends any bytes from stdin") {
  CHECK(inspector.find(sent_id({"-"}, with(&DqctlOptions::input, kBytes)))->payload == kBytes);
  CHECK(inspector.find(sent_id({"-"}))->payload.empty());
}

TEST_CASE_FIXTURE(SendFixture,
                  "send --ndjson: each line is a message with its own fields; bad lines are reported by number") {
  DqctlOptions options;
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
  const Ran ran = expect(run({"send", queue, "--ndjson", "-", "--retries", "5"}, options), 4,
                         {out_is("sent 4 messages to '" + queue + "', 1 of them existed; 9 lines failed\n")});
  for (const char* expected :
       {"line 5: is no JSON: nonsense", "line 6: field delays is not a field of send", "line 7: delay: 'soon'",
        "line 8: delay and at: expected one", "line 9: payload: missing", "line 10: id: \"7\"; expected a UUID",
        "line 11: retries: -1; expected", "line 12: payload_base64: \"AP8\"; expected base64",
        "line 13: is no JSON object"}) {
    CHECK(has(ran.err, expected));
  }
  CHECK(inspector.find(id)->payload == std::string("\0\xff\n", 3));
  CHECK(inspector.find(id)->ttl);
  CHECK(inspector.find(id)->retries == 5);
  const auto pending = inspector.list(State::pending).messages;
  REQUIRE(pending.size() == 1);
  CHECK(pending[0].payload == "{\"a\":[1,2]}");
  CHECK(pending[0].retries == 0);
  CHECK(inspector.counts().ready == 2);
}

TEST_CASE_FIXTURE(SendFixture,
                  "send --ndjson: JSON payloads are sent unchanged; a field that appears twice is an error") {
  DqctlOptions options;
  const std::pair<std::string, std::string> good[] = {
      {R"({"payload":12345678901234567890123,"retries":1})", "12345678901234567890123"},
      {R"({"retries":1 , "payload" : 0.10 })", "0.10"},
      {R"({"payload":1.00000000000000000001})", "1.00000000000000000001"},
      {R"({"payload":{"z":1, "a":[ 1,{"}":"]\"}"} ],"z":2},"retries":1})", R"({"z":1, "a":[ 1,{"}":"]\"}"} ],"z":2})"},
      {R"({"pay\u006coad":[1e2,true],"id":null})", "[1e2,true]"},
      {R"({"payload":"{\"a\": 1}"})", R"({"a": 1})"},
      {"\t{\"payload\":\t[]\t}\r", "[]"},
      {R"({"payload":"ä\u00e4"})", "ää"},
      {R"({"payload":null})", "null"},
      {R"({"payload":1e400})", "1e400"},
      {R"({"payload":{"n":-1E+999,"s":"\ud800 \udc00","s":1}})", R"({"n":-1E+999,"s":"\ud800 \udc00","s":1})"},
      {R"({"payload":"\ud83d\uDE00\/"})", "\xF0\x9F\x98\x80/"},
      {R"({"payload":null,"payload_base64":"eA=="})", "x"},
  };
  for (const auto& [text, payload] : good) {
    const std::string line = text;
    CAPTURE(line);
    options.input = line + '\n';
    const auto report = lines_of(run({"send", queue, "--ndjson", "-", "-o", "ndjson"}, options).out);
    REQUIRE(report.size() == 1);
    CHECK(inspector.find(report[0].at("id").get<std::string>())->payload == payload);
  }
  const std::pair<std::string, std::string> bad[] = {
      {R"({"payload":"x","payload_base64":"eA=="})", "payload and payload_base64: expected one of them"},
      {R"({"payload":1,"payload_base64":"eA=="})", "payload and payload_base64: expected one of them"},
      {R"({"payload":"x","delay":"1s","delay_ms":2000})", "delay and delay_ms: expected one of them"},
      {R"({"payload":"x","ttl":"1s","ttl_ms":2000})", "ttl and ttl_ms: expected one of them"},
      {R"({"payload":"x","payload":"y"})", "field payload is there twice"},
      {R"({"payload":"x","retries":1,"re\u0074ries":2})", "field retries is there twice"},
      {R"({"payload":"x","headers":[{"name":"a","name":"b","value":"x"}]})", "headers: field name is there twice"},
      {R"({"payload":"\ud800"})", R"(payload: "\ud800"; expected a text without half of a surrogate pair)"},
      {R"({"payload":"\udc00\ud800"})", "expected a text without half of a surrogate pair"},
      {R"({"payload":"x","retries":1e400})", "retries: 1e400; expected a whole number"},
      {R"({"payload":01})", "is no JSON"},
      {R"({"payload":1.})", "is no JSON"},
      {"{\"payload\":\"\xff\"}", "is no JSON"},
  };
  const auto before = inspector.counts().totals.sent;
  for (const auto& [line, expected] : bad) {
    options.input = line + '\n';
    expect(run({"send", queue, "--ndjson", "-"}, options), 1, {err_has(expected)});
  }
  CHECK(inspector.counts().totals.sent == before);
}

TEST_CASE_FIXTURE(SendFixture,
                  "send, import: each form fails for the id of a cancelled message that a consumer still holds") {
  const std::string id = sent_id({"x"});
  Dqctl worker({"work", queue, "--exec", "sleep 600"});
  REQUIRE(eventually([&] { return inspector.counts().unack == 1; }, 30s));
  REQUIRE(run({"cancel", queue, id}).code == 0);
  const auto expected = [&](const std::string& verb) {
    return "cannot " + verb + ": the message with id " + id + " was cancelled and a consumer still holds it; " + verb +
           " again after its lease has ended, or with another id";
  };

  expect(run({"send", queue, "y", "--id", id}), 1, {out_is(""), err_is(expected("send") + '\n')});
  const Ran as_json = expect(run({"send", queue, "y", "--id", id, "-o", "json"}), 1);
  json report = parse_json(as_json.out);
  CHECK(holds(report, {{"created", false}, {"cancelled", true}, {"error", expected("send")}}));

  auto options = with(&DqctlOptions::input, "{\"payload\":\"other\"}\n{\"payload\":\"y\",\"id\":\"" + id + "\"}\n");
  const Ran lines = expect(run({"send", queue, "--ndjson", "-", "-o", "ndjson"}, options), 4,
                           {err_is("line 2: " + expected("send") + '\n')});
  CHECK(lines_of(lines.out).at(1).at("cancelled") == true);
  const Ran sum = expect(run({"send", queue, "--ndjson", "-", "-o", "json"}, options), 4);
  report = parse_json(sum.out);
  CHECK(holds(report, {{"sent", 1},
                       {"existed", 0},
                       {"cancelled", 1},
                       {"failed", 1},
                       {"errors", json::array({{{"line", 2}, {"error", expected("send")}}})}}));

  const std::string other = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  options.input.clear();
  for (const std::string& name : {other, id}) {
    options.input += R"({"id":")" + name + R"(","state":"ready","retries":1,"payload":"y"})" + '\n';
  }
  const Ran imported = expect(run({"import", queue, "-", "-o", "json"}, options), 4,
                              {err_is("stdin, line 2: " + expected("import") + '\n')});
  report = parse_json(imported.out);
  CHECK(holds(report, {{"created", 1},
                       {"existed", 0},
                       {"cancelled", 1},
                       {"alive", 1},
                       {"failed", 1},
                       {"errors", json::array({{{"line", 2}, {"error", expected("import")}}})}}));
}

TEST_CASE_FIXTURE(SendFixture, "send --ndjson: -o ndjson prints each id, -o json the counts and the errors") {
  auto options = with(&DqctlOptions::input, "{\"payload\":\"one\"}\nx\n{\"payload\":\"two\"}\n");
  const auto lines = lines_of(run({"send", queue, "--ndjson", "-", "-o", "ndjson"}, options).out);
  REQUIRE(lines.size() == 2);
  CHECK(holds(lines[1], {{"line", 3}, {"created", true}}));
  CHECK(inspector.find(lines[1].at("id").get<std::string>())->payload == "two");
  const json sum = parse_json(run({"send", queue, "--ndjson", "-", "-o", "json"}, options).out);
  CHECK(holds(sum, {{"sent", 2}, {"failed", 1}}));
  CHECK(sum.at("errors")[0].at("line") == 2);
  options.input = "x\n";
  CHECK(run({"send", queue, "--ndjson", "-"}, options).code == 1);
}

TEST_CASE_FIXTURE(SendFixture,
                  "send --ndjson: it sends 20,000 lines; after SIGINT it names the line to continue from") {
  DqctlOptions options;
  for (int i = 0; i < 20'000; ++i)
    options.input += "{\"payload\":\"" + std::string(i % 100 == 0 ? 50'000 : 20, 'x') + "\"}\n";
  CHECK(run({"send", queue, "--ndjson", "-"}, options).code == 0);
  CHECK(inspector.counts().ready == 20'000);
  Dqctl dqctl({"send", queue, "--ndjson", "-", "-o", "ndjson"}, options);
  CHECK(dqctl.wait_for("\"line\":1000,"));
  dqctl.signal(SIGINT);
  const Ran ran = expect(dqctl.wait(), 4);
  const std::uint64_t sent = lines_of(ran.out).size();
  CHECK(inspector.counts().ready == 20'000 + sent);
  CHECK(has(ran.err, "tail -n +" + std::to_string(sent + 1)));
}

TEST_CASE_FIXTURE(SendFixture, "send: wrong arguments are exit code 2, and nothing is sent") {
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
    expect(run(arguments), 2, {err_has(expected)});
  }
  CHECK(inspector.counts().totals.sent == 0);
}

TEST_CASE_FIXTURE(SendFixture,
                  "send: an unreachable server is exit code 1; a server that restarts in time causes no error") {
  DqctlOptions options;
  options.environment["DELAYQUEUE_URI"] = "unix:///nowhere/at/all";
  expect(run({"send", queue, "x"}, options), 1, {err_has("/nowhere/at/all")});
  delayqueue::PrivateServer server;
  options.environment["DELAYQUEUE_URI"] = server.url();
  server.kill();
  Dqctl dqctl({"send", queue, "x"}, options);
  std::this_thread::sleep_for(100ms);
  server.restart();
  CHECK(dqctl.wait().code == 0);
  CHECK(delayqueue::Inspector(server.url(), queue).counts().ready == 1);
}

}  // namespace
