// How dqctl work ends: its stop timeout, what Redis has not taken by then, and as process 1.
#include "preamble.h"

#include <signal.h>

#include "shell.h"
#include "support/paths.h"
#include "work_support.h"

using delayqueue::PrivateServer;
using test::Work;

namespace {

// A way to keep verdicts from being settled.
struct Obstacle {
  const char* name;
  std::function<void(PrivateServer&, Redis&)> begin;
};

std::vector<Obstacle> obstacles() {
  return {
      {"Redis is away", [](PrivateServer& server, Redis&) { server.kill(); }},
      {"a right is missing",
       [](PrivateServer&, Redis& client) {
         client.cmd({"ACL", "SETUSER", "default", "-unlink", "-zadd"});
       }},
      {"the password has changed",
       [](PrivateServer&, Redis& client) {
         client.cmd({"ACL", "SETUSER", "default", "resetpass", ">other"});
         client.cmd({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
       }},
  };
}

}  // namespace

TEST_CASE("work --stop-timeout: one signal ends it while verdicts are refused, and it names what was not settled") {
  for (const Obstacle& obstacle : obstacles()) {
    for (const std::string exit_code : {"0", "1"}) {
      CAPTURE(obstacle.name);
      CAPTURE(exit_code);
      PrivateServer server;
      Redis client(server.socket());
      Work work(server.url());
      const std::string id = work.send("x");
      const std::string go_on = work.folder.file("go on");
      const std::string command = "echo begun; while ! [ -e '" + go_on + "' ]; do sleep 0.01; done; exit " + exit_code;
      Dqctl worker(work.by(command, {"--stop-timeout", "3s"}), at(server.url()));
      REQUIRE(worker.wait_for("begun"));
      obstacle.begin(server, client);
      std::ofstream(go_on).flush();
      worker.signal(SIGTERM);
      const auto begin = std::chrono::steady_clock::now();
      const Ran ran = worker.wait();
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(25));
      CHECK(ran.code == 6);
      CHECK_MESSAGE(has(ran.err, "Redis has not taken the 1 verdict of finished commands"), ran.err);
      CHECK(has(ran.err, id));
      CHECK(has(ran.err, "the last error: "));
    }
  }
}

TEST_CASE("work --stop-timeout: at its end running commands are terminated, and their messages put back") {
  Work work;
  const std::string id = work.send("x");
  Dqctl worker(work.by("echo begun; sleep 1000", {"--stop-timeout", "1s"}));
  REQUIRE(worker.wait_for("begun"));
  worker.signal(SIGTERM);
  const Ran ran = expect(worker.wait(), 130);
  CHECK(ran.took < std::chrono::seconds(40));
  CHECK(has(ran.err, "--stop-timeout: 1s are over; the running commands are terminated"));
  CHECK(has(ran.err, "put back: stopped"));
  const auto found = work.inspector.find(id);
  REQUIRE(found);
  CHECK(found->retries == 3);
  CHECK(found->state == delayqueue::State::ready);
}

TEST_CASE("work --stop-timeout: 0s waits for the commands without a limit, and a shorter stop needs none of it") {
  Work work;
  for (const auto& [timeout, number] : {std::pair("0s", SIGTERM), {"1000s", SIGHUP}}) {
    work.send("x");
    Dqctl worker(work.by("echo begun; sleep 2", {"--stop-timeout", timeout}));
    REQUIRE(worker.wait_for("begun"));
    worker.signal(number);
    CHECK(worker.wait().code == 0);
  }
  CHECK(work.inspector.counts().totals.acked == 2);
}

// Runs dqctl work as process 1 of a new PID namespace. Prints how unshare ended.
std::string as_process_1(const Work& work, const std::string& command, const std::string& more) {
  return test::script(
      "sh",
      "unshare --user --map-root-user --fork --pid --mount-proc true 2>/dev/null || { echo none; exit; }\n"
      "unshare --user --map-root-user --fork --pid --mount-proc dqctl work '" +
          work.name + "' --exec '" + command + "' " + more + "\necho \"ended with $?\"\n",
      work.folder);
}

TEST_CASE("work as process 1: it reaps what commands leave behind, and keeps the exit codes of commands") {
  Work work;
  for (int i = 0; i < 5; ++i) work.send("leaves a process");
  const auto once = with(&delayqueue::SendOptions::retries, 0);
  for (const char* payload : {"0", "65", "3", "count"}) work.send(payload, once);
  const std::string out = as_process_1(
      work,
      "p=$(cat); case $p in l*) (setsid sleep 0.1 &); exit 0;; count) sleep 1; echo zombies $(cat /proc/[0-9]*/stat | "
      "grep -c \") Z \");; *) exit $p;; esac",
      "--until-empty");
  if (has(out, "none")) {
    MESSAGE("skipped: this system does not let a test make a PID namespace");
    return;
  }
  CHECK_MESSAGE(has(out, "zombies 0"), out);
  CHECK_MESSAGE(has(out, "ended with 4"), out);
}

TEST_CASE("work as process 1: a signal stops it, and its exit code is that of the worker") {
  Work work;
  work.send("x");
  const std::string out = as_process_1(work, "kill -TERM 1; sleep 1; echo finished", "");
  if (has(out, "none")) {
    MESSAGE("skipped: this system does not let a test make a PID namespace");
    return;
  }
  CHECK_MESSAGE(has(out, "finished"), out);
  CHECK_MESSAGE(has(out, "ended with 0"), out);
  CHECK(work.inspector.counts().totals.acked == 1);
}
