#include "support/test.h"

#include "producer/circuit_breaker.h"
#include "support/answers.h"

namespace delayqueue {
namespace {

using Probe = CircuitBreaker::Probe;

// Partitions of servers "a" (those with even numbers) and "b", a breaker, and a thread that probes for it.
class Breaker {
 public:
  ~Breaker() {
    breaker_.stop();
    prober_.join();
  }

  void answer(Probe with) { answer_ = with; }
  void move(unsigned partition, const std::string& server) {
    const std::lock_guard lock(mutex_);
    moved_[partition] = server;
  }
  std::size_t probes() const { return probes_; }
  std::set<unsigned> probed() const {
    const std::lock_guard lock(mutex_);
    return probed_;
  }

  void server_failed(unsigned partition, const std::string& why) {
    breaker_.server_failed(partition, server_of(partition), why);
  }
  void partition_failed(unsigned partition, const std::string& why) { breaker_.partition_failed(partition, why); }
  void access_denied(unsigned partition, const std::string& why) { breaker_.access_denied(partition, why); }
  bool allows(unsigned partition) const { return breaker_.allows(partition, server_of(partition)); }
  bool allows(std::initializer_list<unsigned> partitions) const {
    return std::all_of(partitions.begin(), partitions.end(), [this](unsigned one) { return allows(one); });
  }

  test::Lines lines;

 private:
  std::string server_of(unsigned partition) const {
    const std::lock_guard lock(mutex_);
    const auto found = moved_.find(partition);
    return found != moved_.end() ? found->second : partition % 2 == 0 ? "a" : "b";
  }

  Probe probe(const CircuitBreaker::Circuit& circuit) {
    if (!circuit.server.empty() && server_of(circuit.partition) != circuit.server) return Probe::succeeded;
    ++probes_;
    const std::lock_guard lock(mutex_);
    probed_.insert(circuit.partition);
    return answer_;
  }

  std::atomic<Probe> answer_{Probe::failed};
  std::atomic<std::size_t> probes_{0};
  mutable std::mutex mutex_;  // guards the next two
  std::map<unsigned, std::string> moved_;
  std::set<unsigned> probed_;
  const EventSink sink_{{"test", ""}, lines.logger(), {}, false};
  FailureReporter failures_{sink_};
  CircuitBreaker breaker_{failures_};
  std::thread prober_{[this] {
    while (const auto circuit = breaker_.wait_for_probe()) breaker_.probed(*circuit, probe(*circuit));
  }};
};

TEST_CASE("circuit breaker: after a failure no partition of the server gets messages until a probe has succeeded") {
  Breaker a;
  CHECK(a.allows({0, 1, 2, 3}));
  a.server_failed(0, "it is away");
  CHECK_FALSE(a.allows(0));
  CHECK_FALSE(a.allows(2));
  CHECK(a.allows({1, 3}));
  CHECK(eventually([&] { return a.probes() >= 3; }, kPatience));
  a.server_failed(2, "another one");
  CHECK_FALSE(a.allows(0));
  a.answer(Probe::succeeded);
  CHECK(eventually([&] { return a.allows({0, 1, 2, 3}); }, kPatience));
  CHECK(a.probed() == std::set<unsigned>{0});  // one partition of each server
  a.server_failed(1, "b is away");
  CHECK(eventually([&] { return a.allows({0, 1, 2, 3}); }, kPatience));
  CHECK(a.probed() == std::set<unsigned>{0, 1});
}

TEST_CASE("circuit breaker: a partition whose requests are refused is left out alone") {
  Breaker a;
  a.answer(Probe::refused);
  a.partition_failed(3, "TRYAGAIN");
  CHECK_FALSE(a.allows(3));
  CHECK(a.allows({0, 1, 2}));
  CHECK(eventually([&] { return a.probes() >= 3; }, kPatience));
  CHECK_FALSE(a.allows(3));
  a.answer(Probe::succeeded);
  CHECK(eventually([&] { return a.allows(3); }, kPatience));
}

TEST_CASE("circuit breaker: a server that answers but refuses one partition gets messages for the others") {
  Breaker a;
  a.answer(Probe::refused);
  a.server_failed(0, "no answer");
  CHECK(eventually([&] { return a.allows(2); }, kPatience));
  CHECK_FALSE(a.allows(0));
  a.answer(Probe::succeeded);
  CHECK(eventually([&] { return a.allows(0); }, kPatience));
}

TEST_CASE("circuit breaker: partitions that another server has taken over are used at once") {
  Breaker a;
  a.server_failed(0, "it is away");
  a.move(2, "c");
  CHECK(a.allows(2));
  CHECK_FALSE(a.allows(0));
  a.move(0, "c");
  CHECK(a.allows(0));
  CHECK(eventually(
      [&] {
        const std::size_t before = a.probes();
        std::this_thread::sleep_for(1500ms);  // longer than the longest pause
        return a.probes() == before;
      },
      kPatience));
  CHECK(a.allows({0, 1, 2, 3}));
}

TEST_CASE("circuit breaker: an outage is a warning when the first probe has failed, and its end is logged") {
  Breaker a;
  a.answer(Probe::succeeded);
  a.server_failed(0, "slow for a moment");
  CHECK(eventually([&] { return a.allows(0); }, kPatience));
  CHECK(a.lines.count(Severity::info) == 0);
  a.answer(Probe::failed);
  a.server_failed(0, "it is away");
  CHECK(eventually([&] { return a.probes() >= 4; }, kPatience));
  CHECK(a.lines.count(Severity::warning,
                      "no new messages go to the partitions at a until a request succeeds there: it is "
                      "away") == 1);
  a.answer(Probe::succeeded);
  CHECK(eventually([&] { return a.lines.count(Severity::info, "new messages go to the partitions at a again") == 1; },
                   kPatience));
  CHECK(a.lines.count(Severity::warning) == 1);
}

TEST_CASE("circuit breaker: partitions without a right are left out with one warning, and not tried again soon") {
  Breaker a;
  for (const unsigned partition : {1U, 2U, 3U}) a.access_denied(partition, "NOPERM");
  CHECK(a.lines.count(Severity::warning, "no new messages go to partition 1: NOPERM") == 1);
  CHECK(a.lines.count(Severity::warning) == 1);
  CHECK(a.allows(0));
  for (const unsigned partition : {1U, 2U, 3U}) CHECK_FALSE(a.allows(partition));
  std::this_thread::sleep_for(200ms);
  CHECK(a.probes() == 0);
}

// Two servers that go away and come back again and again, and a partition whose slot moves all the time.
TEST_CASE("circuit breaker: a failure that lasts or comes and goes is at most 10 lines in its first minute") {
  Breaker a;
  for (int i = 0; i < 8; ++i) {
    a.answer(i % 2 == 0 ? Probe::failed : Probe::refused);
    const std::size_t before = a.probes();
    a.server_failed(0, "away for the " + std::string(static_cast<std::size_t>(i), 'x') + "th time");
    a.server_failed(1, "away, too");
    a.partition_failed(2 + 2 * static_cast<unsigned>(i), "TRYAGAIN");
    a.access_denied(3, std::string(static_cast<std::size_t>(i), 'y') + " NOPERM");
    CHECK(eventually([&] { return a.probes() >= before + 6; }, kPatience));
    a.answer(Probe::succeeded);
    CHECK(eventually([&] { return a.allows({0, 1, 2}); }, kPatience));
  }
  CHECK(a.lines.count(Severity::warning) <= 5);
  CHECK(a.lines.count(Severity::warning) >= 2);  // of different texts
  CHECK(a.lines.count(Severity::info) <= 10);    // with the warnings
  CHECK(a.lines.count(Severity::info) > a.lines.count(Severity::warning));
  CHECK(a.lines.count(Severity::debug) > 20);  // with all others
}

TEST_CASE("circuit breaker: any number of threads may use one") {
  Breaker a;
  a.answer(Probe::succeeded);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) {
    threads.emplace_back([&a, i] {
      for (int n = 0; n < 200; ++n) {
        if (a.allows(i)) a.server_failed(i, "it is away");
        a.partition_failed(i, "TRYAGAIN");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(eventually([&] { return a.allows({0, 1, 2, 3, 4, 5, 6, 7}); }, kPatience));
}

}  // namespace
}  // namespace delayqueue
