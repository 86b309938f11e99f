// The time from the call of send to the start of the handler, for one message and an idle consumer.

#include "bench/part.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kWarmUp = 5;
constexpr std::chrono::seconds kPatience{20};

std::vector<double> measure(Bench& bench) {
  std::mutex mutex;
  std::condition_variable came;
  Clock::time_point begun{};
  Consumer consumer(bench.server.url(), "bench", [&](const Message&) {
    const auto now = Clock::now();
    const std::lock_guard lock(mutex);
    begun = now;
    came.notify_one();
    return ack();
  });
  consumer.start();
  Producer producer(bench.server.url(), "bench");
  const std::string body = payload();
  std::vector<double> waits;
  for (std::size_t i = 0; i < bench.scale.wakes + kWarmUp; ++i) {
    std::this_thread::sleep_for(milliseconds(4 + i % 4));  // time to become idle again
    const auto sent = Clock::now();
    producer.send(body);
    std::unique_lock lock(mutex);
    if (!came.wait_for(lock, kPatience, [&] { return begun > sent; }))
      throw std::runtime_error("wake: a message was not delivered in time");
    if (i >= kWarmUp) waits.push_back(1000 * seconds(begun - sent));
    bench.progress.step("messages", i, bench.scale.wakes);
  }
  static_cast<void>(consumer.stop());
  return waits;
}

}  // namespace

void wake(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    bench.server.flush();
    const std::vector<double> waits = measure(bench);
    bench.figures.add("wake_ms.p50", percentile(waits, 0.5));
    bench.figures.add("wake_ms.p99", percentile(waits, 0.99));
  }
}

}  // namespace bench
