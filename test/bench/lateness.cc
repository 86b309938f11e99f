// The time from the due time of a message to the start of its handler, at a steady low rate.

#include "bench/jobs.h"
#include "bench/part.h"
#include "bench/schedule.h"

namespace bench {
namespace {

using namespace delayqueue;

std::vector<double> measure(Bench& bench) {
  bench.server.flush();
  const std::size_t count = bench.scale.late_messages;
  LatenessLog log(count);
  ConsumerOptions four;
  four.concurrency = 4;
  Consumer consumer(
      bench.server.url(), kQueue, [&](const Message& message) { return log.record(message); }, four);
  const DueTimes due = send_schedule(bench, {count});
  consumer.start();
  await_acks(consumer, count, due.last);
  static_cast<void>(consumer.stop());
  return log.late_ms();
}

// How late a thread is that sleeps until each millisecond, without Redis: this much is the machine.
std::vector<double> measure_timer(Bench& bench) {
  std::vector<double> late(std::max<std::size_t>(1, bench.scale.late_messages / 5));
  Clock::time_point due = Clock::now();
  for (double& one : late) {
    due += milliseconds(1);
    std::this_thread::sleep_until(due);
    one = since(due) * 1000;
  }
  return late;
}

void add(Bench& bench, const std::string& name, const std::vector<double>& late) {
  bench.figures.add(name + ".min", *std::min_element(late.begin(), late.end()));
  bench.figures.add(name + ".p50", percentile(late, 0.5));
  bench.figures.add(name + ".p99", percentile(late, 0.99));
  bench.figures.add(name + ".max", *std::max_element(late.begin(), late.end()));
}

}  // namespace

void lateness(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    add(bench, "limit.timer_ms", measure_timer(bench));
    add(bench, "lateness_ms", measure(bench));
  }
}

}  // namespace bench
