#include "support/test.h"

#include "producer/circuit_breaker.h"
#include "support/answers.h"

namespace delayqueue {
namespace {

using test::eventually;
using test::kPatience;
using Probe = CircuitBreaker::Probe;

// Partitions of servers "a" (those with even numbers) and "b", and a breaker.
class Breaker {
 public:
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
  bool allows(std::initializer_list<unsigned> partitions) const {
    bool all = true;
    for (const unsigned partition : partitions) all = all && breaker.allows(partition);
    return all;
  }

  test::Lines lines;

 private:
  std::string server_of(unsigned partition) const {
    const std::lock_guard lock(mutex_);
    const auto found = moved_.find(partition);
    return found != moved_.end() ? found->second : partition % 2 == 0 ? "a" : "b";
  }

  Probe probe(unsigned partition) {
    ++probes_;
    const std::lock_guard lock(mutex_);
    probed_.insert(partition);
    return answer_;
  }

  std::atomic<Probe> answer_{Probe::failed};
  std::atomic<std::size_t> probes_{0};
  mutable std::mutex mutex_;  // guards the next two
  std::map<unsigned, std::string> moved_;
  std::set<unsigned> probed_;
  const EventSink sink_{{"test", ""}, lines.logger(), {}, false};

 public:
  CircuitBreaker breaker{{[this](unsigned partition) { return server_of(partition); },
                          [this](unsigned partition) { return probe(partition); }},
                         sink_};
};

TEST_CASE("circuit breaker: after a failure no partition of the server gets messages until a probe has succeeded") {
  Breaker a;
  CHECK(a.allows({0, 1, 2, 3}));
  CHECK(a.breaker.server_failed(0, "it is away"));
  CHECK_FALSE(a.breaker.allows(0));
  CHECK_FALSE(a.breaker.allows(2));
  CHECK(a.allows({1, 3}));
  CHECK(eventually([&] { return a.probes() >= 3; }, kPatience));
  CHECK(a.breaker.server_failed(2, "another one"));
  CHECK_FALSE(a.breaker.allows(0));
  a.answer(Probe::succeeded);
  CHECK(eventually([&] { return a.allows({0, 1, 2, 3}); }, kPatience));
  CHECK(a.probed() == std::set<unsigned>{0});  // one partition of each server
  CHECK(a.breaker.server_failed(1, "b is away"));
  CHECK(eventually([&] { return a.allows({0, 1, 2, 3}); }, kPatience));
  CHECK(a.probed() == std::set<unsigned>{0, 1});
}

TEST_CASE("circuit breaker: while no other server is known, nothing changes") {
  Breaker a;
  a.move(0, "");
  CHECK_FALSE(a.breaker.server_failed(0, "it is away"));
  CHECK(a.allows({0, 1, 2}));
  CHECK(a.probes() == 0);
}

TEST_CASE("circuit breaker: a partition whose requests are refused is left out alone") {
  Breaker a;
  a.answer(Probe::refused);
  a.breaker.partition_failed(3, "TRYAGAIN");
  CHECK_FALSE(a.breaker.allows(3));
  CHECK(a.allows({0, 1, 2}));
  CHECK(eventually([&] { return a.probes() >= 3; }, kPatience));
  CHECK_FALSE(a.breaker.allows(3));
  a.answer(Probe::succeeded);
  CHECK(eventually([&] { return a.breaker.allows(3); }, kPatience));
}

TEST_CASE("circuit breaker: a server that answers but refuses one partition gets messages for the others") {
  Breaker a;
  a.answer(Probe::refused);
  CHECK(a.breaker.server_failed(0, "no answer"));
  CHECK(eventually([&] { return a.breaker.allows(2); }, kPatience));
  CHECK_FALSE(a.breaker.allows(0));
  a.answer(Probe::succeeded);
  CHECK(eventually([&] { return a.breaker.allows(0); }, kPatience));
}

TEST_CASE("circuit breaker: partitions that another server has taken over are used at once") {
  Breaker a;
  CHECK(a.breaker.server_failed(0, "it is away"));
  a.move(2, "c");
  CHECK(a.breaker.allows(2));
  CHECK_FALSE(a.breaker.allows(0));
  a.move(0, "c");
  CHECK(a.breaker.allows(0));
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
  CHECK(a.breaker.server_failed(0, "slow for a moment"));
  CHECK(eventually([&] { return a.breaker.allows(0); }, kPatience));
  CHECK(a.lines.count(Severity::info) == 0);
  a.answer(Probe::failed);
  CHECK(a.breaker.server_failed(0, "it is away"));
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
  for (const unsigned partition : {1U, 2U, 3U}) a.breaker.access_denied(partition, "NOPERM");
  CHECK(a.lines.count(Severity::warning, "no new messages go to partition 1: NOPERM") == 1);
  CHECK(a.lines.count(Severity::warning) == 1);
  CHECK(a.breaker.allows(0));
  for (const unsigned partition : {1U, 2U, 3U}) CHECK_FALSE(a.breaker.allows(partition));
  std::this_thread::sleep_for(200ms);
  CHECK(a.probes() == 0);
}

TEST_CASE("circuit breaker: any number of threads may use one") {
  Breaker a;
  a.answer(Probe::succeeded);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) {
    threads.emplace_back([&a, i] {
      for (int n = 0; n < 200; ++n) {
        if (a.breaker.allows(i)) a.breaker.server_failed(i, "it is away");
        a.breaker.partition_failed(i, "TRYAGAIN");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(eventually([&] { return a.allows({0, 1, 2, 3, 4, 5, 6, 7}); }, kPatience));
}

}  // namespace
}  // namespace delayqueue
