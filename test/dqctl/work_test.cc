// dqctl work: what a command gets, and what its end means.
#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "work_support.h"

using delayqueue::SendOptions;
using delayqueue::State;
using nlohmann::json;
using test::content_of;
using test::process_runs;
using test::Ran;
using test::run;
using test::text_lines;
using test::Work;

namespace {

bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("no '" << part << "' in: " << text);
  return found;
}

SendOptions once() {
  SendOptions options;
  options.retries = 0;
  return options;
}

// The only line of `-o ndjson`.
json only_line(const Ran& ran) {
  const auto lines = text_lines(ran.out);
  REQUIRE(lines.size() == 1);
  return json::parse(lines[0]);
}

}  // namespace

TEST_CASE("work: the payload comes on stdin, byte for byte; id, attempt and queue in the environment") {
  Work work;
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const std::string id = work.send(bytes);
  test::DqctlOptions options;
  options.environment = {{"DQ_ID", "another"}, {"OTHERS", "stay"}};
  const Ran ran = run(work.by("cat >" + work.folder.file("payload") + "; echo \"$DQ_ID $DQ_ATTEMPT $DQ_QUEUE $OTHERS\"",
                              {"--until-empty"}),
                      options);
  CHECK(ran.code == 0);
  CHECK(ran.out == id + " 1 " + work.name + " stay\n");
  CHECK(has(ran.err, "dqctl: 1 acked, 0 nacked, 0 rejected, 0 put off in "));
  CHECK(content_of(work.folder.file("payload")) == bytes);
  CHECK_FALSE(work.look.find(id));
}

TEST_CASE("work: an empty payload is an empty stdin; nothing else of dqctl is open in a command") {
  Work work;
  work.send("");
  const std::string list = "ls /proc/self/fd | wc -w";
  const std::string file = work.folder.file("inherited");  // by dqctl, too
  REQUIRE(std::system((list + " >" + file).c_str()) == 0);
  CHECK(work.drain("wc -c; " + list).out == "0\n" + content_of(file));
}

TEST_CASE("work: who does not read a large payload, or only a part of it, is not in the way") {
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

TEST_CASE("work: a command has the usual signals: a reader that leaves ends a writer without words") {
  Work work;
  work.send("x", once());
  const Ran ran = work.drain("yes | head -n 1; kill -INT $$", {"-o", "ndjson"});
  CHECK(ran.err.find("Broken pipe") == std::string::npos);
  CHECK(only_line(ran).at("signal") == SIGINT);
}

TEST_CASE("work: exit code 0 acks, 65 rejects, all else nacks with the last line on stderr") {
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
           Case{"exit 127", 127, nullptr, "nack", "exit code 127"},  // some command has run before
       }) {
    CAPTURE(one.script);
    work.send("exit 0");
    const std::string id = work.send(one.script, once());
    const Ran ran = work.drain("exec sh", {"-o", "ndjson"});
    const std::vector<std::string> lines = text_lines(ran.out);
    REQUIRE(lines.size() == 2);
    const json line = json::parse(lines[1]);
    CHECK(line.at("id") == id);
    CHECK(line.at("attempt") == 1);
    CHECK(line.at("exit") == one.exit);
    CHECK(line.at("signal") == one.signal);
    CHECK(line.at("ended") == nullptr);
    CHECK(line.at("ms") >= 0);
    CHECK(line.at("verdict") == one.verdict);
    CHECK(line.at("reason") == one.reason);
    const bool good = std::string(one.verdict) == "ack";
    CHECK(ran.code == (good ? 0 : 4));
    const auto found = work.look.find(id);
    CHECK(found.has_value() == !good);
    if (found) CHECK(found->state == State::dead);
    if (found) CHECK(found->reason == one.reason);
    if (!good) CHECK(has(ran.err, "; 1 dead letter\n"));
  }
}

TEST_CASE("work: exit code 75 puts a message off; that spends no retry, and is not waited for") {
  Work work;
  const std::string id = work.send("x");
  const Ran ran = work.drain("echo later >&2; exit 75", {"--later", "1h", "-o", "ndjson"});
  CHECK(ran.code == 4);
  const json line = only_line(ran);
  CHECK(line.at("verdict") == "snooze");
  CHECK(line.at("reason") == "later");
  const auto found = work.look.find(id);
  REQUIRE(found);
  CHECK(found->state == State::pending);
  CHECK(found->retries == 3);
  CHECK(*found->at - work.look.counts().now > std::chrono::minutes(59));
}

TEST_CASE("work: what was put off and then done leaves nothing") {
  Work work;
  work.send("x");
  const std::string mark = work.folder.file("mark");
  test::Dqctl worker(work.by("test -e " + mark + " || { touch " + mark + "; exit 75; }; echo done", {"--later", "0s"}));
  REQUIRE(worker.wait_for("done"));
  worker.signal(SIGINT);
  const Ran ran = worker.wait();
  CHECK(ran.code == 0);
  CHECK(has(ran.err, "1 acked, 0 nacked, 0 rejected, 1 put off"));
}

TEST_CASE("work --until-empty: a backoff is waited for, what is due later is left") {
  Work work;
  SendOptions later;
  later.delay = std::chrono::hours(1);
  work.send("x");
  work.send("later", later);
  const Ran ran = work.drain("echo \"attempt $DQ_ATTEMPT\"; test $DQ_ATTEMPT = 2");
  CHECK(ran.code == 0);
  CHECK(ran.out == "attempt 1\nattempt 2\n");
  CHECK(has(ran.err, "nacked: exit code 1"));
  CHECK(has(ran.err, "1 acked, 1 nacked"));
  CHECK(work.look.counts().pending == 1);
  CHECK(work.drain("echo none").out.empty());
}

TEST_CASE("work: a command that cannot be found buries nothing") {
  Work work;
  for (int i = 0; i < 3; ++i) work.send("x", once());
  const Ran ran = run(work.by("./no/such/command"));
  CHECK(ran.code == 1);
  CHECK(has(ran.err, "--exec: the command cannot be run (exit code 127)"));
  CHECK(work.look.counts().dead == 0);
  CHECK(work.look.counts().pending + work.look.counts().ready == 3);
}

TEST_CASE("work --timeout: the whole process group ends, even one that ignores SIGTERM") {
  Work work;
  const std::string pids = work.folder.file("pids");
  const std::string start = "sleep 1000 & echo $! >>" + pids + "; echo $$ >>" + pids + "; echo 'so far' >&2; ";
  const std::string mild = work.send(start + "wait", once());
  const std::string hard = work.send("trap '' TERM; " + start + "wait", once());
  const Ran ran = work.drain("exec sh", {"--timeout", "2s", "--concurrency", "2", "-o", "json"});
  CHECK(ran.code == 4);
  const json document = json::parse(ran.out);
  CHECK(document.at("queue") == work.name);
  REQUIRE(document.at("messages").size() == 2);
  const json& first = document.at("messages")[0];
  CHECK(first.at("id") == mild);
  CHECK(first.at("ended") == "timeout");
  CHECK(first.at("verdict") == "nack");
  CHECK(first.at("reason") == "timed out after 2s: so far");
  CHECK(first.at("ms") >= 2000);
  const json& second = document.at("messages")[1];
  CHECK(second.at("id") == hard);
  CHECK(second.at("signal") == SIGKILL);
  CHECK(second.at("ms") >= 7000);
  const auto processes = text_lines(content_of(pids));
  CHECK(processes.size() == 4);
  for (const std::string& pid : processes) CHECK_FALSE(process_runs(pid));
}

TEST_CASE("work --timeout: what the shell has started has time to end, too") {
  Work work;
  work.send("trap 'sleep 0.3; echo cleaned; exit 1' TERM; echo begun; sleep 1000 & wait", once());
  const Ran ran = work.drain("sh; true", {"--timeout", "2s"});
  CHECK(ran.code == 4);
  CHECK(ran.out == "begun\ncleaned\n");
}

TEST_CASE("work: what a command leaves behind in its process group is killed") {
  Work work;
  work.send("x");
  const std::string pid = work.folder.file("pid");
  const Ran ran = work.drain("sleep 1000 & echo $! >" + pid);
  CHECK(ran.code == 0);
  const std::string left = text_lines(content_of(pid)).at(0);
  CHECK(test::eventually([&] { return !process_runs(left); }));
}

TEST_CASE("work: a command whose lease is lost is ended") {
  Work work;
  const std::string id = work.send("x");
  test::Dqctl worker(work.by("echo here; sleep 1000", {"--lease", "3s", "-o", "ndjson"}));
  REQUIRE(worker.wait_for("here"));
  test::redis().cmd({"ZREM", "dp:" + work.name + ":unack", id});
  REQUIRE(worker.wait_for("\"ended\":\"lost\""));
  worker.signal(SIGTERM);
  const Ran ran = worker.wait();
  CHECK(ran.code == 0);
  CHECK(json::parse(text_lines(ran.out).at(0)).at("reason") == "its lease was lost");
  CHECK(has(ran.err, "1 of them too late"));
}

TEST_CASE("work: lines of commands that run side by side are not mixed") {
  Work work;
  for (int i = 0; i < 8; ++i) work.send("x");
  const Ran ran = work.drain("for i in 1 2 3; do printf aaaa; sleep 0.02; printf 'bbbb\\n'; done; printf cccc",
                             {"--concurrency", "8"});
  CHECK(ran.code == 0);
  const auto lines = text_lines(ran.out);
  CHECK(std::count(lines.begin(), lines.end(), "aaaabbbb") == 24);
  CHECK(std::count(lines.begin(), lines.end(), "cccc") == 8);
  CHECK(lines.size() == 32);
}

TEST_CASE("work -o ndjson: stdout holds nothing but the lines of dqctl") {
  Work work;
  work.send("x");
  const Ran ran = work.drain("echo words", {"-o", "ndjson"});
  CHECK(only_line(ran).at("verdict") == "ack");
  CHECK(has(ran.err, "words\n"));
}

TEST_CASE("work: SIGINT takes nothing new and lets running commands finish") {
  Work work;
  for (int i = 0; i < 3; ++i) work.send("x");
  test::Dqctl worker(work.by("echo begun; sleep 2; echo ended"));
  REQUIRE(worker.wait_for("begun"));
  worker.signal(SIGINT);
  const Ran ran = worker.wait();
  CHECK(ran.code == 0);
  CHECK(ran.out == "begun\nended\n");
  const auto counts = work.look.counts();
  CHECK(counts.ready == 2);
  CHECK(counts.unack == 0);
}

TEST_CASE("work: a second signal ends the commands; their messages come back at once, no retry spent") {
  Work work;
  const std::string id = work.send("x");
  const std::string pid = work.folder.file("pid");
  test::Dqctl worker(work.by("sleep 1000 & echo $! >" + pid + "; echo begun; trap 'exit 0' TERM; wait"));
  REQUIRE(worker.wait_for("begun"));
  worker.signal(SIGTERM);
  worker.signal(SIGINT);
  const Ran ran = worker.wait();
  CHECK(ran.code == 130);
  CHECK(has(ran.err, "put back: stopped"));
  const auto found = work.look.find(id);
  REQUIRE(found);
  CHECK(found->retries == 3);
  CHECK((found->state == State::pending || found->state == State::ready));
  CHECK(found->deliveries <= 1);
  const std::string left = text_lines(content_of(pid)).at(0);
  CHECK(test::eventually([&] { return !process_runs(left); }));
}

TEST_CASE("work --until-empty: ended by a signal before it is empty: 130") {
  Work work;
  work.send("x");
  work.send("x");
  test::Dqctl worker(work.by("echo begun; sleep 2", {"--until-empty"}));
  REQUIRE(worker.wait_for("begun"));
  worker.signal(SIGINT);
  CHECK(worker.wait().code == 130);
  CHECK(work.look.counts().ready == 1);
}

TEST_CASE("work --until-empty: says what it waits for") {
  Work work;
  work.send("x");
  work.look.pause();
  test::Dqctl worker(work.by("echo done", {"--until-empty"}));
  REQUIRE(worker.wait_for("the queue is paused"));
  work.look.resume();
  const Ran ran = worker.wait();
  CHECK(ran.code == 0);
  CHECK(ran.out == "done\n");
}

TEST_CASE("work: a reader that leaves ends it; what was done stays done") {
  Work work;
  for (int i = 0; i < 200; ++i) work.send("x");
  test::Dqctl worker(work.by("echo $DQ_ID | tee -a " + work.folder.file("ledger")));
  REQUIRE(worker.wait_for("-"));
  worker.close_out();
  const Ran ran = worker.wait();
  CHECK(ran.code == 141);
  const auto counts = work.look.counts();
  CHECK(counts.unack == 0);
  CHECK(counts.ready == 200 - text_lines(content_of(work.folder.file("ledger"))).size());
}

TEST_CASE("work: what makes no sense, and what is not there") {
  Work work;
  CHECK(run({"work"}).code == 2);
  CHECK(run({"work", "q"}).code == 2);
  CHECK(has(run({"work", "q", "--exec", ""}).err, "--exec: ''; expected a command of the shell"));
  CHECK(has(run({"work", "q", "--exec", "x", "--concurrency", "0"}).err, "--concurrency: '0'"));
  CHECK(has(run({"work", "q", "--exec", "x", "--lease", "soon"}).err, "--lease: 'soon'"));
  CHECK(run({"work", "q", "--exec", "x", "--lease", "1ms"}).code == 2);
  const Ran missing = run({"work", "not there", "--exec", "true", "--until-empty"});
  CHECK(missing.code == 3);
  CHECK(has(missing.err, "queue 'not there' is not at "));
  test::DqctlOptions nowhere;
  nowhere.environment = {{"DELAYQUEUE_URI", "redis://127.0.0.1:1"}};
  CHECK(run(work.by("true"), nowhere).code == 1);
  test::redis().cmd({"SET", "dp:" + work.name + ":pending", "x"});
  const Ran wrong = work.drain("true");
  CHECK(wrong.code == 1);
  CHECK(has(wrong.err, "WRONGTYPE"));
  CHECK(has(run({"work", "--help"}).out, "dqctl work orders --exec"));
}
