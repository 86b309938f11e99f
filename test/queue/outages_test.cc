// Outages: when calls may use a server that was away, and the thread that tries to reach it.
#include "support/test.h"

#include "queue/outages.h"
#include "redis/reply.h"
#include "support/limits.h"

namespace delayqueue {
namespace {

using Steady = std::chrono::steady_clock;

enum class ServerIs { away, refusing, there };

// Servers "a" and "b" with the slots 0 and 1.
class Servers {
 public:
  void set(int slot, ServerIs state) { state_.at(static_cast<std::size_t>(slot)) = state; }
  std::size_t probes(int slot) const { return probes_.at(static_cast<std::size_t>(slot)); }
  bool is_away(const std::string& server) const { return outages.away(server).has_value(); }

 private:
  void probe(int slot) {
    ++probes_.at(static_cast<std::size_t>(slot));
    switch (state_.at(static_cast<std::size_t>(slot)).load()) {
      case ServerIs::away:
        throw ConnectionError("still away");
      case ServerIs::refusing:
        throw AccessDenied("NOPERM");
      case ServerIs::there:
        return;
    }
  }

  std::array<std::atomic<ServerIs>, 2> state_{};
  std::array<std::atomic<std::size_t>, 2> probes_{};

 public:
  Outages outages{[this](int slot) { probe(slot); }};  // last: its thread uses the others
};

TEST_CASE("outages: a server is away from its first failure until a probe has succeeded") {
  Servers servers;
  CHECK_FALSE(servers.outages.any());
  servers.outages.answered("a");
  const auto since = Steady::now() - 12s;
  servers.outages.failed("a", 0, "no answer", since);
  const auto away = servers.outages.away("a");
  REQUIRE(away);
  CHECK(away->since == since);
  CHECK(has(away->text, " (away for 1"));
  CHECK_FALSE(servers.is_away("b"));
  CHECK(eventually([&] { return servers.probes(0) >= 2; }, kPatience));
  CHECK(eventually([&] { return has(servers.outages.away("a")->text, "still away (away for 1"); }, kPatience));
  CHECK_FALSE(servers.outages.wait({"a"}, Steady::now() + 10ms));
  CHECK(servers.outages.wait({"a", "b"}, Steady::now() + 60s));
  servers.set(0, ServerIs::there);
  CHECK(servers.outages.wait({"a"}, Steady::now() + 60s));
  CHECK_FALSE(servers.is_away("a"));
  const std::size_t probes = servers.probes(0);
  servers.outages.answered("a");
  CHECK_FALSE(servers.outages.any());
  std::this_thread::sleep_for(50ms);
  CHECK(servers.probes(0) == probes);
}

TEST_CASE("outages: a failure that is older than a successful probe begins none again") {
  Servers servers;
  servers.set(0, ServerIs::there);
  const auto begun = Steady::now();
  servers.outages.failed("a", 0, "no answer", begun - 2s);
  CHECK(servers.outages.wait({"a"}, Steady::now() + 60s));
  servers.set(0, ServerIs::away);
  servers.outages.failed("a", 0, "no answer on another connection", begun - 1s);
  CHECK_FALSE(servers.is_away("a"));
  servers.outages.failed("a", 0, "no answer", Steady::now());
  CHECK(servers.is_away("a"));
}

TEST_CASE("outages: a server is probed with the slot that a call has found there last") {
  Servers servers;
  servers.outages.failed("a", 0, "no answer", Steady::now());
  CHECK(eventually([&] { return servers.probes(0) >= 1; }, kPatience));
  servers.outages.failed("a", 1, "no answer", Steady::now());  // slot 0 has moved elsewhere
  CHECK(eventually([&] { return servers.probes(1) >= 1; }, kPatience));
}

TEST_CASE("outages: calls do not give up before the first probe") {
  Servers servers;
  const auto since = Steady::now() - 12s;
  servers.outages.failed("a", 0, "no answer", since);
  const auto away = servers.outages.away("a");
  REQUIRE(away);
  if (!has(away->text, "still away")) CHECK(away->end(2s) > since + 12s);
  CHECK(away->end(60s) == since + 60s);
  CHECK(eventually([&] { return servers.outages.away("a")->end(2s) == since + 2s; }, kPatience));
}

TEST_CASE("outages: the listeners are told of an outage when its first probe has failed, and of its end") {
  std::mutex mutex;
  std::vector<std::string> told;
  Servers servers;
  const auto all = [&] {
    const std::lock_guard lock(mutex);
    return told;
  };
  const auto listen = [&](const std::string& server, const std::string& why) {
    const std::lock_guard lock(mutex);
    told.push_back(server + ": " + why);
  };
  const int other = 0;
  servers.outages.listen(&servers, listen);
  servers.outages.listen(&other, listen);
  servers.outages.ignore(&other);
  servers.set(0, ServerIs::there);
  servers.outages.failed("a", 0, "slow for a moment", Steady::now());
  CHECK(servers.outages.wait({"a"}, Steady::now() + 60s));
  servers.outages.answered("a");
  CHECK(all().empty());
  servers.set(0, ServerIs::away);
  servers.outages.failed("a", 0, "it is away", Steady::now());
  CHECK(eventually([&] { return servers.probes(0) >= 4; }, kPatience));
  servers.set(0, ServerIs::there);
  CHECK(eventually([&] { return all().size() == 2; }, kPatience));
  CHECK(all() == std::vector<std::string>{"a: it is away", "a: "});
  servers.outages.answered("a");
}

TEST_CASE("outages: a server that refuses the probe is there: the calls get its answer") {
  Servers servers;
  servers.set(0, ServerIs::refusing);
  servers.outages.failed("a", 0, "no answer", Steady::now());
  CHECK(servers.outages.wait({"a"}, Steady::now() + 60s));
}

TEST_CASE("outages: a server that answers probes, and fails calls, has been away since the first failure") {
  Servers servers;
  servers.set(0, ServerIs::there);
  const auto begun = Steady::now();
  std::set<Steady::time_point> since;
  for (int i = 0; i < 5; ++i) {
    servers.outages.failed("a", 0, "READONLY", Steady::now());
    const auto away = servers.outages.away("a");
    if (away) since.insert(away->since);
    CHECK(servers.outages.wait({"a"}, Steady::now() + 60s));
  }
  if (Steady::now() - begun < 1s) CHECK(since.size() <= 1);
  servers.outages.answered("a");
  CHECK_FALSE(servers.outages.any());
}

TEST_CASE("outages: after a success the next failure is a new outage, and so it is some time after a probe") {
  Servers servers;
  servers.set(0, ServerIs::there);
  servers.outages.failed("a", 0, "no answer", Steady::now() - 1h);
  servers.outages.answered("a");
  servers.set(0, ServerIs::away);
  auto since = Steady::now();
  servers.outages.failed("a", 0, "no answer", since);
  CHECK(servers.outages.away("a")->since == since);
  servers.set(0, ServerIs::there);
  CHECK(servers.outages.wait({"a"}, Steady::now() + 60s));
  std::this_thread::sleep_for(1100ms);
  servers.set(0, ServerIs::away);
  since = Steady::now();
  servers.outages.failed("a", 0, "no answer", since);
  CHECK(servers.outages.away("a")->since == since);
}

TEST_CASE("outages: one thread probes all servers, and ends with the object") {
  const std::size_t threads = test::threads_of_this_process();
  {
    Servers servers;
    CHECK(test::threads_of_this_process() == threads);
    for (int i = 0; i < 100; ++i) {
      servers.outages.failed("a", 0, "no answer", Steady::now());
      servers.outages.failed("b", 1, "no answer", Steady::now());
    }
    CHECK(test::threads_of_this_process() == threads + 1);
    CHECK(eventually([&] { return servers.probes(0) >= 3 && servers.probes(1) >= 3; }, kPatience));
    servers.set(1, ServerIs::there);
    CHECK(servers.outages.wait({"b"}, Steady::now() + 60s));
    CHECK(servers.is_away("a"));
  }
  CHECK(eventually([&] { return test::threads_of_this_process() == threads; }));
}

#ifdef __GLIBC__
TEST_CASE("outages: if the system refuses the thread there is no outage, and the calls try for themselves") {
  Servers servers;
  {
    const test::NoThreads none;
    servers.outages.failed("a", 0, "no answer", Steady::now());
    CHECK_FALSE(servers.outages.any());
  }
  servers.outages.failed("a", 0, "no answer", Steady::now());
  CHECK(servers.is_away("a"));
}
#endif

TEST_CASE("outages: any number of threads may use one") {
  Servers servers;
  servers.set(0, ServerIs::there);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 200; ++n) {
        if (!servers.is_away("a")) servers.outages.failed("a", 0, "no answer", Steady::now());
        servers.outages.wait({"a"}, Steady::now() + 1ms);
        servers.outages.answered("a");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(servers.outages.wait({"a"}, Steady::now() + 60s));
}

}  // namespace
}  // namespace delayqueue
