// Tests of dqctl ls.
#include "preamble.h"

#include "filter.h"

namespace {

json listed(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ls");
  arguments.insert(arguments.end(), {"-o", "json"});
  const Ran ran = run(arguments);
  CAPTURE(ran.err);
  CHECK(ran.code == 0);
  return parse_json(ran.out);
}

std::vector<std::string> payloads(const json& document) {
  std::vector<std::string> out;
  for (const json& message : document.at("messages")) out.push_back(message.at("payload_start"));
  return out;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("ls: dead letters are listed as a table and as JSON") {
  const std::string queue = "dead: and more";
  test::empty_server();
  const auto ids = test::make_dead(queue, {"first", std::string("\xff\x1b[31m\n", 7)}, "gateway timeout\n\x1b[2J");
  expect(run({"ls", queue, "--state", "dead"}), 0,
         {err_is(""), out_has("ID                                    DEAD SINCE"), out_has(ids[0]),
          out_has("  5 B  gateway timeout\\n\\x1b[2J  first\n"), out_has("\\xff\\x1b[31m\\n\n"), out_lacks("\x1b")});

  const json document = listed({queue, "--state", "dead"});
  CHECK(holds(document, {{"queue", queue}, {"state", "dead"}, {"next", nullptr}}));
  REQUIRE(document.at("messages").size() == 2);
  const json first = document.at("messages")[0];
  CHECK(holds(first, {{"id", ids[0]},
                      {"state", "dead"},
                      {"reason", "gateway timeout\n\x1b[2J"},
                      {"size", 5},
                      {"retries", nullptr},
                      {"held", false},
                      {"payload_start", "first"}}));
  CHECK(first.at("at").get<std::string>().size() == 24);
  CHECK(first.at("sent").get<std::string>().back() == 'Z');
  CHECK(document.at("messages")[1].at("payload_start_base64") == "/xtbMzFtCg==");

  const Ran lines = run({"-o", "ndjson", "ls", queue, "--state=dead", "--limit", "1"});
  CHECK(parse_json(lines.out).at("id") == ids[0]);
  const json page = listed({queue, "--state", "dead", "--limit", "1"});
  CHECK(lines.err == "more: --cursor " + page.at("next").get<std::string>() + "\n");
}

TEST_CASE("ls: pending, held and ready messages are listed with their due times, leases and retries") {
  test::empty_server();
  test::send("q", {"later"}, 1h);
  test::send("q", {"now"});
  const std::string held = test::hold("q", 20s, 3, "slow");
  CHECK(payloads(listed({"q", "--state", "pending"})) == Strings{"later"});
  CHECK(payloads(listed({"q", "--state", "ready"})) == Strings{"now"});
  CHECK(payloads(listed({"q", "--state", "retry"})).empty());
  const json unack = listed({"q", "--state", "unack"}).at("messages")[0];
  CHECK(holds(unack, {{"id", held}, {"held", true}, {"deliveries", 3}, {"retries", 3}}));
  CHECK(has(run({"ls", "q", "--state", "pending"}).out, "  in 59m"));
  const Ran table = run({"ls", "q", "--state", "unack"});
  CHECK(has(table.out, "LEASE ENDS"));
  CHECK(has(table.out, "  in 1"));
  expect(run({"ls", "q", "--state", "retry"}), 0, {out_is(""), err_is("q has no message in retry\n")});
}

TEST_CASE("ls: a missing body is shown as missing") {
  test::empty_server();
  const auto ids = test::make_dead("q", {"a"}, "r");
  test::redis().cmd({"DEL", "dp:q:msg:" + ids[0]});
  CHECK(has(run({"ls", "q", "--state", "dead"}).out, "missing"));
  const json message = listed({"q", "--state", "dead"}).at("messages")[0];
  CHECK(message.at("size") == nullptr);
  CHECK(message.count("payload_start") == 0);
}

TEST_CASE("ls: a long payload is cut between characters") {
  test::empty_server();
  test::send("q", {std::string(63, 'x') + "ä and more"});
  CHECK(payloads(listed({"q", "--state", "ready"})) == Strings{std::string(63, 'x')});
  CHECK(has(run({"ls", "q", "--state", "ready"}).out, std::string(63, 'x') + "…\n"));
}

TEST_CASE("ls: it lists page by page with --cursor, and everything with --limit 0") {
  test::empty_server();
  test::send("q", test::numbered(25));
  Strings seen;
  std::string cursor;
  int pages = 0;
  do {
    Strings arguments = {"q", "--state", "ready", "--limit", "10"};
    if (!cursor.empty()) arguments.insert(arguments.end(), {"--cursor", cursor});
    const json page = listed(arguments);
    for (const std::string& payload : payloads(page)) seen.push_back(payload);
    cursor = page.at("next").is_null() ? "" : page.at("next").get<std::string>();
  } while (!cursor.empty() && ++pages < 10);
  CHECK(seen == test::numbered(25));
  CHECK(payloads(listed({"q", "--state", "ready"})).size() == 20);
  CHECK(payloads(listed({"q", "--state", "ready", "--limit", "0"})).size() == 25);
}

TEST_CASE("ls: it filters by reason, payload and age, and continues after the last message") {
  test::empty_server();
  test::make_dead("q", {"a1", "a2"}, "gateway timeout");
  test::make_dead("q", {"b1", "b2", "b3"}, "no such user");
  test::rewind("dp:q", 1h);
  test::make_dead("q", {"a3"}, "gateway timeout");
  const auto dead = [](Strings more) {
    Strings arguments = {"q", "--state", "dead"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return listed(arguments);
  };
  CHECK(payloads(dead({"--reason", "*timeout"})) == Strings{"a1", "a2", "a3"});
  CHECK(payloads(dead({"--reason", "timeout"})).empty());
  CHECK(payloads(dead({"--match", "?2"})) == Strings{"a2", "b2"});
  CHECK(payloads(dead({"--match", "a*", "--older-than", "30m"})) == Strings{"a1", "a2"});
  CHECK(payloads(dead({"--older-than", "2h"})).empty());
  const json first = dead({"--reason", "no*", "--limit", "2"});
  CHECK(payloads(first) == Strings{"b1", "b2"});
  CHECK(payloads(dead({"--reason", "no*", "--cursor", first.at("next")})) == Strings{"b3"});
  CHECK(run({"ls", "q", "--state", "pending", "--cursor", first.at("next").get<std::string>()}).code == 2);
  CHECK(dead({"--older-than", "30m"}).at("next") == nullptr);  // all later messages are too young
  expect(run({"ls", "q", "--state", "dead", "--match", "z"}), 0,
         {err_is("q has no message in dead that matches\n"
                 "--match z matches only exactly this text; to find it anywhere: --match '*z*'\n")});
}

TEST_CASE("walk: in a state that is sorted by time it ends at the first message that is too young") {
  test::empty_server();
  test::make_dead("q", {"old"}, "r");
  test::rewind("dp:q", 1h);
  test::make_dead("q", test::numbered(5), "r");
  delayqueue::Inspector inspector(test::server().url(), "q");
  ::dqctl::Filter filter;
  filter.older_than = 30min;
  ::dqctl::Walk walk(inspector, delayqueue::State::dead, filter, inspector.counts().now, 0);
  CHECK(walk.next().has_value());
  CHECK_FALSE(walk.next().has_value());
  CHECK(walk.examined() == 2);
  CHECK(walk.cursor().empty());
}

TEST_CASE("ls: in a list, the age of a message is the time in its id") {
  test::empty_server();
  delayqueue::Producer producer(test::server().url(), "q");
  delayqueue::SendOptions options;
  options.id = "0190f7c2-5b1f-7000-8000-000000000001";  // a time in 2024
  producer.send("old", options);
  producer.send("new");
  options.id = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";  // an id without a time
  producer.send("?", options);
  CHECK(payloads(listed({"q", "--state", "ready", "--older-than", "1h"})) == Strings{"old"});
  CHECK(payloads(listed({"q", "--state", "ready", "--older-than", "0s"})) == Strings{"old", "new"});
}

TEST_CASE("ls: --match searches more of a long payload than is shown") {
  test::empty_server();
  test::send("q", {std::string(3000, 'x') + "needle", std::string(3000, 'x')});
  CHECK(payloads(listed({"q", "--state", "ready", "--match", "*needle"})) == Strings{std::string(64, 'x')});
}

TEST_CASE("ls: exit code 3 for a missing queue, 2 for wrong arguments, 1 for a key of a wrong type") {
  test::empty_server();
  test::send("there", {"x"});
  const Ran nowhere = expect(run({"ls", "nowhere", "--state", "dead"}), 3);
  CHECK(has(nowhere.err, "dqctl: queue nowhere is not at unix://"));
  CHECK(has(nowhere.err, "there are: there\n"));
  CHECK(test::redis().cmd({"SISMEMBER", "dp:queues", "dp:nowhere"}) == 0);  // reading does not register the queue
  CHECK(run({"ls", "there"}).code == 2);
  CHECK(run({"ls", "--state", "dead"}).code == 2);
  CHECK(run({"ls", "there", "--state", "lost"}).code == 2);
  CHECK(run({"ls", "there", "--state", "dead", "--older-than", "soon"}).code == 2);
  CHECK(run({"ls", "there", "--state", "dead", "--limit", "-1"}).code == 2);
  CHECK(run({"ls", "there", "--state", "dead", "--cursor", "x"}).code == 2);
  test::redis().cmd({"SET", "dp:there:dead", "something else"});
  expect(run({"ls", "there", "--state", "dead"}), 1, {err_has("WRONGTYPE"), err_has("dqctl doctor")});
}

TEST_CASE("ls: a registered queue without messages is no error") {
  test::empty_server();
  const auto ids = test::send("q", {"x"});
  CHECK(delayqueue::Producer(test::server().url(), "q").cancel(ids[0]) == delayqueue::State::ready);
  test::empty_server();
  test::redis().cmd({"SADD", "dp:queues", "dp:q"});
  CHECK(run({"ls", "q", "--state", "ready"}).code == 0);
}

TEST_CASE("ls: a queue name may look like a command, an option or a list") {
  test::empty_server();
  for (const char* name : {"ls", "[a,b]", "-x", "--state", "*"}) {
    CAPTURE(name);
    test::send(name, {"x"});
    const Ran ran = expect(run({"ls", "--state", "ready", "-o", "json", "--", name}), 0);
    CHECK(parse_json(ran.out).at("queue") == name);
  }
  CHECK(run({"ls", "ls", "--state", "ready"}).code == 0);
  CHECK(parse_json(run({"stats", "-o", "json", "--", "[a,b]", "ls"}).out).at("queues").size() == 2);
}

void many_dead() {
  test::empty_server();
  test::redis().cmd({"EVAL",
                     R"lua(for i = 1, 150000 do
                             local id = string.format('0190f7c2-5b1f-7000-8000-%012x', i)
                             redis.call('ZADD', KEYS[1], i, id)
                           end)lua",
                     "1", "dp:q:dead"});
}

// Whether the listing that ended goes on, from the cursor that it showed, with the message after those it has listed.
void check_goes_on(const Ran& ended) {
  const std::string before = "more: --cursor ";
  const std::size_t at = ended.err.find(before);
  REQUIRE(at != std::string::npos);
  const std::string rest = ended.err.substr(at + before.size());
  const std::string cursor = rest.substr(0, rest.find_first_of(" \n"));
  char next[37];
  std::snprintf(next, sizeof next, "0190f7c2-5b1f-7000-8000-%012lx",
                std::count(ended.out.begin(), ended.out.end(), '\n') + 1);
  const Ran more = run({"ls", "q", "--state", "dead", "--limit", "1", "--cursor", cursor, "-o", "ndjson"});
  CHECK(has(more.out, next));
}

TEST_CASE("ls: SIGINT ends a long listing and keeps the lines that were found") {
  many_dead();
  Dqctl running({"ls", "q", "--state", "dead", "--limit", "0", "-o", "ndjson"});
  REQUIRE(running.wait_for("\n"));
  running.signal(SIGINT);
  const Ran ran = expect(running.wait(), 4);
  CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') < 150'000);
  check_goes_on(ran);
}

TEST_CASE("ls: SIGINT while the reader is slow loses no line") {
  many_dead();
  Dqctl running({"ls", "q", "--state", "dead", "--limit", "0", "-o", "ndjson"});
  REQUIRE(running.wait_for("\n"));
  std::this_thread::sleep_for(300ms);  // the pipe is full by now
  running.signal(SIGINT);
  std::this_thread::sleep_for(300ms);
  const Ran ran = expect(running.wait(), 4);
  CHECK(ran.out.back() == '\n');
  check_goes_on(ran);
}
