// A queue that workers of both libraries serve at the same time.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "interop/both_sides.h"

using namespace delayqueue;
using namespace std::chrono_literals;
using test::eventually;
using test::GoProgram;

namespace {

constexpr int kEach = 1000;         // messages sent by each library
constexpr unsigned kFailEvery = 5;  // each library nacks one payload in so many, at its first delivery
constexpr int kRetries = 3;         // each library nacks a message at most once, so these suffice

// FNV-1a: the same choice as in go/main.go.
bool chosen(const std::string& payload) {
  std::uint32_t sum = 2166136261U;
  for (const char c : payload) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619U;
  return sum % kFailEvery == 0;
}

struct Ledger {
  std::mutex mutex;  // guards all below
  std::map<std::string, int> deliveries;
  std::map<std::string, int> acks;
  int nacked = 0;

  delayqueue::Verdict handle(const Message& message) {
    const std::lock_guard lock(mutex);
    const bool first = ++deliveries[message.payload()] == 1;
    if (first && chosen(message.payload())) {
      ++nacked;
      return nack();
    }
    ++acks[message.payload()];
    return ack();
  }

  void add(const GoProgram& worker) {
    const std::lock_guard lock(mutex);
    for (const auto& line : worker.lines()) {
      if (line.rfind("take ", 0) == 0) ++deliveries[line.substr(5)];
      if (line.rfind("ack ", 0) == 0) ++acks[line.substr(4)];
    }
  }
};

std::set<std::string> all_payloads() {
  std::set<std::string> all;
  for (int i = 0; i < kEach; ++i) {
    all.insert("go-" + std::to_string(i));
    all.insert("cpp-" + std::to_string(i));
  }
  return all;
}

void send_ours(const std::string& queue) {
  Producer producer(test::server().url(), queue, {.retries = kRetries});
  for (int i = 0; i < kEach;) {
    std::vector<std::string> payloads;
    for (const int end = i + 50; i < end; ++i) payloads.push_back("cpp-" + std::to_string(i));
    producer.send_batch(payloads, {.delay = std::chrono::milliseconds(i % 3 * 400)});
  }
}

}  // namespace

TEST_CASE("2000 messages from both libraries are handled by both: none is lost and nothing is left") {
  const auto queue = test::fresh_queue();
  Ledger ledger;

  // The handler is slow, so that Go gets its share.
  ConsumerOptions options = test::quick();
  options.concurrency = 4;
  options.backoff = Backoff::fixed(20ms);
  Consumer cpp(
      test::server().url(), queue,
      [&](const Message& message) {
        std::this_thread::sleep_for(5ms);
        return ledger.handle(message);
      },
      options);
  GoProgram go_worker("work", queue,
                      {"-concurrency", "4", "-limit", "50", "-lease", "20s", "-hold", "2ms", "-fail-every",
                       std::to_string(kFailEvery)});
  cpp.start();
  std::thread sender([&] { send_ours(queue); });
  GoProgram early("send", queue, {"-n", std::to_string(kEach), "-retries", std::to_string(kRetries)});
  CHECK(early.finish() == 0);
  sender.join();

  const bool clean = test::nothing_left("dp:" + queue, 60s);
  CHECK_MESSAGE(clean, doctest::toString(test::leftovers("dp:" + queue).size()), " keys are left");
  CHECK(go_worker.finish() == 0);
  CHECK(cpp.stop(10s));
  CHECK(test::leftovers("dp:" + queue).empty());
  CHECK(test::redis().cmd({"SISMEMBER", "dp:queues", "dp:" + queue}) == 1);

  const int by_cpp = static_cast<int>(ledger.acks.size());
  const int nacked_by_go = static_cast<int>(go_worker.count_starting("nack "));
  ledger.add(go_worker);
  std::set<std::string> acked;
  int twice = 0;
  int most = 0;
  for (const auto& [payload, count] : ledger.acks) {
    acked.insert(payload);
    twice += count > 1 ? 1 : 0;
  }
  for (const auto& [payload, count] : ledger.deliveries) most = std::max(most, count);
  CHECK(acked == all_payloads());
  CHECK(by_cpp > 100);
  CHECK(by_cpp < 2 * kEach - 100);
  CHECK(ledger.nacked > 0);
  CHECK(nacked_by_go > 0);
  CHECK(most <= kRetries + 1);
  MESSAGE("acked by C++ ", by_cpp, ", by Go ", acked.size() - static_cast<std::size_t>(by_cpp), "; nacked by C++ ",
          ledger.nacked, ", by Go ", nacked_by_go, "; acked twice ", twice, "; most deliveries ", most);
}
