// dqctl work: the input of a command, and the meaning of its exit code.
#include "preamble.h"

#include "work_support.h"

using delayqueue::SendOptions;
using delayqueue::State;
using test::process_runs;
using test::text_lines;
using test::Work;

namespace {

SendOptions once() { return with(&SendOptions::retries, 0); }

// The single line of `-o ndjson`.
json only_line(const Ran& ran) {
  const auto lines = text_lines(ran.out);
  REQUIRE(lines.size() == 1);
  return parse_json(lines[0]);
}

}  // namespace

TEST_CASE("work: the command gets the exact payload on stdin, and id, attempt and queue in its environment") {
  Work work;
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const std::string id = work.send(bytes);
  const auto options = with(&DqctlOptions::environment, {{"DQ_ID", "another"}, {"OTHERS", "stay"}});
  expect(run(work.by("cat >" + work.folder.file("payload") + "; echo \"$DQ_ID $DQ_ATTEMPT $DQ_QUEUE $OTHERS\"",
                     {"--until-empty"}),
             options),
         0,
         {out_is(id + " 1 " + work.name + " stay\n"), err_has("dqctl: 1 acked, 0 nacked, 0 rejected, 0 put off in ")});
  CHECK(content_of(work.folder.file("payload")) == bytes);
  CHECK_FALSE(work.inspector.find(id));
}

TEST_CASE("work: the command gets the headers as JSON in DQ_HEADERS, in the form of show and send --ndjson") {
  Work work;
  const auto headers_of = [&](const SendOptions& options) {
    work.send("x", options);
    const Ran ran = run(work.by("printf '%s\\n' \"$DQ_HEADERS\"; env | grep -c ^DQ_HEADERS=", {"--until-empty"}),
                        with(&DqctlOptions::environment, {{"DQ_HEADERS", "another"}}));
    CHECK_MESSAGE(ran.code == 0, ran.err);
    const std::vector<std::string> lines = text_lines(ran.out);
    REQUIRE(lines.size() == 2);
    CHECK(lines[1] == "1");
    return parse_json(lines[0]);
  };
  CHECK(headers_of({}) == json::array());
  auto options = with(&SendOptions::headers,
                      {{"tenant", "acme \"1\"\n$(x)\033[31m"}, {"raw", std::string("\xff\0", 2)}, {"empty", ""}});
  const json expected = {{{"name", "tenant"}, {"value", "acme \"1\"\n$(x)\033[31m"}},
                         {{"name", "raw"}, {"value_base64", "/wA="}},
                         {{"name", "empty"}, {"value", ""}}};
  CHECK(headers_of(options) == expected);
  options.headers = {{"long", std::string(8000, '\x01')}};  // each byte is \u0001 in JSON
  CHECK(headers_of(options)[0].at("value") == std::string(8000, '\x01'));
}

TEST_CASE("work: an empty payload is an empty stdin, and the command inherits no descriptor of dqctl") {
  Work work;
  work.send("");
  const std::string list = "ls /proc/self/fd | wc -w";
  const std::string file = work.folder.file("inherited");  // the same list without dqctl work
  REQUIRE(std::system((list + " >" + file).c_str()) == 0);
  CHECK(work.drain("wc -c; " + list).out == "0\n" + content_of(file));
}

TEST_CASE("work: a command that reads a large payload not at all, or in part, does not block dqctl") {
  Work work;
  work.send(std::string(1'000'000, 'x'));
  CHECK(work.drain("true").code == 0);
  work.send(std::string(1'000'000, 'x'));
  CHECK(work.drain("head -c 10").out == "xxxxxxxxxx\n");
  work.send(std::string(1'000'000, 'x'));
  CHECK(work.drain("exec <&-; sleep 0.2; cat /dev/null").code == 0);
  work.send(std::string(1'000'000, 'x'));
  CHECK(work.drain("wc -c").out == "1000000\n");
}

TEST_CASE("work: a command has the default signal actions, so a writer without a reader ends silently") {
  Work work;
  work.send("x", once());
  const Ran ran = work.drain("yes | head -n 1; kill -INT $$", {"-o", "ndjson"});
  CHECK(ran.err.find("Broken pipe") == std::string::npos);
  CHECK(only_line(ran).at("signal") == SIGINT);
}

TEST_CASE("work: exit code 0 acks, 65 rejects, and any other nacks with the last line of stderr as the reason") {
  Work work;
  struct Case {
    const char* script;
    json exit, signal;
    const char* verdict;
    const char* reason;
  };
  for (const Case& one : {
           Case{"exit 0", 0, nullptr, "ack", ""}, Case{"echo words; exit 65", 65, nullptr, "reject", "exit code 65"},
           Case{"echo first >&2; echo ' bad data ' >&2; echo >&2; exit 65", 65, nullptr, "reject", "bad data"},
           Case{"exit 3", 3, nullptr, "nack", "exit code 3"},
           Case{"printf 'no end' >&2; exit 1", 1, nullptr, "nack", "no end"},
           Case{"printf '\\033[31mred\\377\\n' >&2; exit 1", 1, nullptr, "nack", "\\x1b[31mred\\xff"},
           Case{"kill -KILL $$", nullptr, SIGKILL, "nack", "killed by signal 9"},
           Case{"kill -SEGV $$", nullptr, SIGSEGV, "nack", "killed by signal 11"},
           Case{"exit 127", 127, nullptr, "nack", "exit code 127"},  // not the first command, so it exists
       }) {
    CAPTURE(one.script);
    work.send("exit 0");
    const std::string id = work.send(one.script, once());
    const Ran ran = work.drain("exec sh", {"-o", "ndjson"});
    const std::vector<std::string> lines = text_lines(ran.out);
    REQUIRE(lines.size() == 2);
    const json line = parse_json(lines[1]);
    CHECK(holds(line, {{"id", id}, {"attempt", 1}, {"exit", one.exit}, {"signal", one.signal}, {"ended", nullptr}}));
    CHECK(line.at("ms") >= 0);
    CHECK(holds(line, {{"verdict", one.verdict}, {"reason", one.reason}}));
    const bool good = std::string(one.verdict) == "ack";
    CHECK(ran.code == (good ? 0 : 4));
    const auto found = work.inspector.find(id);
    CHECK(found.has_value() == !good);
    if (found) CHECK(found->state == State::dead);
    if (found) CHECK(found->reason == one.reason);
    if (!good) CHECK(has(ran.err, "; 1 dead letter\n"));
  }
}

TEST_CASE("work: exit code 75 snoozes a message, spends no retry, and --until-empty does not wait for it") {
  Work work;
  const std::string id = work.send("x");
  const Ran ran = expect(work.drain("echo later >&2; exit 75", {"--later", "1h", "-o", "ndjson"}), 4);
  const json line = only_line(ran);
  CHECK(holds(line, {{"verdict", "snooze"}, {"reason", "later"}}));
  const auto found = work.inspector.find(id);
  REQUIRE(found);
  CHECK(found->state == State::pending);
  CHECK(found->retries == 3);
  CHECK(*found->at - work.inspector.counts().now > std::chrono::minutes(59));
}

TEST_CASE("work: a message that was snoozed and then acked is counted as both") {
  Work work;
  work.send("x");
  const std::string mark = work.folder.file("mark");
  Dqctl worker(work.by("test -e " + mark + " || { touch " + mark + "; exit 75; }; echo done", {"--later", "0s"}));
  REQUIRE(worker.wait_for("done"));
  worker.signal(SIGINT);
  expect(worker.wait(), 0, {err_has("1 acked, 0 nacked, 0 rejected, 1 put off")});
}

TEST_CASE("work --until-empty: it waits for backoffs, and not for messages that are due later") {
  Work work;
  const auto later = delayed(std::chrono::hours(1));
  work.send("x");
  work.send("later", later);
  expect(work.drain("echo \"attempt $DQ_ATTEMPT\"; test $DQ_ATTEMPT = 2"), 0,
         {out_is("attempt 1\nattempt 2\n"), err_has("nacked: exit code 1"), err_has("1 acked, 1 nacked")});
  CHECK(work.inspector.counts().pending == 1);
  CHECK(work.drain("echo none").out.empty());
}

TEST_CASE("work: a command that cannot be found spends no retry and ends dqctl") {
  Work work;
  for (int i = 0; i < 3; ++i) work.send("x", once());
  expect(run(work.by("./no/such/command")), 1, {err_has("--exec: the command cannot be run (exit code 127)")});
  CHECK(work.inspector.counts().dead == 0);
  CHECK(work.inspector.counts().pending + work.inspector.counts().ready == 3);
}

TEST_CASE("work --timeout: the whole process group ends, even one that ignores SIGTERM") {
  Work work;
  const std::string pids = work.folder.file("pids");
  const std::string start = "sleep 1000 & echo $! >>" + pids + "; echo $$ >>" + pids + "; echo 'so far' >&2; ";
  const std::string mild = work.send(start + "wait", once());
  const std::string hard = work.send("trap '' TERM; " + start + "wait", once());
  const Ran ran = expect(work.drain("exec sh", {"--timeout", "2s", "--concurrency", "2", "-o", "json"}), 4);
  const json document = parse_json(ran.out);
  CHECK(document.at("queue") == work.name);
  REQUIRE(document.at("messages").size() == 2);
  const json& first = document.at("messages")[0];
  CHECK(holds(first,
              {{"id", mild}, {"ended", "timeout"}, {"verdict", "nack"}, {"reason", "timed out after 2s: so far"}}));
  CHECK(first.at("ms") >= 2000);
  const json& second = document.at("messages")[1];
  CHECK(holds(second, {{"id", hard}, {"signal", SIGKILL}}));
  CHECK(second.at("ms") >= 7000);
  const auto processes = text_lines(content_of(pids));
  CHECK(processes.size() == 4);
  for (const std::string& pid : processes) CHECK_FALSE(process_runs(pid));
}

TEST_CASE("work --timeout: processes that the shell has started get time to end as well") {
  Work work;
  work.send("trap 'sleep 0.3; echo cleaned; exit 1' TERM; echo begun; sleep 1000 & wait", once());
  expect(work.drain("sh; true", {"--timeout", "2s"}), 4, {out_is("begun\ncleaned\n")});
}

TEST_CASE("work: processes that a command leaves behind in its process group are killed") {
  Work work;
  work.send("x");
  const std::string pid = work.folder.file("pid");
  CHECK(work.drain("sleep 1000 & echo $! >" + pid).code == 0);
  const std::string left = text_lines(content_of(pid)).at(0);
  CHECK(eventually([&] { return !process_runs(left); }));
}

TEST_CASE("work: a command ends when its lease is lost") {
  Work work;
  const std::string id = work.send("x");
  Dqctl worker(work.by("echo here; sleep 1000", {"--lease", "3s", "-o", "ndjson"}));
  REQUIRE(worker.wait_for("here"));
  test::redis().cmd({"ZREM", "dp:" + work.name + ":unack", id});
  REQUIRE(worker.wait_for("\"ended\":\"lost\""));
  worker.signal(SIGTERM);
  const Ran ran = expect(worker.wait(), 0);
  CHECK(parse_json(text_lines(ran.out).at(0)).at("reason") == "its lease was lost");
  CHECK(has(ran.err, "1 of them too late"));
}

TEST_CASE("work: the output lines of concurrent commands are not mixed") {
  Work work;
  for (int i = 0; i < 8; ++i) work.send("x");
  const Ran ran = expect(work.drain("for i in 1 2 3; do printf aaaa; sleep 0.02; printf 'bbbb\\n'; done; printf cccc",
                                    {"--concurrency", "8"}),
                         0);
  const auto lines = text_lines(ran.out);
  CHECK(std::count(lines.begin(), lines.end(), "aaaabbbb") == 24);
  CHECK(std::count(lines.begin(), lines.end(), "cccc") == 8);
  CHECK(lines.size() == 32);
}

TEST_CASE("work -o ndjson: stdout has the lines of dqctl only") {
  Work work;
  work.send("x");
  const Ran ran = work.drain("echo words", {"-o", "ndjson"});
  CHECK(only_line(ran).at("verdict") == "ack");
  CHECK(has(ran.err, "words\n"));
}

TEST_CASE("work: after SIGINT it takes no message, and waits for running commands") {
  Work work;
  for (int i = 0; i < 3; ++i) work.send("x");
  Dqctl worker(work.by("echo begun; sleep 2; echo ended"));
  REQUIRE(worker.wait_for("begun"));
  worker.signal(SIGINT);
  expect(worker.wait(), 0, {out_is("begun\nended\n")});
  const auto counts = work.inspector.counts();
  CHECK(counts.ready == 2);
  CHECK(counts.unack == 0);
}

TEST_CASE("work: a second signal ends the commands and puts their messages back at once, with no retry spent") {
  Work work;
  const std::string id = work.send("x");
  const std::string pid = work.folder.file("pid");
  Dqctl worker(work.by("sleep 1000 & echo $! >" + pid + "; echo begun; trap 'exit 0' TERM; wait"));
  REQUIRE(worker.wait_for("begun"));
  worker.signal(SIGTERM);
  worker.signal(SIGINT);
  expect(worker.wait(), 130, {err_has("put back: stopped")});
  const auto found = work.inspector.find(id);
  REQUIRE(found);
  CHECK(found->retries == 3);
  CHECK((found->state == State::pending || found->state == State::ready));
  CHECK(found->deliveries <= 1);
  const std::string left = text_lines(content_of(pid)).at(0);
  CHECK(eventually([&] { return !process_runs(left); }));
}

TEST_CASE("work --until-empty: exit code 130 if a signal ends it before the queue is empty") {
  Work work;
  work.send("x");
  work.send("x");
  Dqctl worker(work.by("echo begun; sleep 2", {"--until-empty"}));
  REQUIRE(worker.wait_for("begun"));
  worker.signal(SIGINT);
  CHECK(worker.wait().code == 130);
  CHECK(work.inspector.counts().ready == 1);
}

TEST_CASE("work --until-empty: it names the reason for which it waits") {
  Work work;
  work.send("x");
  delayqueue::QueueAdmin admin(test::server().url(), work.name);
  admin.pause();
  Dqctl worker(work.by("echo done", {"--until-empty"}));
  REQUIRE(worker.wait_for("the queue is paused"));
  admin.resume();
  expect(worker.wait(), 0, {out_is("done\n")});
}

TEST_CASE("work: if the reader of its stdout closes the pipe, it ends, and finished messages stay acked") {
  Work work;
  for (int i = 0; i < 200; ++i) work.send("x");
  Dqctl worker(work.by("echo $DQ_ID | tee -a " + work.folder.file("ledger")));
  REQUIRE(worker.wait_for("-"));
  worker.close_out();
  CHECK(worker.wait().code == 141);
  const auto counts = work.inspector.counts();
  CHECK(counts.unack == 0);
  CHECK(counts.ready == 200 - text_lines(content_of(work.folder.file("ledger"))).size());
}

TEST_CASE("work: wrong arguments, a missing queue and an unreachable server have their exit codes") {
  Work work;
  CHECK(run({"work"}).code == 2);
  CHECK(run({"work", "q"}).code == 2);
  CHECK(has(run({"work", "q", "--exec", ""}).err, "--exec: ''; expected a command of the shell"));
  CHECK(has(run({"work", "q", "--exec", "x", "--concurrency", "0"}).err, "--concurrency: '0'"));
  CHECK(has(run({"work", "q", "--exec", "x", "--lease", "soon"}).err, "--lease: 'soon'"));
  CHECK(run({"work", "q", "--exec", "x", "--lease", "1ms"}).code == 2);
  expect(run({"work", "not there", "--exec", "true", "--until-empty"}), 3, {err_has("queue 'not there' is not at ")});
  const auto nowhere = with(&DqctlOptions::environment, {{"DELAYQUEUE_URI", "redis://127.0.0.1:1"}});
  CHECK(run(work.by("true"), nowhere).code == 1);
  test::redis().cmd({"SET", "dp:" + work.name + ":pending", "x"});
  expect(work.drain("true"), 1, {err_has("WRONGTYPE")});
  CHECK(has(run({"work", "--help"}).out, "dqctl work orders --exec"));
}
