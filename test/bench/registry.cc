// CPU time of Redis for each call with which a consumer writes its entry into the registry of a queue, beside the
// entries of others; and the time in which all entries are read.

#include "store/registry.h"
#include "bench/jobs.h"
#include "bench/part.h"
#include "store/keys.h"
#include "store/record.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kReads = 20;

// A large entry: the consumer of three queues, with five handlers that have been running for long.
std::string entry_lines(std::size_t number) {
  store::ConsumerEntry entry;
  entry.name = "orders-service";
  entry.host = "worker-" + std::to_string(number) + ".example";
  entry.pid = 4711;
  entry.version = "0.1.0";
  entry.queues = {kQueue, "orders", "mails"};
  entry.queue_count = entry.queues.size();
  entry.busy = entry.concurrency = entry.in_flight = 8;
  for (const std::string& id : store::new_ids(store::kMostRunning)) entry.running.push_back({id, kLater});
  return store::lines_of(entry);
}

void measure_registry(Bench& bench, std::size_t consumers) {
  const std::string name = "registry." + std::to_string(consumers);
  bench.progress.step(name);
  bench.server.flush();
  const auto connection = bench.server.connect();
  const store::Keys keys = store::make_keys(kQueue, {});
  const std::vector<std::string> ids = store::new_ids(consumers);
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < consumers; ++i) entries.push_back(entry_lines(i));
  const auto write = [&](std::size_t i) {
    redis::Pipeline pipeline(*connection);
    const auto answer = store::register_consumer(pipeline, keys, ids[i], entries[i], kLater);
    pipeline.run();
    if (!answer.get()) throw std::runtime_error("the registry is full");
  };
  for (std::size_t i = 0; i < consumers; ++i) write(i);

  const double before = bench.server.cpu_us();
  for (std::size_t i = 0; i < bench.scale.wakes; ++i) write(i % consumers);
  bench.figures.add(name + ".call_us", (bench.server.cpu_us() - before) / static_cast<double>(bench.scale.wakes));

  Inspector inspector(bench.server.url(), kQueue);
  if (inspector.workers().size() != consumers) throw std::runtime_error("the registry lacks entries");
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < kReads; ++i) static_cast<void>(inspector.workers());
  bench.figures.add(name + ".read_ms", 1000 * since(start) / kReads);
}

}  // namespace

void registry(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const std::size_t consumers : {std::size_t{1}, std::size_t{100}, std::size_t{1000}}) {
      measure_registry(bench, consumers);
    }
  }
  bench.server.flush();
}

}  // namespace bench
