// Deliveries that are not settled yet: the memory of each, and the rate at which they are settled.
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "bench/jobs.h"
#include "bench/part.h"

namespace bench {
namespace {

using namespace delayqueue;

// Returns to the system what earlier parts have freed, so that it is not used again without growth.
void return_free_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void measure(Bench& bench) {
  bench.server.flush();
  const std::size_t count = bench.scale.variant;
  send_backlog(Target(bench.server), count, payload(), Due::at_once);
  std::mutex mutex;  // guards `held`
  std::vector<Delivery> held;
  held.reserve(count);
  const auto keep = [&](Delivery delivery) {
    const std::lock_guard lock(mutex);
    held.push_back(std::move(delivery));
  };
  const auto all_are_held = [&] {
    const std::lock_guard lock(mutex);
    return held.size() == count;
  };
  ConsumerOptions options;
  options.concurrency = count;
  options.tuning.threads = 2;
  return_free_memory();
  const double before = resident_mib(::getpid());
  Consumer consumer(bench.server.url(), kQueue, keep, options);
  consumer.start();
  await(all_are_held);
  const double grown = std::max(0.0, resident_mib(::getpid()) - before);
  bench.figures.add("memory.bytes_per_delivery", grown * 1024 * 1024 / static_cast<double>(count));
  const auto start = Clock::now();
  for (Delivery& delivery : held) static_cast<void>(std::move(delivery).ack());
  await([&] { return consumer.metrics().stats.acked == count; });
  bench.figures.add("deliveries.settle", static_cast<double>(count) / since(start));
}

}  // namespace

void deliveries(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) measure(bench);
}

}  // namespace bench
