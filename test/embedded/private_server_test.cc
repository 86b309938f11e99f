#include "support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "embedded/folder_servers.h"
#include "os/descriptor.h"
#include "support/limits.h"
#include "support/local.h"
#include "support/process.h"

namespace fs = std::filesystem;
using delayqueue::PrivateServer;
using delayqueue::PrivateServerOptions;
using test::ended;
using test::mode_of;
using test::server_pid;

namespace {

// A folder for one test, short enough for a socket.
class Folder {
 public:
  Folder() {
    std::string name = "/tmp/dq-test-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  std::string program(const std::string& body, mode_t mode = 0700) const {
    std::string file = *this / "program";
    std::ofstream(file) << body;
    ::chmod(file.c_str(), mode);
    return file;
  }

 private:
  std::string path_;
};

// Another process: this program again, running one of the test cases named "helper: ...", which are skipped otherwise.
class Helper {
 public:
  Helper(const std::string& name, const std::string& folder) {
    int input[2], output[2];
    REQUIRE(::pipe2(input, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(output, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input[0], 0);
    ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, output[1], 3);
    std::string self = "test", wanted = "--test-case=helper: " + name, all = "--no-skip";
    std::array<char*, 4> words{self.data(), wanted.data(), all.data(), nullptr};
    ::setenv("DELAYQUEUE_TEST_FOLDER", folder.c_str(), 1);
    REQUIRE(::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, words.data(), environ) == 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(input[0]);
    ::close(output[1]);
    input_ = input[1];
    output_ = output[0];
  }
  ~Helper() {
    kill();
    ::close(output_);
  }
  Helper(const Helper&) = delete;

  std::string line() const {
    std::string text;
    for (char c = 0; ::read(output_, &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }

  void kill() { end(SIGKILL); }
  void exit() { end(0); }  // main returns

 private:
  void end(int signal) {
    if (pid_ < 0) return;
    ::kill(pid_, signal);
    ::close(input_);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  pid_t pid_ = -1;
  int input_ = -1, output_ = -1;
};

void print_and_wait(const std::string& text) {
  const std::string line = text + "\n";
  REQUIRE(::write(3, line.data(), line.size()) > 0);
  char c;
  while (::read(0, &c, 1) > 0) {
  }
}

// Retries as a client of an embedded URL does, because a server that is ending may still accept a connection.
bool finds(const std::string& folder, const std::string& key, const std::string& value) {
  return eventually([&folder, &key, &value] {
    try {
      return test::Redis(delayqueue::embedded_socket(folder)).cmd({"GET", key}) == value;
    } catch (const std::runtime_error&) {
      return false;
    }
  });
}

std::set<std::string> open_files(int pid) {
  std::set<std::string> result;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code gone;
    result.insert(fs::read_symlink(entry.path(), gone).string());
  }
  return result;
}

std::string error_of(const PrivateServerOptions& options) {
  try {
    PrivateServer server(options);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

PrivateServerOptions in(const std::string& folder) {
  PrivateServerOptions options;
  options.folder = folder;
  return options;
}

PrivateServerOptions running(const std::string& program, std::chrono::milliseconds timeout = 10s) {
  PrivateServerOptions options;
  options.program = program;
  options.start_timeout = timeout;
  return options;
}

}  // namespace

TEST_CASE("helper: private server" * doctest::skip()) {
  const PrivateServer server;
  print_and_wait(std::to_string(server.pid()) + " " + server.folder());
}

TEST_CASE("helper: embedded" * doctest::skip()) {
  std::string text;
  try {
    text = delayqueue::embedded_socket(std::getenv("DELAYQUEUE_TEST_FOLDER"));
  } catch (const delayqueue::SetupError& e) {
    text = e.what();
  }
  print_and_wait(text);
}

TEST_CASE("private server: starts in a 0700 folder, answers, and writes an append-only file") {
  const PrivateServer server;
  CHECK(mode_of(server.folder()) == 0700);
  CHECK(mode_of(server.socket()) == 0700);
  CHECK(server.url() == "unix://" + server.socket());
  test::Redis redis(server.socket());
  CHECK(redis.cmd({"PING"}) == "PONG");
  CHECK(redis.cmd({"CONFIG", "GET", "appendonly"}) == std::vector<std::string>{"appendonly", "yes"});
  CHECK(redis.cmd({"CONFIG", "GET", "appendfsync"}) == std::vector<std::string>{"appendfsync", "everysec"});
  CHECK(server_pid(server.socket()) == server.pid());
}

TEST_CASE("private server: has a unix socket only, no TCP port") {
  const PrivateServer server;
  const auto files = open_files(server.pid());
  for (const auto* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string inode;
      for (int i = 0; i < 10; ++i) words >> inode;
      CHECK(files.count("socket:[" + inode + "]") == 0);
    }
  }
}

TEST_CASE("private server: inherits no open files and no blocked signals of the program") {
  const int leak = ::open("/etc/hostname", O_RDONLY);
  sigset_t term, before;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, &before);
  PrivateServer server;
  CHECK(open_files(server.pid()).count("/etc/hostname") == 0);
  const auto start = std::chrono::steady_clock::now();
  server.stop();
  CHECK(std::chrono::steady_clock::now() - start < 3s);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(leak);
}

TEST_CASE("private server: gets the variables of this process, those of its options in place of these") {
  const Folder folder;
  ::setenv("DELAYQUEUE_TEST", "this process", 1);
  ::setenv("DELAYQUEUE_TEST_KEPT", "this process", 1);
  PrivateServerOptions options;
  options.program = folder.program("#!/bin/sh\nenv | grep ^DELAYQUEUE_TEST | sort >&2\n");
  options.environment = {"DELAYQUEUE_TEST=the options", "DELAYQUEUE_TEST_MORE="};
  const std::string error = error_of(options);
  ::unsetenv("DELAYQUEUE_TEST");
  ::unsetenv("DELAYQUEUE_TEST_KEPT");
  CHECK(has(error,
            "; its log:\nDELAYQUEUE_TEST=the options\nDELAYQUEUE_TEST_KEPT=this process\n"
            "DELAYQUEUE_TEST_MORE="));
  for (const char* wrong : {"", "NAME", "=value"}) {
    options.environment = {wrong};
    CHECK(thrown([&] { const PrivateServer refused(options); }) ==
          "invalid_argument: environment: \"" + std::string(wrong) + "\"; expected NAME=value");
  }
}

TEST_CASE("private server: ends with its process, even if that is killed") {
  Helper helper("private server", "");
  std::istringstream line(helper.line());
  int pid = 0;
  line >> pid;
  REQUIRE(pid > 0);
  CHECK_FALSE(ended(pid));
  helper.kill();
  CHECK(eventually([pid] { return ended(pid); }));
}

TEST_CASE("private server: outlives the thread that made it") {
  std::unique_ptr<PrivateServer> server;
  std::thread([&server] { server = std::make_unique<PrivateServer>(); }).join();
  std::this_thread::sleep_for(50ms);
  CHECK(test::Redis(server->socket()).cmd({"PING"}) == "PONG");
}

TEST_CASE("private server: data survives kill, stop and a crash, each followed by restart") {
  PrivateServer server;
  const auto socket = server.socket();
  test::Redis(socket).cmd({"SET", "a", "1"});
  SUBCASE("kill") { server.kill(); }
  SUBCASE("stop, twice") {
    server.stop();
    server.stop();
  }
  SUBCASE("crash") { ::kill(server.pid(), SIGKILL); }
  CHECK(eventually([&server] { return server.pid() == -1; }));
  server.restart();
  CHECK(server.pid() > 0);
  CHECK(server.socket() == socket);
  CHECK(test::Redis(socket).cmd({"GET", "a"}) == "1");
}

TEST_CASE("private server: restart ends the running one first") {
  PrivateServer server;
  const int before = server.pid();
  server.restart();
  CHECK(ended(before));
  CHECK(server.pid() != before);
}

TEST_CASE("private server: the error for a program that cannot be the server has its path and how it failed") {
  const Folder folder;
  CHECK(has(error_of(running("no-such-redis")), "no-such-redis is not on PATH; install redis-server"));
  CHECK(has(error_of(running("/nix/redis")), "/nix/redis cannot be run: No such file"));
  const auto locked = folder.program("#!/bin/sh\n", 0600);
  CHECK(has(error_of(running(locked)), locked + " cannot be run: Permission denied"));
  const auto loud = folder.program("#!/bin/sh\necho I am no Redis >&2\nexit 3\n");
  CHECK(has(error_of(running(loud)), loud + " ended with exit status 3; its log:\nI am no Redis"));
  const auto silent = folder.program("#!/bin/sh\nsleep 60\n");
  CHECK(has(error_of(running(silent, 2s)), silent + " did not answer in time; its log is empty"));
  PrivateServerOptions wrong;
  wrong.arguments = {"--no-such-option", "1"};
  CHECK(has(error_of(wrong), "no-such-option"));
}

TEST_CASE("private server: a temporary folder is removed; a given one gets mode 0700 and stays") {
  const Folder folder;
  std::string temporary;
  {
    const PrivateServer server, kept(in(folder / "a/b"));
    temporary = server.folder();
    CHECK(fs::exists(temporary));
    CHECK(mode_of(folder / "a/b") == 0700);
  }
  CHECK_FALSE(fs::exists(temporary));
  CHECK(fs::exists(folder / "a/b/appendonlydir"));
}

TEST_CASE("private server: only the folders of ended processes are removed") {
  Helper helper("private server", "");
  std::istringstream line(helper.line());
  std::string pid, stale;
  line >> pid >> stale;
  REQUIRE(fs::exists(stale));
  helper.kill();
  const auto above = fs::path(stale).parent_path();
  const auto living = above / ("delayqueue-" + std::to_string(::getpid()) + "-test");
  const auto other = above / ("delayqueue-notes-" + std::to_string(::getpid()) + "-test");
  fs::create_directory(living);
  fs::create_directory(other);
  CHECK(eventually([&pid] { return ended(std::stoi(pid)); }));
  const PrivateServer next;
  CHECK_FALSE(fs::exists(stale));
  CHECK(fs::remove(living));
  CHECK(fs::remove(other));
}

TEST_CASE("private server: a second one in the same folder is refused, and the first keeps running") {
  const Folder folder;
  const PrivateServer first(in(folder / "d"));
  test::Redis redis(first.socket());
  redis.cmd({"SET", "a", "1"});
  const std::string advice =
      "another server of this process runs in the folder; to use its server, connect to " + first.url();
  CHECK(has(error_of(in(folder / "d")), advice));
  CHECK_THROWS_WITH_AS(delayqueue::embedded_socket(folder / "d"), doctest::Contains(advice.c_str()),
                       delayqueue::SetupError);
  CHECK(redis.cmd({"GET", "a"}) == "1");
  Helper other("embedded", folder / "d");  // the refusals have not given up the folder
  CHECK(has(other.line(), "process " + std::to_string(::getpid()) + " ("));
}

TEST_CASE("private server: stop() gives up the folder, and restart() takes it again unless another server has it") {
  const Folder folder;
  PrivateServer server(in(folder / "d"));
  test::Redis(server.socket()).cmd({"SET", "a", "1"});
  server.stop();
  {
    const PrivateServer second(in(folder / "d"));
    CHECK(test::Redis(second.socket()).cmd({"GET", "a"}) == "1");
    CHECK_THROWS_AS(server.restart(), delayqueue::SetupError);
    CHECK(test::Redis(second.socket()).cmd({"GET", "a"}) == "1");
  }
  server.restart();
  CHECK(test::Redis(server.socket()).cmd({"GET", "a"}) == "1");
}

TEST_CASE("private server: a path too long for a socket is an invalid argument") {
  const Folder folder;
  CHECK_THROWS_WITH_AS(PrivateServer(in(folder / std::string(100, 'x'))), doctest::Contains("folder: "),
                       std::invalid_argument);
  CHECK_THROWS_AS(delayqueue::embedded_socket(folder / std::string(100, 'x')), std::invalid_argument);
}

TEST_CASE("embedded: of processes that name a folder at once, one starts its server, and the others get its URL") {
  const Folder folder;
  const std::string name = folder / "d";
  const Helper helpers[]{{"embedded", name}, {"embedded", name}, {"embedded", name}, {"embedded", name}};
  int started = 0, refused = 0;
  for (const auto& helper : helpers) {
    const std::string line = helper.line();
    if (line == folder / "d/s") ++started;
    if (has(line, " has the folder; to use its server, connect to unix://" + folder / "d/s")) ++refused;
  }
  CHECK(started == 1);
  CHECK(refused == 3);
  CHECK(test::Redis(folder / "d/s").cmd({"PING"}) == "PONG");
}

TEST_CASE("embedded: two paths of one folder have one server") {
  const Folder folder;
  fs::create_directory(folder / "real");
  fs::create_symlink("real", folder / "link");
  const std::string first = delayqueue::embedded_socket(folder / "real/d");
  const std::string second = delayqueue::embedded_socket(folder / "link/d");
  CHECK(server_pid(first) == server_pid(second));
}

TEST_CASE("embedded: when the process that started the server has ended, another one starts it with its data") {
  const Folder folder;
  Helper owner("embedded", folder / "d");
  REQUIRE(owner.line() == folder / "d/s");
  test::Redis(folder / "d/s").cmd({"SET", "a", "1"});
  const int before = server_pid(folder / "d/s");
  SUBCASE("killed") { owner.kill(); }
  SUBCASE("clean exit") { owner.exit(); }
  CHECK(eventually([before] { return ended(before); }));
  CHECK(finds(folder / "d", "a", "1"));
  CHECK(server_pid(folder / "d/s") != before);
  Helper third("embedded", folder / "d");
  CHECK(has(third.line(), "process " + std::to_string(::getpid()) + " ("));
}

TEST_CASE("embedded: eight threads at once start one server") {
  const Folder folder;
  for (const auto& name : {std::string(), folder / "d"}) {
    std::array<std::string, 8> sockets;
    std::array<int, 8> pids{};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 8; ++i) {
      threads.emplace_back([&sockets, &pids, &name, i] {
        sockets[i] = delayqueue::embedded_socket(name);
        pids[i] = server_pid(sockets[i]);
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(std::set<std::string>(sockets.begin(), sockets.end()).size() == 1);
    CHECK(std::set<int>(pids.begin(), pids.end()).size() == 1);
  }
}

TEST_CASE("embedded: a killed server is started again with its data") {
  const Folder folder;
  for (const auto& name : {std::string(), folder / "d"}) {
    const auto socket = delayqueue::embedded_socket(name);
    test::Redis(socket).cmd({"SET", "a", "1"});
    const int before = server_pid(socket);
    ::kill(before, SIGKILL);
    CHECK(eventually([before] { return ended(before); }));
    CHECK(finds(name, "a", "1"));
    CHECK(delayqueue::embedded_socket(name) == socket);
  }
}

TEST_CASE("embedded: without a folder, each process has its own server, which ends with it") {
  Helper other("embedded", "");
  const auto socket = other.line();
  CHECK(socket != delayqueue::embedded_socket(""));
  CHECK(test::Redis(socket).cmd({"PING"}) == "PONG");
  other.exit();
  CHECK_FALSE(fs::exists(fs::path(socket).parent_path()));
}

TEST_CASE("embedded: the end of a forked process does not end its parent's servers") {
  const Folder folder;
  const PrivateServer own;
  const std::vector<std::string> sockets{own.socket(), test::server().socket(), delayqueue::embedded_socket(""),
                                         delayqueue::embedded_socket(folder / "d")};
  std::cout.flush();
  const pid_t child = ::fork();
  if (child == 0) {
#ifndef __SANITIZE_THREAD__  // the thread sanitizer cannot start threads after such a fork
    if (delayqueue::embedded_socket("") == sockets[2]) ::_exit(1);
#endif
    std::exit(own.pid() == -1 ? 0 : 2);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  for (const auto& socket : sockets) CHECK(test::Redis(socket).cmd({"PING"}) == "PONG");
}

TEST_CASE("embedded: a process without free descriptors gets a ConnectionError, and its server keeps running") {
  const Folder folder;
  const auto running = delayqueue::embedded_socket("");
  const int pid = server_pid(running);
  for (const auto& name : {std::string(), folder / "d"}) {
    test::NoDescriptors none;
    int refused = 0;
    for (std::string socket; socket.empty();) {
      try {
        socket = delayqueue::embedded_socket(name);
      } catch (const delayqueue::ConnectionError&) {  // the only error that is allowed
        ++refused;
        none.free_one();
      }
    }
    CHECK(refused > 0);
  }
  CHECK(test::Redis(folder / "d/s").cmd({"PING"}) == "PONG");
  CHECK(server_pid(running) == pid);
}

TEST_CASE("embedded: the error without a redis-server has advice") {
  const Folder folder;
  const char* const before = std::getenv("DELAYQUEUE_REDIS_SERVER");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("DELAYQUEUE_REDIS_SERVER", "no-such-redis", 1);
  CHECK_THROWS_WITH_AS(delayqueue::embedded_socket(folder / "d"),
                       doctest::Contains("install redis-server or valkey-server, or set DELAYQUEUE_REDIS_SERVER"),
                       delayqueue::SetupError);
  ::setenv("DELAYQUEUE_REDIS_SERVER", kept.c_str(), 1);  // empty counts as not set
}
