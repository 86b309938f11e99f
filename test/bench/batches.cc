// CPU time of Redis for a message that is due alone, and for messages that are due together, with all that wakes,
// fetches and settles them.

#include "bench/bare.h"
#include "bench/jobs.h"
#include "bench/part.h"
#include "bench/schedule.h"
#include "bench/wire.h"
#include "store/keys.h"
#include "store/record.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kSizes[] = {1, 10, 100, 200};
constexpr std::ptrdiff_t kRequests = 3;  // of a delivery
constexpr milliseconds kGap{8};          // between two batches, so that the consumer is idle when one is due
constexpr milliseconds kBefore{20};      // the measurement begins this long before the first batch is due

void measure(Bench& bench, std::size_t size) {
  const std::string name = "batch." + std::to_string(size);
  bench.progress.step(name);
  bench.server.flush();
  const std::size_t messages = size * bench.scale.batch_groups;
  const auto us_each = [&](double from, double to) { return (to - from) / static_cast<double>(messages); };
  const double start = bench.server.cpu_us();
  const DueTimes due = send_schedule(bench, {messages, static_cast<double>(size), kGap});
  bench.figures.add(name + ".send_redis_us", us_each(start, bench.server.cpu_us()));
  ConsumerOptions eight;
  eight.concurrency = 8;
  Consumer consumer(
      bench.server.url(), kQueue, [](const Message&) { return ack(); }, eight);
  consumer.start();
  std::this_thread::sleep_until(due.first - kBefore);
  const double before = bench.server.cpu_us();
  await_acks(consumer, messages, due.last);
  bench.figures.add(name + ".redis_us", us_each(before, bench.server.cpu_us()));
  static_cast<void>(consumer.stop());
}

// A delivery needs three requests, each after the answer to the one before: the take, the fetch of the body and the
// ack. Here they are bare commands, at the same times. An idle Redis sleeps before each request.
void measure_bare(Bench& bench) {
  const std::string name = "limit.delivery_redis_us";
  bench.progress.step(name);
  bench.server.flush();
  const store::Keys keys = store::make_keys(kQueue, {});
  const std::vector<std::string> ids = store::new_ids(bench.scale.batch_groups);
  Wire wire(bench.server.socket());
  run(wire, bare_sends(keys, ids, Bodies::mset), 1);
  const std::vector<Batch> requests = bare_deliveries(keys, ids);
  const double before = bench.server.cpu_us();
  auto next = Clock::now();
  for (auto request = requests.begin(); request != requests.end(); request += kRequests) {
    std::this_thread::sleep_until(next += kGap);
    run(wire, {request, request + kRequests}, 1);
  }
  bench.figures.add(name, (bench.server.cpu_us() - before) / static_cast<double>(ids.size()));
}

}  // namespace

void batches(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    measure_bare(bench);
    for (const std::size_t size : kSizes) measure(bench, size);
  }
}

}  // namespace bench
