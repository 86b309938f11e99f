#include "support/test.h"

#include "producer/circuit_breaker.h"
#include "support/answers.h"

namespace delayqueue {
namespace {

// A breaker, and a thread that probes for it.
class Breaker {
 public:
  ~Breaker() {
    breaker_.stop();
    prober_.join();
  }

  void answer(bool succeeds) { succeeds_ = succeeds; }
  std::size_t probes() const { return probes_; }

  void partition_failed(unsigned partition, const std::string& why) { breaker_.partition_failed(partition, why); }
  void access_denied(unsigned partition, const std::string& why) { breaker_.access_denied(partition, why); }
  bool allows(unsigned partition) const { return breaker_.allows(partition); }
  bool allows(std::initializer_list<unsigned> partitions) const {
    return std::all_of(partitions.begin(), partitions.end(), [this](unsigned one) { return allows(one); });
  }

  test::Lines lines;

 private:
  std::atomic<bool> succeeds_{false};
  std::atomic<std::size_t> probes_{0};
  const EventSink sink_{{"test", ""}, lines.logger(), {}, false};
  FailureReporter failures_{sink_};
  CircuitBreaker breaker_{failures_};
  std::thread prober_{[this] {
    while (const auto circuit = breaker_.wait_for_probe()) {
      ++probes_;
      breaker_.probed(*circuit, succeeds_);
    }
  }};
};

TEST_CASE("circuit breaker: a partition whose requests are refused is left out alone, until a probe has succeeded") {
  Breaker a;
  CHECK(a.allows({0, 1, 2, 3}));
  a.partition_failed(3, "TRYAGAIN");
  CHECK_FALSE(a.allows(3));
  CHECK(a.allows({0, 1, 2}));
  CHECK(eventually([&] { return a.probes() >= 3; }, kPatience));
  CHECK_FALSE(a.allows(3));
  a.answer(true);
  CHECK(eventually([&] { return a.allows(3); }, kPatience));
}

TEST_CASE("circuit breaker: a failure is a warning when the first probe has failed, and its end is logged") {
  Breaker a;
  a.answer(true);
  a.partition_failed(2, "slow for a moment");
  CHECK(eventually([&] { return a.allows(2); }, kPatience));
  CHECK(a.lines.count(Severity::info) == 0);
  a.answer(false);
  a.partition_failed(2, "TRYAGAIN");
  CHECK(eventually([&] { return a.probes() >= 4; }, kPatience));
  CHECK(a.lines.count(Severity::warning,
                      "no new messages go to partition 2 until a request succeeds there: TRYAGAIN") == 1);
  a.answer(true);
  CHECK(eventually([&] { return a.lines.count(Severity::info, "new messages go to partition 2 again") == 1; },
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

// Partitions whose slots move again and again, and one without a right.
TEST_CASE("circuit breaker: a failure that lasts or comes and goes is at most 10 lines in its first minute") {
  Breaker a;
  for (int i = 0; i < 8; ++i) {
    a.answer(false);
    const std::size_t before = a.probes();
    a.partition_failed(0, "away for the " + std::string(static_cast<std::size_t>(i), 'x') + "th time");
    a.partition_failed(1, "away, too");
    a.partition_failed(2 + 2 * static_cast<unsigned>(i), "TRYAGAIN");
    a.access_denied(3, std::string(static_cast<std::size_t>(i), 'y') + " NOPERM");
    CHECK(eventually([&] { return a.probes() >= before + 6; }, kPatience));
    a.answer(true);
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
  a.answer(true);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) {
    threads.emplace_back([&a, i] {
      for (int n = 0; n < 200; ++n) {
        if (a.allows(i)) a.partition_failed(i, "it is away");
        a.partition_failed(i, "TRYAGAIN");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(eventually([&] { return a.allows({0, 1, 2, 3, 4, 5, 6, 7}); }, kPatience));
}

}  // namespace
}  // namespace delayqueue
