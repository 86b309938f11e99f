// The time from the due time of a message to the start of its handler. The due time is set by `at` and is also the
// payload; Redis and the handler use the clock of this machine.
#include <delayqueue/consumer.h>
#include <delayqueue/producer.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/part.h"

namespace bench {
namespace {

using namespace delayqueue;
using std::chrono::system_clock;

constexpr std::chrono::seconds kPatience{20};

long long us(system_clock::duration span) {
  return std::chrono::duration_cast<std::chrono::microseconds>(span).count();
}

// Sends messages that are due one each millisecond, starting after all of them have been sent.
system_clock::time_point send_all(Bench& bench) {
  const std::size_t count = bench.scale.late_messages;
  const auto ahead = milliseconds(500 + count / 10);
  const auto first = std::chrono::ceil<milliseconds>(system_clock::now()) + ahead;
  std::vector<OutgoingMessage> messages(count);
  for (std::size_t i = 0; i < count; ++i) {
    const system_clock::time_point due = first + milliseconds(i);
    messages[i].payload = std::to_string(us(due.time_since_epoch()));
    messages[i].payload.resize(payload().size(), ' ');
    messages[i].options.at = due;
  }
  Producer(bench.server.url(), "bench").send_batch(messages);
  if (system_clock::now() > first)
    throw std::runtime_error("lateness: sending took longer than the time before the first message is due");
  return first + milliseconds(count);
}

std::vector<double> measure(Bench& bench) {
  bench.server.flush();
  std::mutex mutex;
  std::vector<double> late;
  const auto note = [&](const Message& message) {
    const long long now = us(system_clock::now().time_since_epoch());
    const long long due = std::strtoll(message.payload().c_str(), nullptr, 10);
    const std::lock_guard lock(mutex);
    late.push_back(static_cast<double>(now - due) / 1000);
    return ack();
  };
  ConsumerOptions four;
  four.concurrency = 4;
  Consumer consumer(bench.server.url(), "bench", note, four);
  const auto last = send_all(bench);
  consumer.start();
  std::this_thread::sleep_until(last);
  for (const auto limit = Clock::now() + kPatience; consumer.stats().acked < bench.scale.late_messages;) {
    if (Clock::now() > limit) throw std::runtime_error("lateness: not all messages were delivered in time");
    std::this_thread::sleep_for(milliseconds(5));
  }
  static_cast<void>(consumer.stop());
  return late;
}

}  // namespace

void lateness(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    const std::vector<double> late = measure(bench);
    bench.figures.add("lateness_ms.min", *std::min_element(late.begin(), late.end()));
    bench.figures.add("lateness_ms.p50", percentile(late, 0.5));
    bench.figures.add("lateness_ms.p99", percentile(late, 0.99));
    bench.figures.add("lateness_ms.max", *std::max_element(late.begin(), late.end()));
  }
}

}  // namespace bench
