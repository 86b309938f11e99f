// embedded:/folder: the life of a server that several processes share, when these end or crash.
#include "support/test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "embedded/folder_servers.h"
#include "support/local.h"
#include "support/process.h"

using test::ended;
using test::server_pid;

namespace {

using Clock = std::chrono::steady_clock;

// A process that consumes until it ends.
std::unique_ptr<test::Process> user_of(const std::string& url) {
  return std::make_unique<test::Process>(
      std::vector<std::string>{"consume", url, "of-" + std::to_string(::getpid()), "1", "30000", "20"});
}

bool answers(const std::string& socket) {
  try {
    return test::Redis(socket).cmd({"PING"}) == "PONG";
  } catch (const std::runtime_error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("embedded users: deliveries continue when the process that started the server ends or is killed") {
  const test::TempDir base;
  const std::string url = "embedded:" + base.file("q"), socket = base.file("q/s");
  auto starter = user_of(url);
  REQUIRE(eventually([&socket] { return answers(socket); }));
  const int server = server_pid(socket);

  std::mutex mutex;
  std::vector<Clock::time_point> delivered;
  const auto note = [&](const delayqueue::Message&) {
    const std::lock_guard lock(mutex);
    delivered.push_back(Clock::now());
    return delayqueue::ack();
  };
  delayqueue::Consumer consumer(url, "q", note);
  consumer.start();
  std::atomic<bool> enough{false};
  std::atomic<std::size_t> sent{0};
  std::thread sender([&] {
    delayqueue::Producer producer(url, "q");
    for (; !enough; ++sent) {
      producer.send("x");
      std::this_thread::sleep_for(1ms);
    }
  });
  std::this_thread::sleep_for(200ms);
  const auto end = Clock::now();
  SUBCASE("kill -9") { starter->kill(SIGKILL); }
  SUBCASE("clean exit") { starter->kill(SIGTERM); }
  starter->wait();
  std::this_thread::sleep_for(300ms);
  enough = true;
  sender.join();
  CHECK(eventually([&] {
    const std::lock_guard lock(mutex);
    return delivered.size() == sent;
  }));
  CHECK(server_pid(socket) == server);
  CHECK(consumer.stats().connects == 1);
  CHECK(consumer.stats().errors == 0);
  CHECK(consumer.stop());
  auto gap = Clock::duration::zero();
  for (std::size_t i = 1; i < delivered.size(); ++i) {
    if (delivered[i] >= end) gap = std::max(gap, delivered[i] - delivered[i - 1]);
  }
  MESSAGE("longest pause of deliveries: " << std::chrono::duration_cast<std::chrono::milliseconds>(gap).count()
                                          << " ms");
}

TEST_CASE("embedded users: the server ends when its last user has ended or crashed, and the next user has its data") {
  const test::TempDir base;
  const std::string url = "embedded:" + base.file("q"), socket = base.file("q/s");
  auto first = user_of(url), second = user_of(url);
  REQUIRE(eventually([&] { return answers(socket); }));
  const int server = server_pid(socket);
  test::Redis(socket).cmd({"SET", "a", "1"});
  REQUIRE(eventually([&socket] {  // both have connected
    const auto text = test::Redis(socket).cmd({"CLIENT", "LIST"}).text;
    return std::count(text.begin(), text.end(), '\n') >= 5;
  }));
  const int signal = []() {
    int chosen = 0;
    SUBCASE("kill -9") { chosen = SIGKILL; }
    SUBCASE("clean exit") { chosen = SIGTERM; }
    return chosen;
  }();
  first->kill(signal);
  first->wait();
  std::this_thread::sleep_for(100ms);
  CHECK_FALSE(ended(server));
  second->kill(signal);
  second->wait();
  if (signal == SIGTERM) CHECK(ended(server));  // a clean exit waits for the server's end
  CHECK(eventually([server] { return ended(server); }));
  CHECK(test::Redis(delayqueue::embedded_socket(base.file("q"))).cmd({"GET", "a"}) == "1");
}

TEST_CASE("embedded users: many that start and end at once lose no message") {
  const test::TempDir base;
  const std::string url = "embedded:" + base.file("q");
  std::size_t sent = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<std::unique_ptr<test::Process>> processes;
    for (int i = 0; i < 4; ++i) {
      processes.push_back(
          std::make_unique<test::Process>(std::vector<std::string>{"produce", url, "q", std::to_string(3 + 5 * i)}));
    }
    for (auto& process : processes) {
      CHECK(process->wait() == 0);
      sent += process->said("sent").size();
    }
  }
  CHECK(sent == 6 * (3 + 8 + 13 + 18));
  CHECK(delayqueue::Inspector(url, "q").counts().ready == static_cast<std::int64_t>(sent));
}

TEST_CASE("embedded users: a killed server is started again for all its users") {
  const test::TempDir base;
  const std::string url = "embedded:" + base.file("q"), socket = base.file("q/s");
  auto other = user_of(url);
  REQUIRE(eventually([&socket] { return answers(socket); }));
  delayqueue::Producer producer(url, "q");
  producer.send("x");
  const int server = server_pid(socket);
  ::kill(server, SIGKILL);
  CHECK(eventually([&] { return answers(socket) && server_pid(socket) != server; }));
  other->kill(SIGKILL);  // the server must live on even if this process started it
  other->wait();
  std::this_thread::sleep_for(100ms);
  CHECK(answers(socket));
}

TEST_CASE("embedded users: a fork of an ended process keeps the server running and blocks no other process") {
  const test::TempDir base;
  const std::string url = "embedded:" + base.file("q"), socket = base.file("q/s");
  int server = 0;
  {
    test::Process forker({"fork", url, "q"});
    REQUIRE(eventually([&forker] { return forker.ended() && forker.said("fork").size() == 1; }));
    REQUIRE(answers(socket));
    server = server_pid(socket);
    test::Process third({"produce", url, "q", "1"});
    CHECK(eventually([&third] { return third.ended(); }));
    CHECK(eventually([&forker] { return forker.said("done").size() == 2; }));
    CHECK(server_pid(socket) == server);
    ::kill(std::stoi(forker.said("fork")[0]), SIGTERM);
  }
  CHECK(eventually([server] { return ended(server); }));
  CHECK(delayqueue::Inspector(url, "q").counts().ready == 3);
}

TEST_CASE("embedded users: a fork made during a failed start of the server blocks no other process") {
  const test::TempDir base;
  const std::string folder = base.file("q"), program = base.file("program"), go_on = base.file("go-on");
  std::ofstream(program) << "#!/bin/sh\nuntil [ -e '" << go_on << "' ]; do sleep 0.02; done\nexit 3\n";
  ::chmod(program.c_str(), 0700);
  const char* const before = std::getenv("DELAYQUEUE_REDIS_SERVER");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("DELAYQUEUE_REDIS_SERVER", program.c_str(), 1);
  std::thread starter([&folder] { CHECK_THROWS_AS(delayqueue::embedded_socket(folder), delayqueue::SetupError); });
  CHECK(eventually([&folder] { return std::filesystem::exists(folder + "/log"); }));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    for (;;) ::pause();
  }
  std::ofstream(go_on).flush();
  starter.join();
  ::setenv("DELAYQUEUE_REDIS_SERVER", kept.c_str(), 1);
  CHECK_NOTHROW(delayqueue::embedded_socket(folder));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// The exit took 30 s, because the server ended before the consumer of static duration had settled its messages.
TEST_CASE("embedded users: a server outlives a Consumer of static duration, whose messages are settled at the exit") {
  for (const std::string way : {"main", "handler"}) {
    CAPTURE(way);
    const test::TempDir base;
    const std::string folder = base.file("q");
    test::Process process({"exit", "embedded:" + folder, "q", way});
    const auto begin = Clock::now();
    CHECK(process.wait() == 7);
    CHECK(Clock::now() - begin < 25s);
    delayqueue::PrivateServerOptions options;
    options.folder = folder;
    const delayqueue::PrivateServer after(options);
    const delayqueue::Counts counts = delayqueue::Inspector(after.url(), "q").counts();
    CHECK(counts.totals.acked + counts.ready + counts.retry + counts.unack == 8);
    if (way == "handler") continue;  // that handler never returns
    CHECK(counts.unack == 0);
    CHECK(counts.totals.acked == process.said("end").size());
  }
}

TEST_CASE("embedded users: the private server of a process outlives a Consumer of static duration, too") {
  test::Process process({"exit", "embedded:", "q", "main"});
  const auto begin = Clock::now();
  CHECK(process.wait() == 7);
  CHECK(Clock::now() - begin < 25s);
}
