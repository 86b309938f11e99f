// Tests of dqctl --audit and dqctl actions.
#include "preamble.h"

#include <pwd.h>
#include <unistd.h>

#include "output/text.h"
#include "support/local.h"

namespace {

// How a command line begins that is recorded: run() adds these options.
const std::string kDqctl = "dqctl --connect-timeout 30s --command-timeout 30s ";

json actions_of(const std::string& queue) {
  const Ran ran = run({"actions", queue, "-o", "json"});
  CHECK_MESSAGE(ran.code == 0, ran.err);
  return parse_json(ran.out).at("actions");
}

// Runs a command with --audit, and returns the latest action of the queue q.
json action_of(std::vector<std::string> arguments, int code = 0, const std::string& input = "") {
  arguments.emplace_back("--audit");
  const Ran ran = run(arguments, with_input(input));
  CHECK_MESSAGE(ran.code == code, ran.err);
  CHECK_FALSE(has(ran.err, "warning"));
  const json actions = actions_of("q");
  return actions.empty() ? json() : actions[0];
}

}  // namespace

TEST_CASE("actions: a change is recorded only on request, by --audit or DQCTL_AUDIT=1") {
  test::empty_server();
  test::make_dead("q", test::numbered(1), "why");
  run({"pause", "q"});
  CHECK(test::redis().cmd({"EXISTS", "dp:q:actions"}) == 0);
  expect(run({"actions"}), 0, {out_is(""), err_has("no action is recorded; dqctl --audit")});

  DqctlOptions options;
  for (const std::string value : {"0", "1"}) {
    options.environment["DQCTL_AUDIT"] = value;
    run({"pause", "q", "--replace"}, options);
    CHECK(actions_of("q").size() == (value == "1" ? 1 : 0));
  }
  options.environment["DQCTL_AUDIT"] = "yes";
  expect(run({"resume", "q"}, options), 2, {err_has("DQCTL_AUDIT: yes; expected 1 or 0")});
}

TEST_CASE("actions: the list tells who changed how many messages, when, how, and with which outcome") {
  test::empty_server();
  const auto ids = test::make_dead("q", test::numbered(5), "gate way");
  const auto before = test::counts("q").now;
  const std::string unknown = test::id_made(0s);
  const json redriven = action_of({"redrive", "q", ids[0], ids[1], unknown}, 4);
  CHECK(holds(redriven, {{"queue", "q"}, {"messages", 2}, {"outcome", "partly"}}));
  CHECK(redriven.at("at").get<std::string>() >= dqctl::utc_text(before));
  CHECK(redriven.at("at").get<std::string>() <= dqctl::utc_text(test::counts("q").now));
  char host[256] = "";
  REQUIRE(::gethostname(host, sizeof host - 1) == 0);
  const passwd* user = ::getpwuid(::geteuid());
  REQUIRE(user != nullptr);
  CHECK(holds(redriven, {{"who", std::string(user->pw_name) + '@' + host},
                         {"what", kDqctl + "redrive q " + ids[0] + ' ' + ids[1] + ' ' + unknown + " --audit"}}));

  const json filtered = action_of({"redrive", "q", "--reason", "gate *", "--yes"});
  CHECK(holds(filtered,
              {{"messages", 3}, {"outcome", "done"}, {"what", kDqctl + "redrive q --reason 'gate *' --yes --audit"}}));
  CHECK(actions_of("q").size() == 2);
  const Ran table = run({"actions"});
  CHECK(has(table.out, "MESSAGES  OUTCOME  WHAT"));
  CHECK(table.out.find(" done ") < table.out.find(" partly "));
}

TEST_CASE("actions: every command that changes a queue is recorded, and dry runs and empty changes are not") {
  test::empty_server();
  const auto ids = test::send("q", test::numbered(4), 1h);
  CHECK(action_of({"purge", "q", "--state", "pending", "--all"}).is_null());
  CHECK(action_of({"cancel", "q", test::id_made(0s)}, 3).is_null());
  CHECK(action_of({"send", "q", "x"}).is_null());
  CHECK(action_of({"resume", "q"}).is_null());

  CHECK(action_of({"reschedule", "q", ids[0], "--in", "2h"}).at("messages") == 1);
  CHECK(action_of({"cancel", "q", ids[0]}).at("what") == kDqctl + "cancel q " + ids[0] + " --audit");
  CHECK(action_of({"bury", "q", ids[1], ids[2]}).at("messages") == 2);
  CHECK(action_of({"release", "q", ids[3]}).at("messages") == 1);
  const json paused = action_of({"pause", "q", "--why", "it's down"});
  CHECK(paused.at("messages").is_null());
  CHECK(holds(paused, {{"outcome", "done"}, {"what", kDqctl + "pause q --why 'it'\\''s down' --audit"}}));
  CHECK(action_of({"resume", "q"}).at("what") == kDqctl + "resume q --audit");
  const std::string all = run({"export", "q", "--state", "dead"}).out;
  CHECK(action_of({"purge", "q", "--state", "dead", "--all", "--yes"}).at("messages") == 2);
  CHECK(action_of({"import", "q", "-"}, 0, all).at("messages") == 2);
  CHECK(action_of({"partitions", "q", "--set", "2"}).at("what") == kDqctl + "partitions q --set 2 --audit");
  test::redis().cmd({"HSET", "dp:q:attempts", test::id_made(0s), "2 1000"});
  run({"doctor", "q", "--repair", "--yes", "--settle", "1ms", "--audit"});
  CHECK(actions_of("q").size() >= 9);
}

TEST_CASE("actions: what a command has done is recorded when a signal ends it, also if the terminal is closed") {
  for (const int number : {SIGHUP, SIGTERM, SIGQUIT, SIGUSR1}) {
    CAPTURE(number);
    test::empty_server();
    test::fill_dead(test::redis(), 50'000);
    Dqctl redrive({"redrive", "q", "--all", "--yes", "--audit", "--rate", "2000/s"});
    REQUIRE(eventually([] { return test::counts("q").dead < 50'000; }, kPatience));
    redrive.signal(number);
    const Ran ran = redrive.wait();
    CHECK(ran.signal == 0);
    CHECK(ran.code == 4);
    const auto actions = actions_of("q");
    REQUIRE(actions.size() == 1);
    CHECK(holds(actions[0], {{"outcome", "partly"}, {"messages", 50'000 - test::counts("q").dead}}));
  }
}

TEST_CASE("actions: nohup keeps a command running when the terminal is closed") {
  test::empty_server();
  test::fill_dead(test::redis(), 3000);
  const auto before = ::signal(SIGHUP, SIG_IGN);
  Dqctl redrive({"redrive", "q", "--all", "--yes", "--rate", "2000/s"});
  ::signal(SIGHUP, before);
  REQUIRE(eventually([] { return test::counts("q").dead < 3000; }, kPatience));
  redrive.signal(SIGHUP);
  CHECK(redrive.wait().code == 0);
  CHECK(test::counts("q").dead == 0);
}

TEST_CASE("actions: redrive --to another queue is in the list of both") {
  test::empty_server();
  test::make_dead("q", test::numbered(3), "why");
  CHECK(action_of({"redrive", "q", "--all", "--to", "r", "--create", "--yes"}).at("messages") == 3);
  REQUIRE(actions_of("r").size() == 1);
  CHECK(actions_of("r")[0].at("messages") == 3);
  CHECK(lines_of(run({"actions", "-o", "ndjson"}).out).size() == 2);
}

TEST_CASE("actions: those of all queues are merged, the latest first, at most --limit") {
  test::empty_server();
  for (const char* queue : {"a", "b", "c"}) test::send(queue, {"x"});
  for (const char* queue : {"b", "c", "a"}) run({"pause", queue, "--audit"});
  const auto lines = lines_of(run({"actions", "-o", "ndjson"}).out);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].at("queue") == "a");
  CHECK(lines[1].at("queue") == "c");
  CHECK(lines[2].at("queue") == "b");
  CHECK(lines_of(run({"actions", "-o", "ndjson", "--limit", "2"}).out).size() == 2);
  CHECK(run({"actions", "nowhere"}).code == 3);
}

TEST_CASE("actions: an action that cannot be recorded is a warning, and the change is made") {
  test::empty_server();
  test::send("q", {"x"});
  test::redis().cmd({"SET", "dp:q:actions", "of another program"});
  expect(run({"pause", "q", "--audit"}), 0,
         {err_has("warning: the change of q was made, but it could not be recorded for dqctl actions: "),
          err_has("WRONGTYPE")});
  CHECK(test::counts("q").paused);
  expect(run({"actions", "q"}), 1, {err_has("WRONGTYPE")});
  test::empty_server();
}

TEST_CASE("actions: elements of other programs are shown escaped, and without a time") {
  test::empty_server();
  test::send("q", {"x"});
  run({"pause", "q", "--audit"});
  test::redis().cmd({"LPUSH", "dp:q:actions", "\033[2J\n", "1700000000000000 3 do\033ne me\x9b 31m\xff"});
  const json actions = actions_of("q");
  REQUIRE(actions.size() == 3);
  CHECK(actions[0].at("outcome") == "done");  // the one with the latest time
  CHECK(holds(actions[1], {{"outcome", "do\033ne"}, {"at", "2023-11-14T22:13:20.000Z"}}));
  CHECK(actions[1].contains("who_base64"));
  CHECK(actions[2].at("at").is_null());
  CHECK(actions[2].at("who").is_null());
  CHECK(actions[2].at("what") == "\033[2J\n");
  const Ran table = run({"actions", "q"});
  CHECK(table.out.find('\033') == std::string::npos);
  CHECK(has(table.out, "\\x1b[2J\\n"));
  CHECK(has(table.out, "do\\x1bne"));
}

TEST_CASE("actions: a long command line is cut, and forget deletes the list") {
  test::empty_server();
  const auto ids = test::send("q", test::numbered(100), 1h);
  std::vector<std::string> arguments = {"cancel", "q"};
  arguments.insert(arguments.end(), ids.begin(), ids.end());
  const json action = action_of(arguments);
  CHECK(action.at("messages") == 100);
  const std::string what = action.at("what");
  CHECK(what.size() == 1003);
  CHECK(what.substr(1000) == "…");
  CHECK(run({"forget", "q", "--audit"}).code == 0);
  CHECK(test::redis().cmd({"EXISTS", "dp:q:actions"}) == 0);
}
