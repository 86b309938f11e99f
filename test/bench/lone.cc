// How late the handlers of single messages begin, which one thread sends to a queue with partitions over a link of 1
// ms: beside a queue without partitions.

#include "bench/delay_relay.h"
#include "bench/part.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kMost = 3000;             // messages
constexpr std::chrono::milliseconds kPause{1};  // between two sends
constexpr std::chrono::milliseconds kEachWay{1};
constexpr std::chrono::seconds kPatience{60};

// The time of the send is the payload.
std::vector<double> measure(Bench& bench, const std::string& relayed, unsigned partitions) {
  const std::size_t messages = std::min(kMost, bench.scale.late_messages);
  const std::string queue = "lone" + std::to_string(partitions);
  if (partitions > 1) QueueAdmin(bench.server.url(), queue).set_partitions(partitions);
  std::mutex mutex;
  std::vector<double> late_ms;
  ConsumerOptions options;
  options.concurrency = 8;
  const auto handler = [&](const Message& message) {
    const Clock::time_point now = Clock::now();
    Clock::rep sent = 0;
    std::memcpy(&sent, message.payload().data(), sizeof sent);
    const std::lock_guard lock(mutex);
    late_ms.push_back(1000 * seconds(now - Clock::time_point(Clock::duration(sent))));
    return ack();
  };
  Consumer consumer(relayed, queue, handler, options);
  consumer.start();
  std::this_thread::sleep_for(std::chrono::seconds(2));  // it reads the layout, and begins to wait
  Producer producer(bench.server.url(), queue);
  for (std::size_t i = 0; i < messages; ++i) {
    const Clock::rep now = Clock::now().time_since_epoch().count();
    producer.send(std::string(reinterpret_cast<const char*>(&now), sizeof now));
    std::this_thread::sleep_for(kPause);
  }
  const Clock::time_point until = Clock::now() + kPatience;
  while (consumer.metrics().stats.acked < messages) {
    if (Clock::now() > until) throw std::runtime_error("partitions: not all single messages were handled in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  static_cast<void>(consumer.stop());
  return late_ms;
}

}  // namespace

void lone_messages(Bench& bench) {
  const DelayRelay relay(bench.server.socket(), kEachWay);
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const unsigned partitions : {1, 32, 256}) {
      bench.server.flush();
      const std::vector<double> late = measure(bench, relay.url(), partitions);
      const std::string name = "partitions.lone.lateness_ms." + std::to_string(partitions);
      bench.figures.add(name + ".p50", percentile(late, 0.5));
      bench.figures.add(name + ".p99", percentile(late, 0.99));
    }
  }
  bench.figures.ratio("ratio.partitions_lone_p99", "partitions.lone.lateness_ms.32.p99",
                      "partitions.lone.lateness_ms.1.p99");
}

}  // namespace bench
