// embedded:/folder: the process that owns the server, what other processes get, and what happens when the owner ends.
#include "support/test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "embedded/folder_servers.h"
#include "support/forked.h"
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

// The text of the SetupError that the call throws; empty if it throws none.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const delayqueue::SetupError& e) {
    return e.what();
  }
  return "";
}

int parent_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string id, name, state;
  int parent = 0;
  file >> id >> name >> state >> parent;
  return parent;
}

}  // namespace

TEST_CASE("embedded users: another process gets a SetupError with the owner and the URL of its server, which works") {
  const test::TempDir base;
  const std::string folder = base.file("a b"), url = "embedded:" + base.file("a%20b"), socket = folder + "/s";
  auto owner = user_of(url);
  REQUIRE(eventually([&socket] { return answers(socket); }));
  const int server = server_pid(socket);
  const std::string text = refusal([&] { delayqueue::Producer(url, "q").send("x"); });
  CHECK_MESSAGE(text.find("cannot start a server in " + folder + ": process " + std::to_string(parent_of(server)) +
                          " (worker_program) has the folder") != std::string::npos,
                text);
  CHECK(refusal([&] {
          delayqueue::Consumer(url, "q", [](const delayqueue::Message&) { return delayqueue::ack(); }).start();
        }) == text);
  CHECK(refusal([&] { static_cast<void>(delayqueue::Inspector(url, "q").counts()); }) == text);
  CHECK(refusal([&] { delayqueue::QueueAdmin(url, "q").resume(); }) == text);
  delayqueue::PrivateServerOptions options;
  options.folder = folder;
  CHECK_FALSE(refusal([&] { delayqueue::PrivateServer{options}; }).empty());
  const std::string its_url = text.substr(text.find("unix://"));
  CHECK(its_url.find("a%20b/s") != std::string::npos);
  delayqueue::Producer(its_url, "q").send("x");
  CHECK(delayqueue::Inspector(its_url, "q").counts().ready == 1);
  CHECK(server_pid(socket) == server);
}

TEST_CASE("embedded users: the server ends with its owner, and the next process has its data") {
  const test::TempDir base;
  const std::string folder = base.file("q"), socket = folder + "/s";
  auto owner = user_of("embedded:" + folder);
  REQUIRE(eventually([&] { return answers(socket); }));
  const int server = server_pid(socket);
  test::Redis(socket).cmd({"SET", "a", "1"});
  SUBCASE("kill -9") { owner->kill(SIGKILL); }
  SUBCASE("clean exit") {
    owner->kill(SIGTERM);
    owner->wait();
    CHECK(ended(server));  // a clean exit waits for the server's end
  }
  REQUIRE(eventually([&] { return owner->ended(); }));  // a zombie does not have the folder either
  CHECK(test::Redis(delayqueue::embedded_socket(folder)).cmd({"GET", "a"}) == "1");
  CHECK(ended(server));
  CHECK(server_pid(socket) != server);
}

TEST_CASE("embedded users: processes that are killed one after the other lose no message") {
  const test::TempDir base;
  const std::string url = "embedded:" + base.file("q");
  std::size_t sent = 0;
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) {
    test::Process process({"produce", url, "q", "100000"});
    REQUIRE(eventually([&] { return process.said("sent").size() >= 50; }));
    process.kill(SIGKILL);
    process.wait();
    sent += process.said("sent").size();
  }
  const auto ready = static_cast<std::size_t>(delayqueue::Inspector(url, "q").counts().ready);
  CHECK(ready >= sent);
}

TEST_CASE("embedded users: many that start and end at once lose no message") {
  const test::TempDir base;
  const std::string url = "embedded:" + base.file("q");
  std::size_t sent = 0, refused = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<std::unique_ptr<test::Process>> processes;
    for (int i = 0; i < 4; ++i) {
      processes.push_back(
          std::make_unique<test::Process>(std::vector<std::string>{"produce", url, "q", std::to_string(3 + 5 * i)}));
    }
    for (auto& process : processes) {
      if (process->wait() != 0) ++refused;
      sent += process->said("sent").size();
    }
  }
  CHECK(sent > 0);
  CHECK(refused < 24);
  CHECK(delayqueue::Inspector(url, "q").counts().ready == static_cast<std::int64_t>(sent));
}

TEST_CASE("embedded users: a folder stays its owner's while a killed server does not run") {
  const test::TempDir base;
  const std::string url = "embedded:" + base.file("q"), socket = base.file("q/s");
  auto owner = user_of(url);
  REQUIRE(eventually([&socket] { return answers(socket); }));
  const int server = server_pid(socket);
  owner->kill(SIGSTOP);
  ::kill(server, SIGKILL);
  CHECK(eventually([&] { return !answers(socket); }));
  CHECK_FALSE(refusal([&] { delayqueue::Producer(url, "q").send("x"); }).empty());
  owner->kill(SIGCONT);
  CHECK(eventually([&] { return answers(socket) && server_pid(socket) != server; }));
}

TEST_CASE("embedded users: a fork is another process: it can start the server when its parent has ended" *
          doctest::skip(!test::kForksMakeThreads)) {
  const test::TempDir base;
  const std::string url = "embedded:" + base.file("q"), socket = base.file("q/s");
  test::Process forker({"fork", url, "q"});
  REQUIRE(eventually([&forker] { return forker.ended() && forker.said("done").size() == 2; }));
  const int server = server_pid(socket);
  const std::string fork = forker.said("fork")[0];
  CHECK(parent_of(server) == std::stoi(fork));
  const std::string text = refusal([&] { delayqueue::Producer(url, "q").send("x"); });
  CHECK_MESSAGE(text.find("process " + fork + " (") != std::string::npos, text);
  ::kill(std::stoi(fork), SIGTERM);
  CHECK(eventually([server] { return ended(server); }));
  CHECK(delayqueue::Inspector(url, "q").counts().ready == 2);
}

TEST_CASE("embedded users: the idle fork of a killed owner does not keep the folder" *
          doctest::skip(!test::kForksMakeThreads)) {
  const test::TempDir base;
  const std::string folder = base.file("q");
  int idle[2];
  REQUIRE(::pipe(idle) == 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    delayqueue::embedded_socket(folder);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      for (;;) ::pause();
    }
    if (::write(idle[1], &child, sizeof child) != static_cast<ssize_t>(sizeof child)) ::_exit(1);
    for (;;) ::pause();
  }
  pid_t child = -1;
  REQUIRE(::read(idle[0], &child, sizeof child) == static_cast<ssize_t>(sizeof child));
  const std::string text = refusal([&] { delayqueue::embedded_socket(folder); });
  CHECK_MESSAGE(text.find("process " + std::to_string(owner) + " (") != std::string::npos, text);
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  CHECK_NOTHROW(delayqueue::embedded_socket(folder));
  ::kill(child, SIGKILL);
  for (const int fd : idle) ::close(fd);
}

// As a daemon does whose parent ends.
TEST_CASE("embedded users: a fork that replaces the server of its parent by its own one has the folder" *
          doctest::skip(!test::kForksMakeThreads)) {
  const test::TempDir base;
  delayqueue::PrivateServerOptions options;
  options.folder = base.file("q");
  int started[2];
  REQUIRE(::pipe(started) == 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    ::alarm(60);
    delayqueue::PrivateServer server(options);
    const pid_t self = ::getpid();
    if (::fork() != 0) ::_exit(0);
    ::alarm(60);
    while (::getppid() == self) std::this_thread::sleep_for(10ms);
    server = delayqueue::PrivateServer(options);
    const pid_t child = ::getpid();
    if (::write(started[1], &child, sizeof child) != static_cast<ssize_t>(sizeof child)) ::_exit(1);
    for (;;) ::pause();
  }
  ::waitpid(owner, nullptr, 0);
  ::close(started[1]);
  pid_t child = -1;
  REQUIRE(::read(started[0], &child, sizeof child) == static_cast<ssize_t>(sizeof child));
  const std::string text = refusal([&] { delayqueue::PrivateServer{options}; });
  CHECK_MESSAGE(text.find("process " + std::to_string(child) + " (") != std::string::npos, text);
  CHECK(answers(options.folder + "/s"));
  ::kill(child, SIGKILL);
  ::close(started[0]);
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
