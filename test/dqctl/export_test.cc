// Tests of dqctl export and import.
#include "preamble.h"

#include "support/proxy.h"

namespace {

using delayqueue::MessageInfo;
using delayqueue::State;

constexpr State kStates[] = {State::pending, State::ready, State::retry, State::unack, State::dead};

std::vector<MessageInfo> all_of(const std::string& url, const std::string& queue) {
  std::vector<MessageInfo> all;
  delayqueue::Inspector inspector(url, queue);
  for (const State state : kStates) {
    delayqueue::ListOptions options;
    options.limit = 1000;
    options.payload = 10'000'000;
    for (const MessageInfo& message : inspector.list(state, options)) all.push_back(message);
  }
  return all;
}

TEST_CASE("export: it is not complete, and says so, if messages arrive faster than it reads them") {
  delayqueue::PrivateServer redis;
  test::Redis admin(redis.socket());
  delayqueue::Producer producer(redis.url(), "q");
  const auto due_in = [](std::chrono::milliseconds delay) { return with(&delayqueue::SendOptions::delay, delay); };
  producer.send_batch(std::vector<std::string>(10, "before"), due_in(2h));
  run({"export", "q"}, at(redis.url()));  // loads the scripts
  admin.cmd({"CONFIG", "RESETSTAT"});
  test::FaultProxy proxy(redis.socket(), test::FaultProxy::Via::unix_socket);
  proxy.black_hole_from("zset");  // its first page
  Dqctl exporting({"export", "q", "--command-timeout", "60s"}, at(proxy.url()));
  REQUIRE(eventually([&] { return has(admin.cmd({"INFO", "commandstats"}).text, "cmdstat_pttl"); }, kPatience));
  producer.send_batch(std::vector<std::string>(1000, "after"), due_in(1h));
  proxy.black_hole(false);
  const Ran ran =
      expect(exporting.wait(), 4, {err_has("messages arrive faster than they are read"), out_lacks("before")});
  CHECK(has(ran.out, "after"));
}

TEST_CASE("export, import: a queue moves to another server with every byte, due time, retry, reason and header") {
  const std::string queue = fresh_queue() + ": \xc3\xa9 and colon";
  const std::string url = test::server().url();
  delayqueue::Producer producer(url, queue);
  delayqueue::Inspector inspector(url, queue);
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (int i = 0; i < 300; ++i) {
    delayqueue::SendOptions options;
    options.delay = i % 3 == 0 ? 1h + i * 1ms : 0ms;
    options.retries = i % 7;
    if (i % 5 == 0) options.ttl = 24h;
    if (i % 2 == 0) options.headers = {{"n", std::to_string(i)}, {"bytes", bytes}, {"a", ""}};
    producer.send(bytes.substr(static_cast<std::size_t>(i % 256)) + std::string(i == 9 ? 300'000 : 0, '\x01'), options);
  }
  {
    delayqueue::Consumer consumer(url, queue, [](const delayqueue::Message& m) {
      return m.attempt() > 1 || m.payload().size() % 2 == 0 ? delayqueue::reject("no \xfe")
                                                            : delayqueue::nack(1h, "later \"");
    });
    consumer.start();
    while (inspector.counts().ready > 0 || inspector.counts().totals.nacked < 200) std::this_thread::sleep_for(5ms);
    CHECK(consumer.stop());
  }
  delayqueue::SendOptions unique;
  unique.unique.key = bytes.substr(100, 100);
  unique.delay = 1h;
  const std::string keyed = producer.send("ready", unique).id;
  const auto before = all_of(url, queue);
  REQUIRE(before.size() == 301);
  const Ran exported = expect(run({"export", queue}), 0, {err_is("")});
  CHECK(std::count(exported.out.begin(), exported.out.end(), '\n') == 301);

  delayqueue::PrivateServer elsewhere;
  DqctlOptions there;
  there.environment["DELAYQUEUE_URI"] = elsewhere.url();
  there.input = exported.out;
  CHECK(has(run({"import", queue, "-", "--dry-run"}, there).out, "dry run: 301 messages, of which "));
  CHECK(test::counts(queue, elsewhere.url()).totals.sent == 0);
  const json report = parse_json(run({"import", queue, "-", "-o", "json"}, there).out);
  CHECK(holds(report, {{"created", 301}, {"failed", 0}}));
  delayqueue::Inspector copy(elsewhere.url(), queue);
  for (const MessageInfo& message : before) {
    const auto found = copy.find(message.id);
    REQUIRE(found);
    CHECK(found->payload == message.payload);
    CHECK(found->reason == message.reason);
    CHECK((found->headers == message.headers));
    CHECK(found->key == (message.id == keyed ? unique.unique.key : ""));
    CHECK(found->retries == message.retries);
    CHECK(found->deliveries == message.deliveries);
    CHECK(found->ttl.has_value() == message.ttl.has_value());
    CHECK(found->state == (message.state == State::unack ? State::pending : message.state));
    if (message.at) CHECK(*message.at - *found->at < 1ms);
    if (message.at && message.state != State::dead) CHECK(*message.at == *found->at);  // whole milliseconds
  }
  CHECK(parse_json(run({"import", queue, "-", "-o", "json"}, there).out).at("existed") == 301);
  CHECK(copy.queues() == std::vector<std::string>{queue});
  // Another message has the key now.
  delayqueue::Producer other(elsewhere.url(), queue);
  CHECK(other.cancel(keyed) == State::pending);
  CHECK(other.send("another", unique).created());
  const Ran again = run({"import", queue, "-"}, there);
  CHECK(again.code == 4);
  CHECK(has(again.err, keyed + " was not imported: another message has its unique key"));
}

TEST_CASE("export: it filters one state, warns of held messages, and skips messages without a body with exit code 4") {
  const std::string queue = fresh_queue();
  test::make_dead(queue, 5, "a");
  const auto ids = test::make_dead(queue, 3, "b");
  CHECK(lines_of(run({"export", queue, "--state", "dead", "--reason", "b"}).out).size() == 3);
  CHECK(run({"export", queue, "--state", "pending"}).out.empty());
  test::redis().cmd({"DEL", "dp:" + queue + ":msg:" + ids[0]});
  const Ran ran = expect(run({"export", queue}), 4);
  CHECK(lines_of(ran.out).size() == 7);
  CHECK(has(ran.err, "left out: 1 message without a body\n"));
  test::redis().cmd({"ZADD", "dp:" + queue + ":unack", "4000000000.000001", ids[1]});
  test::redis().cmd({"HSET", "dp:" + queue + ":retry:cnt", ids[1], "2"});
  test::redis().cmd({"ZREM", "dp:" + queue + ":dead", ids[1]});
  CHECK(has(run({"export", queue, "--state", "unack"}).err, "in flight: 1 message; after an import"));
  test::redis().cmd({"HDEL", "dp:" + queue + ":retry:cnt", ids[1]});
  const Ran cancelled = run({"export", queue, "--state", "unack"});
  CHECK(cancelled.out.empty());
  CHECK(has(cancelled.err, "left out: 1 message cancelled in flight\n"));
  CHECK(run({"export", queue + "x"}).code == 3);
}

TEST_CASE(
    "import: of messages that exist it says how many differ and in what; --replace overwrites all but those in "
    "flight") {
  const std::string queue = fresh_queue();
  test::send(queue, test::numbered(300), 1h);
  test::make_dead(queue, {"dead letter"}, "why");
  const std::string held = test::hold(queue, 1h);
  const auto import = [&](const std::string& lines, std::vector<std::string> more) {
    const auto options = with(&DqctlOptions::input, lines);
    more.insert(more.begin(), {"import", queue, "-"});
    return run(more, options);
  };
  const std::string exported = run({"export", queue}).out;
  CHECK(import(exported, {}).code == 0);
  CHECK(import(exported, {}).out == "imported 0 messages into " + queue + ", 302 existed\n");

  std::string edited;
  std::istringstream lines(exported);
  for (std::string one; std::getline(lines, one);) {
    const std::size_t payload = one.find("payload 1");
    if (payload != std::string::npos) one.replace(payload, 7, "charge");
    edited += one + '\n';
  }
  const Ran refused = import(edited, {});  // "size" is that of the payload before
  CHECK(refused.code == 4);
  CHECK(has(refused.err, "; if the payload was edited, delete the field size\n"));
  CHECK(std::count(refused.err.begin(), refused.err.end(), '\n') == 21);
  CHECK(has(refused.err, "and 91 more lines failed; -o json has the first 100\n"));

  std::string unsized = edited;
  for (std::size_t at = 0; (at = unsized.find("\"size\":", at)) != std::string::npos;) {
    unsized.erase(at, unsized.find(',', at) + 1 - at);
  }
  expect(import(unsized, {}), 4,
         {out_is("imported 0 messages into " + queue +
                 ", 302 existed and stay as they are, of which 111 differ from the file (payload 111); "
                 "--replace overwrites them\n")});
  CHECK(parse_json(import(unsized, {"-o", "json"}).out).at("differing") == 111);
  const Ran replaced = expect(import(unsized, {"--replace"}), 4);
  CHECK(replaced.out == "imported 0 messages into " + queue + ", replaced 301; 1 line failed\n");
  CHECK(has(replaced.err, held + " is in flight, and was not replaced"));
  CHECK(lines_of(run({"ls", queue, "--limit", "1000", "--state", "pending", "-o", "ndjson"}).out).size() == 300);
  CHECK(import(unsized, {}).out == "imported 0 messages into " + queue + ", 302 existed\n");
  CHECK(run({"doctor", queue}).code == 0);
}

TEST_CASE("import: bad lines are reported by number and all others imported; a missing file is exit code 2") {
  const std::string queue = fresh_queue();
  const std::string id = R"({"id":"0197f3a4-5b6c-7d8e-9f01-23456789abcd",)";
  DqctlOptions options;
  options.input =
      "x\n" + id + "\"state\":\"ready\"}\n" + id + "\"state\":\"ready\",\"retries\":1}\n" + id +
      "\"state\":\"gone\"}\n" + id + "\"state\":\"dead\",\"payload\":\"x\"}\n" + id +
      "\"state\":\"ready\",\"retries\":1,\"payload\":\"xy\",\"size\":7}\n" + id +
      "\"state\":\"ready\",\"retries\":1,\"payload_base64\":\"AA==\",\"size\":1,\"x\":[1e400,\"\\ud800\"]}\n" + id +
      "\"state\":\"pending\",\"at\":\"2150-01-01T00:00:00Z\",\"retries\":1,\"ttl_ms\":1000,\"payload\":\"x\"}\n" + id +
      "\"state\":\"ready\",\"retries\":1,\"payload\":null}\n" + id +
      "\"state\":\"ready\",\"state\":\"dead\",\"retries\":1,\"payload\":\"x\"}\n";
  const Ran ran = expect(run({"import", queue, "-"}, options), 4,
                         {out_is("imported 1 message into " + queue + "; 9 lines failed\n")});
  for (const char* expected :
       {"stdin, line 1: is no JSON: x", "stdin, line 2: retries: missing", "stdin, line 3: payload: missing",
        "stdin, line 4: state: 'gone'", "stdin, line 5: at: missing",
        "stdin, line 6: payload: 2 bytes, but \"size\" is 7",
        "stdin, line 8: ttl_ms: 1000 ends before the message is due", "stdin, line 9: payload: null; expected a text",
        "stdin, line 10: field state is there twice"}) {
    CHECK(has(ran.err, expected));
  }
  CHECK(delayqueue::Inspector(test::server().url(), queue).find("0197f3a4-5b6c-7d8e-9f01-23456789abcd")->payload ==
        std::string(1, '\0'));
  options.input = "x\n";
  CHECK(run({"import", queue, "-"}, options).code == 1);
  CHECK(run({"import", queue, "/nowhere/at/all"}).code == 2);
  CHECK(run({"import", queue}).code == 2);
}

TEST_CASE("import: a line whose shifted time is out of range is a bad line, in a dry run as well") {
  const std::string queue = fresh_queue();
  DqctlOptions options;
  constexpr int kGood = 1100;  // more than two batches
  for (int i = 0; i < kGood; ++i) {
    char id[40];
    std::snprintf(id, sizeof id, "0197f3a4-5b6c-7d8e-9f01-%012d", i);
    const std::string head = R"({"id":")" + std::string(id) + R"(","state":"pending","retries":1,"payload":"x","at":")";
    if (i == 700) options.input += head + "1970-01-01T00:00:00+23:59\"}\n";
    if (i == 701) options.input += head + "2199-12-31T23:59:59-00:01\"}\n";
    options.input += head + "2100-01-01T00:00:00Z\"}\n";
  }
  for (const bool dry : {true, false}) {
    CAPTURE(dry);
    const Ran ran = expect(run({"import", queue, "-", "-o", "json", dry ? "--dry-run" : "--utc"}, options), 4,
                           {err_has("stdin, line 701: at: '1970-01-01T00:00:00+23:59'"),
                            err_has("stdin, line 703: at: '2199-12-31T23:59:59-00:01'")});
    const json report = parse_json(ran.out);
    CHECK(report.at("failed") == 2);
    CHECK(report.at("errors").at(1).at("line") == 703);
    CHECK(report.at("alive") == kGood);
    CHECK(report.at("created") == (dry ? 0 : kGood));
  }
  CHECK(test::counts(queue).pending == kGood);
}

TEST_CASE("export: a state with foreign ids only is exit code 4") {
  const std::string queue = fresh_queue();
  test::redis().cmd({"ZADD", "dp:" + queue + ":dead", "1", "no UUID"});
  expect(run({"export", queue}), 4, {out_is("")});
}

TEST_CASE("export: if the server stops during the export, the last line is an error") {
  delayqueue::PrivateServer server;
  const std::string queue = fresh_queue();
  test::make_dead(queue, 20'000, "x", server.url());
  DqctlOptions options;
  options.environment["DELAYQUEUE_URI"] = server.url();
  Dqctl dqctl({"export", queue, "-o", "ndjson"}, options);
  REQUIRE(dqctl.wait_for("\n"));
  server.kill();
  const Ran ran = expect(dqctl.wait(), 4);
  const auto lines = lines_of(ran.out);
  CHECK(lines.size() < 20'000);
  CHECK(lines.back().contains("error"));
  CHECK(lines.front().contains("payload"));
}

TEST_CASE("export: it ends silently when the reader of its stdout closes the pipe") {
  const std::string queue = fresh_queue();
  test::make_dead(queue, 20'000, "x");
  Dqctl dqctl({"export", queue});
  CHECK(dqctl.wait_for("\n"));
  dqctl.close_out();
  expect(dqctl.wait(), 141, {err_is("")});
}

}  // namespace
