// Consumer::run(StopSignals): real signals to a real process.
#include "support/test.h"

#include <signal.h>

#include "support/process.h"
#include "support/raw_server.h"

namespace delayqueue {
namespace {

using test::Process;
using test::Queue;

std::vector<std::string> runner(const Queue& queue, const std::string& besides, const std::string& timeout_ms = "60000",
                                const std::string& url = {}) {
  return {"run", url.empty() ? queue.url : url, queue.name, timeout_ms, besides};
}

bool begins(const Process& process, std::size_t messages = 1) {
  return eventually([&] { return process.said("begin").size() >= messages || process.ended(); }, kPatience) &&
         process.said("begin").size() >= messages;
}

TEST_CASE("run: SIGTERM and SIGINT stop the consumer, whose handler finishes, and run() returns true") {
  for (const int signal : {SIGTERM, SIGINT}) {
    CAPTURE(signal);
    Queue queue;
    queue.send("slow");
    Process process(runner(queue, "plain"));
    REQUIRE(begins(process));
    process.kill(signal);
    CHECK(process.wait() == 0);
    CHECK(process.said("end").size() == 1);
    CHECK(process.said("stopped") == test::words(1, "1"));
    CHECK(queue.empty());
  }
}

TEST_CASE("run: signals that all threads block stop the consumer, and are blocked again afterwards") {
  Queue queue;
  queue.send("brief");
  Process process(runner(queue, "blocked"));
  REQUIRE(begins(process));
  process.kill(SIGTERM);
  CHECK(process.wait() == 0);
  CHECK(process.said("stopped") == test::words(1, "1"));
  CHECK(process.said("blocks") == test::words(1, "11"));
}

TEST_CASE("run: a signal that has arrived before the start stops the consumer") {
  Queue queue;
  Process process(runner(queue, "pending"));
  CHECK(process.wait() == 0);
  CHECK(process.said("stopped") == test::words(1, "1"));
  CHECK(process.said("pending") == test::words(1, "0"));
}

TEST_CASE("run: a signal stops a consumer whose server never answers") {
  const int silent = test::listen_on_loopback();
  Queue queue;
  Process process(runner(queue, "pending", "60000", "redis://127.0.0.1:" + std::to_string(test::port_of(silent))));
  CHECK(process.wait() == 0);
  CHECK(process.said("stopped") == test::words(1, "1"));
  ::close(silent);
}

TEST_CASE("run: if the start throws, a signal that has arrived is raised again") {
  Queue queue;
  test::redis().cmd({"SET", queue.base + ":pending", "of another program"});
  Process process(runner(queue, "pending"));
  CHECK(process.wait() == 2);
  CHECK(process.said("threw").size() == 1);
  CHECK(process.said("pending") == test::words(1, "1"));
  test::redis().cmd({"DEL", queue.base + ":pending"});
}

TEST_CASE("run: a second signal ends the process") {
  Queue queue;
  queue.send("hang");
  Process process(runner(queue, "plain"));
  REQUIRE(begins(process));
  process.kill(SIGINT);
  CHECK(eventually(
      [&] {
        process.kill(SIGTERM);
        return process.ended();
      },
      kPatience));
  CHECK(process.wait() == -SIGTERM);
  CHECK(process.said("stopped").empty());
}

TEST_CASE("run: returns false if a handler is not ready by the timeout of the signals") {
  Queue queue;
  queue.send("slow");
  Process process(runner(queue, "plain", "0"));
  REQUIRE(begins(process));
  process.kill(SIGTERM);
  CHECK(process.wait() == 1);
  CHECK(process.said("stopped") == test::words(1, "0"));
}

TEST_CASE("run: another thread that stops the consumer ends it, and signals have their former action again") {
  Queue queue;
  queue.send("brief");
  Process process(runner(queue, "stops"));
  CHECK(eventually([&] { return process.said("pending").size() == 1; }, kPatience));
  CHECK(process.said("stopped") == test::words(1, "1"));
  CHECK(process.said("other") == test::words(1, "1"));
  process.kill(SIGTERM);
  CHECK(process.wait() == -SIGTERM);
}

TEST_CASE("run: a signal while another thread stops the consumer changes nothing") {
  Queue queue;
  queue.send("slow");
  Process process(runner(queue, "stops"));
  REQUIRE(begins(process));
  process.kill(SIGTERM);
  CHECK(eventually([&] { return process.said("pending").size() == 1; }, kPatience));
  CHECK(process.said("end").size() == 1);
  CHECK(process.said("stopped") == test::words(1, "1"));
  CHECK(process.said("other") == test::words(1, "1"));
}

TEST_CASE("run: a fork of the process does not catch its signals") {
  Queue queue;
  queue.send("brief");
  Process process(runner(queue, "forks"));
  REQUIRE(eventually([&] { return process.said("fork").size() == 1; }, kPatience));
  const int child = std::stoi(process.said("fork").front());
  ::kill(child, SIGTERM);
  CHECK(eventually([&] { return test::ended(child); }, kPatience));
  queue.send("brief");
  REQUIRE(begins(process, 2));
  CHECK(process.said("stopped").empty());
  for (const std::string& one : process.said("fork")) ::kill(std::stoi(one), SIGKILL);
  process.kill(SIGTERM);
  REQUIRE(eventually([&] { return process.ended(); }, kPatience));
  for (const std::string& one : process.said("fork")) ::kill(std::stoi(one), SIGKILL);  // it has the pipe of the output
  CHECK(process.wait() == 0);
}

TEST_CASE("run: one consumer of a process at a time waits for signals, then another one") {
  Queue queue;
  queue.send("brief");
  Process process(runner(queue, "twice"));
  REQUIRE(eventually([&] { return process.said("refused").size() == 1; }, kPatience));
  CHECK(process.said("refused").front() ==
        "run: another consumer of this process waits for signals; expected one at a time");
  process.kill(SIGTERM);
  CHECK(process.wait() == 0);
  CHECK(process.said("stopped") == test::words(1, "1"));
  CHECK(process.said("again") == test::words(1, "1"));
}

TEST_CASE("run: a handler of the program for a signal has it again afterwards") {
  Queue queue;
  queue.send("brief");
  Process process(runner(queue, "former"));
  REQUIRE(begins(process));
  process.kill(SIGTERM);
  CHECK(process.wait() == 0);
  CHECK(process.said("stopped") == test::words(1, "1"));
  CHECK(process.said("former").size() == 1);
}

TEST_CASE("run: signals that cannot be caught are refused, and nothing starts") {
  Queue queue;
  const auto run = [&](const StopSignals& signals) {
    Consumer consumer(queue.url, queue.name, ack_all);
    return thrown([&] { consumer.run(signals); });
  };
  CHECK(run(StopSignals({SIGUSR1, SIGKILL})) == "invalid_argument: signals: 9; expected signals that can be caught");
  CHECK(run(StopSignals({-1})) == "invalid_argument: signals: -1; expected signals that can be caught");
  CHECK(run(StopSignals({})) == "invalid_argument: signals: none; expected at least one");
}

}  // namespace
}  // namespace delayqueue
