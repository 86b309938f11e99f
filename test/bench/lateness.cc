// The time from the due time of a message to the start of its handler, at a steady low rate.
#include <delayqueue/consumer.h>

#include <algorithm>
#include <vector>

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
