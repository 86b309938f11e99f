// start() and stop() return in time although a server, a Sentinel or a DNS look-up never answers.
#include "support/test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "embedded/folder_server.h"
#include "support/limits.h"
#include "support/local.h"
#include "support/raw_server.h"
#include "support/sanitized.h"
#include "support/scripted_server.h"
#include "support/slow_names.h"

namespace delayqueue {
namespace {

using Clock = std::chrono::steady_clock;
using test::array;
using test::bulk;
using test::hello;
using test::ScriptedServer;
using test::threads_of_this_process;
using Words = std::vector<std::string>;

constexpr milliseconds kTimeout{50};  // of stop()
constexpr milliseconds kStart{500};   // the documented wait of start()
constexpr milliseconds kSlack{TEST_SANITIZED ? 1500 : 100};
constexpr std::chrono::seconds kTries{10};

ClientOptions long_timeouts() {
  ClientOptions options;
  options.connect_timeout = 60s;
  options.command_timeout = 15s;
  return options;
}

// The shortest duration of several calls. A busy machine delays some of them; a wait for the server would delay all, by
// seconds.
class Best {
 public:
  explicit Best(milliseconds bound) : bound_(bound + kSlack) {}

  template <class Call>
  auto time(Call call) {
    const auto begun = Clock::now();
    struct Timer {
      Best& best;
      Clock::time_point begun;
      ~Timer() { best.took_ = std::min(best.took_, Clock::now() - begun); }
    } timer{*this, begun};
    return call();
  }

  bool is_kept() const { return took_ < bound_; }
  bool should_try_again() const { return !is_kept() && Clock::now() - made_ < kTries; }
  void check(const char* what) const {
    CHECK_MESSAGE(is_kept(), what << ": " << std::chrono::duration_cast<milliseconds>(took_).count()
                                  << " ms at best; expected " << bound_.count() << " at most");
  }

 private:
  const milliseconds bound_;
  const Clock::time_point made_ = Clock::now();
  Clock::duration took_ = Clock::duration::max();
};

// Checks the durations of start(), stop() and the destructor of a consumer with this URL. It never connects, so it
// holds nothing, and stop() does not use its timeout.
void check_returns(const std::string& url) {
  CAPTURE(url);
  Best start(kStart), stop(kTimeout), end(0ms);
  do {
    std::optional<Consumer> consumer(std::in_place, Client(url, long_timeouts()), "q",
                                     [](const Message&) { return ack(); });
    start.time([&] { consumer->start(); });
    std::this_thread::sleep_for(50ms);
    CHECK(stop.time([&] { return consumer->stop(30s); }));
    end.time([&] { consumer.reset(); });
  } while (start.should_try_again() || stop.should_try_again() || end.should_try_again());
  start.check("start()");
  stop.check("stop()");
  end.check("the destructor");
}

class Frozen {
 public:
  explicit Frozen(int pid) : pid_(pid) { ::kill(pid_, SIGSTOP); }
  ~Frozen() { ::kill(pid_, SIGCONT); }

 private:
  const int pid_;
};

// A listening socket whose backlog is full of connections that are never accepted: another connect() blocks.
class FullQueue {
 public:
  explicit FullQueue(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    fds_.push_back(::socket(AF_UNIX, SOCK_STREAM, 0));
    const auto* raw = reinterpret_cast<const sockaddr*>(&address);
    REQUIRE(::bind(fds_[0], raw, sizeof address) == 0);
    REQUIRE(::listen(fds_[0], 0) == 0);
    fill(raw, sizeof address);
  }

  FullQueue() {
    fds_.push_back(test::listen_on_loopback());
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ::getsockname(fds_[0], reinterpret_cast<sockaddr*>(&address), &size);
    fill(reinterpret_cast<const sockaddr*>(&address), size);
  }

  ~FullQueue() {
    for (const int fd : fds_) ::close(fd);
  }

  int port() const { return test::port_of(fds_[0]); }

 private:
  void fill(const sockaddr* address, socklen_t size) {
    for (bool full = false; !full;) {
      REQUIRE(fds_.size() < 10);
      fds_.push_back(::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
      const bool connected = ::connect(fds_.back(), address, size) == 0;
      pollfd waiting{fds_.back(), POLLOUT, 0};
      full = !connected && (errno == EAGAIN || ::poll(&waiting, 1, 200) == 0);
    }
  }

  std::vector<int> fds_;  // the first one listens
};

#ifdef __GLIBC__
// The thread of the first attempt to connect waits for an answer, and the worker threads cannot be made. This test is
// the first one in this file, because others leave detached threads that look up a name.
TEST_CASE("frozen: a Consumer that could not make its threads stops while its first attempt to connect runs") {
  const std::size_t usual_stack = test::stack_of_threads();
  for (const bool greets : {false, true}) {
    CAPTURE(greets);
    const ScriptedServer silent([&](const Words& words) {
      if (words[0] == "HELLO") test::give_threads_stacks_of(test::kTooLargeStack);
      return words[0] == "HELLO" && greets ? hello() : "";
    });
    const std::size_t threads = threads_of_this_process();
    ClientOptions options;
    options.connect_timeout = options.command_timeout = 60s;
    Consumer consumer({"redis://" + silent.host(), options}, "q", [](const Message&) { return ack(); });
    CHECK_THROWS_AS(consumer.start(), SetupError);
    test::give_threads_stacks_of(usual_stack);
    CHECK(threads_of_this_process() > threads);
    static_cast<void>(consumer.stop(1s));
    CHECK(test::eventually([&] { return threads_of_this_process() == threads; }));
  }
}
#endif

TEST_CASE("frozen: stop() keeps its deadline while the server is frozen, idle, or with a message or a handler") {
  enum class State { idle, settles, handles };
  PrivateServer server;
  for (const State state : {State::idle, State::settles, State::handles}) {
    CAPTURE(static_cast<int>(state));
    Best stop(kTimeout), end(0ms);
    do {
      const std::string queue = test::fresh_queue();
      std::atomic<bool> handling{false}, go_on{false};
      const auto handler = [&](const Message&) {
        handling = true;
        while (!go_on) std::this_thread::sleep_for(1ms);
        return ack();
      };
      std::optional<Consumer> consumer(std::in_place, Client(server.url(), long_timeouts()), queue, handler);
      consumer->start();
      if (state != State::idle) Producer(server.url(), queue).send("a");
      if (state != State::idle) CHECK(test::eventually([&] { return handling.load(); }));
      const Frozen frozen(server.pid());
      go_on = state == State::settles;
      std::this_thread::sleep_for(50ms);
      const bool clean = stop.time([&] { return consumer->stop(kTimeout); });
      if (state != State::idle) CHECK_FALSE(clean);
      go_on = true;
      end.time([&] { consumer.reset(); });
    } while (stop.should_try_again() || end.should_try_again());
    stop.check("stop()");
    end.check("the destructor");
  }
}

TEST_CASE("frozen: start() and stop() return while the server is frozen") {
  PrivateServer server;
  const Frozen frozen(server.pid());
  check_returns(server.url());
}

// Connects until the server's backlog is full.
std::vector<Descriptor> fill_queue_of(const PrivateServer& server) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  server.socket().copy(address.sun_path, sizeof address.sun_path - 1);
  std::vector<Descriptor> links;
  int connected = 0;
  while (connected == 0) {
    links.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    connected = ::connect(links.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  return links;
}

TEST_CASE("frozen: a frozen server with a full backlog can be stopped") {
  PrivateServerOptions options;
  options.arguments = {"--tcp-backlog", "1"};
  PrivateServer server(options);
  const int pid = server.pid();
  ::kill(pid, SIGSTOP);
  const auto links = fill_queue_of(server);
  auto ending = std::async(std::launch::async, [&] { end_server_at(server.socket()); });
  auto stopped = std::async(std::launch::async, [&] { server.stop(); });
  const bool returns = stopped.wait_for(60s) == std::future_status::ready;
  CHECK(returns);
  CHECK(ending.wait_for(1s) == std::future_status::ready);
  if (!returns) ::kill(pid, SIGKILL);
  CHECK_THROWS_AS(stopped.get(), SetupError);  // it was killed
  ending.get();
  CHECK(server.pid() == -1);
}

TEST_CASE("frozen: start() and stop() return when a server does not accept, answer, or complete TLS handshakes") {
  const FullQueue tcp;
  check_returns("redis://127.0.0.1:" + std::to_string(tcp.port()));
  check_returns("rediss://127.0.0.1:" + std::to_string(tcp.port()));
  const test::TempDir folder;
  const FullQueue local(folder.file("s"));
  check_returns("unix://" + folder.file("s"));
  REQUIRE(::mkdir(folder.file("q").c_str(), 0700) == 0);
  const FullQueue embedded(folder.file("q/s"));
  check_returns("embedded:" + folder.file("q"));
  ScriptedServer silent([](const Words&) { return ""; });
  check_returns("redis://" + silent.host());
  check_returns("rediss://" + silent.host());
  ScriptedServer greets([](const Words& words) { return words[0] == "HELLO" ? hello() : ""; });
  check_returns("redis://" + greets.host());
}

TEST_CASE("frozen: start() and stop() return when Sentinels, or the master that they report, never answer") {
  ScriptedServer silent([](const Words&) { return ""; });
  ScriptedServer greets([](const Words& words) { return words[0] == "HELLO" ? hello() : ""; });
  ScriptedServer sentinel([&](const Words& words) -> std::string {
    if (words[0] == "HELLO") return hello();
    if (words[0] == "SUBSCRIBE") return "";
    if (words[1] == "MASTER") return array({bulk("config-epoch"), bulk("1")});
    return array({bulk("127.0.0.1"), bulk(std::to_string(silent.port()))});
  });
  for (const auto* server : {&silent, &greets, &sentinel}) check_returns("redis+sentinel://" + server->host() + "/m");
  check_returns("rediss+sentinel://" + silent.host() + "/m");
  check_returns("redis+sentinel://" + silent.host() + "," + greets.host() + "," + sentinel.host() + "/m");
}

TEST_CASE("frozen: start() and stop() return when nodes of a Cluster, or the slot's owner, never answer") {
  ScriptedServer silent([](const Words&) { return ""; });
  ScriptedServer greets([](const Words& words) { return words[0] == "HELLO" ? hello() : ""; });
  ScriptedServer node([&](const Words& words) -> std::string {
    if (words[0] == "HELLO") return hello();
    if (words[1] == "INFO") return bulk("cluster_state:ok");
    const std::string owner = array({bulk("127.0.0.1"), ":" + std::to_string(silent.port()) + "\r\n", bulk("id")});
    return array({array({":0\r\n", ":16383\r\n", owner})});
  });
  for (const auto* server : {&silent, &greets, &node}) check_returns("redis+cluster://" + server->host());
  check_returns("redis+cluster://" + silent.host() + "," + greets.host() + "," + node.host());
}

TEST_CASE("frozen: start() and stop() return during a long DNS look-up") {
  for (const char* scheme : {"redis://", "redis+cluster://"}) check_returns(scheme + test::kHangingName);
  check_returns("redis+sentinel://" + test::kHangingName + "/m");
}

TEST_CASE("frozen: start() and stop() return when an embedded server does not start, or others lock its folder") {
  const test::TempDir base;
  std::ofstream(base.file("sleeps")) << "#!/bin/sh\nexec sleep 60\n";
  REQUIRE(::chmod(base.file("sleeps").c_str(), 0700) == 0);
  const char* const before = std::getenv("DELAYQUEUE_REDIS_SERVER");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("DELAYQUEUE_REDIS_SERVER", base.file("sleeps").c_str(), 1);
  const std::string url = "embedded:" + base.file("q");
  check_returns(url);
  {
    Consumer starts({url, long_timeouts()}, "q", [](const Message&) { return ack(); });
    starts.start();
    check_returns(url);  // waits for the start by the other consumer
    CHECK(starts.stop(30s));
  }
  const int lock = ::open(base.file("q/lock").c_str(), O_RDWR);  // as the server of a process that has ended
  REQUIRE(::flock(lock, LOCK_EX | LOCK_NB) == 0);
  check_returns(url);
  ::close(lock);
  ::setenv("DELAYQUEUE_REDIS_SERVER", kept.c_str(), 1);
}

// Makes the data of an embedded server, in the format that Redis can be configured to load slowly.
void fill_folder(const std::string& folder) {
  PrivateServerOptions options;
  options.folder = folder;
  PrivateServer server(options);
  test::Redis redis(server.socket());
  for (int i = 0; i < 400; ++i) redis.cmd({"SET", std::to_string(i), "x"});
  redis.cmd({"BGREWRITEAOF"});
  REQUIRE(test::eventually([&] {
    const auto text = redis.cmd({"INFO", "persistence"}).text;
    return text.find("aof_rewrite_in_progress:0") != text.npos && text.find("aof_rewrite_scheduled:0") != text.npos;
  }));
  server.stop();
}

TEST_CASE("frozen: start() and stop() return while an embedded server loads its data for 20 s") {
  const test::TempDir base;
  fill_folder(base.file("q"));
  const char* const before = std::getenv("DELAYQUEUE_REDIS_SERVER");
  const std::string kept = before != nullptr ? before : "";
  std::ofstream(base.file("slow")) << "#!/bin/sh\nexec '" << (kept.empty() ? "redis-server" : kept)
                                   << "' \"$@\" --key-load-delay 50000 --loading-process-events-interval-bytes 1024\n";
  REQUIRE(::chmod(base.file("slow").c_str(), 0700) == 0);
  ::setenv("DELAYQUEUE_REDIS_SERVER", base.file("slow").c_str(), 1);
  check_returns("embedded:" + base.file("q"));
  ::setenv("DELAYQUEUE_REDIS_SERVER", kept.c_str(), 1);
}

TEST_CASE("frozen: a stop() does not wait for a stop() or start() of another thread beyond its own deadline") {
  Best during_start(kTimeout), during_stop(kTimeout);
  do {
    ScriptedServer silent([](const Words&) { return ""; });
    Consumer consumer({"redis://" + silent.host(), long_timeouts()}, "q", [](const Message&) { return ack(); });
    std::thread other([&] { consumer.start(); });
    std::this_thread::sleep_for(50ms);
    static_cast<void>(during_start.time([&] { return consumer.stop(kTimeout); }));
    other.join();
    static_cast<void>(consumer.stop(kTimeout));
  } while (during_start.should_try_again());
  during_start.check("stop() during a start()");
  do {
    const std::string queue = test::fresh_queue();
    std::atomic<bool> handling{false}, go_on{false};
    const auto handler = [&](const Message&) {
      handling = true;
      while (!go_on) std::this_thread::sleep_for(1ms);
      return ack();
    };
    Consumer consumer(test::server().url(), queue, handler);
    consumer.start();
    Producer(test::server().url(), queue).send("a");
    REQUIRE(test::eventually([&] { return handling.load(); }));
    std::thread other([&] { CHECK(consumer.stop(60s)); });
    std::this_thread::sleep_for(50ms);
    CHECK_FALSE(during_stop.time([&] { return consumer.stop(kTimeout); }));
    go_on = true;
    other.join();
  } while (during_stop.should_try_again());
  during_stop.check("stop() during a stop()");
}

TEST_CASE("frozen: start() throws the error of a server that answers, and may be called again") {
  const std::string queue = test::fresh_queue();
  test::redis().cmd({"SET", "dp:" + queue + ":pending", "something else"});
  Consumer consumer(test::server().url(), queue, [](const Message&) { return ack(); });
  CHECK_THROWS_AS(consumer.start(), ReplyError);
  test::redis().cmd({"DEL", "dp:" + queue + ":pending"});
  CHECK_NOTHROW(consumer.start());
  CHECK(consumer.stop(10s));
}

TEST_CASE("frozen: a consumer that was started while its server was frozen works once it answers") {
  const std::string queue = test::fresh_queue();
  PrivateServer server;
  Producer(server.url(), queue).send("a");
  std::atomic<bool> handled{false};
  const auto handler = [&](const Message&) {
    handled = true;
    return ack();
  };
  Consumer consumer({server.url(), long_timeouts()}, queue, handler);
  {
    const Frozen frozen(server.pid());
    consumer.start();
  }
  CHECK(test::eventually([&] { return handled.load(); }));
  CHECK(consumer.stop(10s));
}

}  // namespace
}  // namespace delayqueue
