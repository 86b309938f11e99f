// A server, a Sentinel or a look-up of a name that never answers: start() and stop() return all the same.
#include <delayqueue/delayqueue.h>

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <netdb.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/raw_server.h"
#include "support/scripted_server.h"
#include "support/server.h"

// In place of the C library's: the look-up of one name takes long.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** result) {
  using Call = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Call>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool slow = node != nullptr && std::strcmp(node, "hangs.test") == 0;
  if (slow && (hints->ai_flags & AI_NUMERICHOST) == 0) std::this_thread::sleep_for(std::chrono::seconds(12));
  return slow ? EAI_NONAME : real(node, service, hints, result);
}

namespace delayqueue {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using test::array;
using test::bulk;
using test::hello;
using test::ScriptedServer;
using Words = std::vector<std::string>;

constexpr milliseconds kPatience{200};
constexpr milliseconds kBound{5000};  // far below the timeouts, far above what a busy machine adds to kPatience

ConsumerOptions patient() {
  ConsumerOptions options;
  options.connection.connect_timeout = 20s;
  options.connection.command_timeout = 15s;
  return options;
}

// start() and stop() of a consumer whose server is only what `url` says.
void check_returns(const std::string& url, const ConsumerOptions& options = patient()) {
  CAPTURE(url);
  auto begun = Clock::now();
  std::optional<Consumer> consumer(
      std::in_place, url, "q", [](const Message&) { return ack(); }, options);
  consumer->start();
  CHECK(Clock::now() - begun < kBound);
  std::this_thread::sleep_for(50ms);
  begun = Clock::now();
  CHECK_FALSE(consumer->stop(kPatience));
  CHECK(Clock::now() - begun >= kPatience);
  CHECK(Clock::now() - begun < kBound);
  begun = Clock::now();
  consumer.reset();
  CHECK(Clock::now() - begun < kBound);
}

class Frozen {
 public:
  explicit Frozen(int pid) : pid_(pid) { ::kill(pid_, SIGSTOP); }
  ~Frozen() { ::kill(pid_, SIGCONT); }

 private:
  const int pid_;
};

TEST_CASE("frozen: stop() keeps its deadline while the server stands still, idle or with a delivery to settle") {
  for (const bool delivers : {false, true}) {
    CAPTURE(delivers);
    PrivateServer server;
    std::atomic<bool> handling{false}, go_on{false};
    const auto handler = [&](const Message&) {
      handling = true;
      while (!go_on) std::this_thread::sleep_for(1ms);
      return ack();
    };
    std::optional<Consumer> consumer(std::in_place, server.url(), "q", handler, patient());
    consumer->start();
    if (delivers) Producer(server.url(), "q").send("a");
    if (delivers) CHECK(test::eventually([&] { return handling.load(); }));
    const Frozen frozen(server.pid());
    go_on = true;
    std::this_thread::sleep_for(50ms);
    auto begun = Clock::now();
    const bool clean = consumer->stop(kPatience);
    CHECK(Clock::now() - begun < kBound);
    if (delivers) CHECK_FALSE(clean);
    begun = Clock::now();
    consumer.reset();
    CHECK(Clock::now() - begun < kBound);
  }
}

TEST_CASE("frozen: start() and stop() return though the server stands still") {
  PrivateServer server;
  const Frozen frozen(server.pid());
  check_returns(server.url());
}

TEST_CASE("frozen: start() and stop() return though nobody accepts, or answers, or shakes hands") {
  const int listening = test::listen_on_loopback();  // has room for one link
  const std::string full = "redis://127.0.0.1:" + std::to_string(test::port_of(listening));
  check_returns(full);
  check_returns(full);
  check_returns(full);
  ::close(listening);
  ScriptedServer silent([](const Words&) { return ""; });
  check_returns("redis://" + silent.host());
  check_returns("rediss://" + silent.host());
  ScriptedServer greets([](const Words& words) { return words[0] == "HELLO" ? hello() : ""; });
  check_returns("redis://" + greets.host());
}

TEST_CASE("frozen: start() and stop() return though Sentinels, their master or nodes of a Cluster never answer") {
  ScriptedServer silent([](const Words&) { return ""; });
  check_returns("redis+sentinel://" + silent.host() + "/m");
  check_returns("redis+cluster://" + silent.host());
  ScriptedServer sentinel([&](const Words& words) -> std::string {
    if (words[0] == "HELLO") return hello();
    if (words[0] == "SUBSCRIBE") return "";
    if (words[1] == "MASTER") return array({bulk("config-epoch"), bulk("1")});
    return array({bulk("127.0.0.1"), bulk(std::to_string(silent.port()))});
  });
  check_returns("redis+sentinel://" + sentinel.host() + "/m");
}

TEST_CASE("frozen: start() and stop() return though the look-up of a name takes long") {
  check_returns("redis://hangs.test");
  check_returns("redis+sentinel://hangs.test/m");
}

TEST_CASE("frozen: a stop() does not wait for that of another thread beyond its own deadline") {
  ScriptedServer silent([](const Words&) { return ""; });
  Consumer consumer(
      "redis://" + silent.host(), "q", [](const Message&) { return ack(); }, patient());
  consumer.start();
  std::thread other([&] { consumer.stop(3s); });
  std::this_thread::sleep_for(50ms);
  const auto begun = Clock::now();
  CHECK_FALSE(consumer.stop(kPatience));
  CHECK(Clock::now() - begun < 2500ms);
  other.join();
}

TEST_CASE("frozen: what a server that answers refuses is still thrown by start(), which may be called again") {
  const std::string queue = test::fresh_queue();
  test::redis().cmd({"SET", "dp:" + queue + ":pending", "something else"});
  Consumer consumer(test::server().url(), queue, [](const Message&) { return ack(); });
  CHECK_THROWS_AS(consumer.start(), ReplyError);
  test::redis().cmd({"DEL", "dp:" + queue + ":pending"});
  CHECK_NOTHROW(consumer.start());
  CHECK(consumer.stop(10s));
}

TEST_CASE("frozen: a consumer that was started before its server answered works once it does") {
  const std::string queue = test::fresh_queue();
  PrivateServer server;
  Producer(server.url(), queue).send("a");
  std::atomic<bool> handled{false};
  const auto handler = [&](const Message&) {
    handled = true;
    return ack();
  };
  Consumer consumer(server.url(), queue, handler, patient());
  {
    const Frozen frozen(server.pid());
    consumer.start();
  }
  CHECK(test::eventually([&] { return handled.load(); }));
  CHECK(consumer.stop(10s));
}

}  // namespace
}  // namespace delayqueue
