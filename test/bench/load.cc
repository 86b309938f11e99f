// The lateness of scheduled messages at a part of the measured capacity, and when very many are due at the same time.

#include "bench/jobs.h"
#include "bench/part.h"
#include "bench/probe.h"
#include "bench/schedule.h"

namespace bench {
namespace {

using namespace delayqueue;

using Percentiles = std::vector<std::pair<const char*, double>>;

void add_percentiles(Bench& bench, const std::string& name, const std::vector<double>& values,
                     const Percentiles& percentiles) {
  for (const auto& [suffix, share] : percentiles) bench.figures.add(name + suffix, percentile(values, share));
}

ConsumerOptions eight_workers() {
  ConsumerOptions options;
  options.concurrency = 8;
  return options;
}

double measure_capacity(Bench& bench) {
  bench.progress.step("capacity");
  bench.server.flush();
  const Target target(bench.server);
  send_backlog(target, bench.scale.load_backlog, payload(), Due::scheduled);
  make_due(bench.server);
  return drain_backlog(bench, target, bench.scale.load_backlog, 8);
}

void measure_load(Bench& bench, double rate, const std::string& name) {
  bench.progress.step(name);
  bench.server.flush();
  const double per_ms = rate / 1000;
  Schedule schedule;
  schedule.messages = std::max<std::size_t>(1, static_cast<std::size_t>(rate * seconds(bench.scale.load)));
  schedule.group = per_ms;
  LatenessLog log(schedule.messages);
  Consumer consumer(
      bench.server.url(), kQueue, [&](const Message& message) { return log.record(message); }, eight_workers());
  const DueTimes due = send_schedule(bench, schedule);
  consumer.start();
  await_acks(consumer, schedule.messages, due.last);
  static_cast<void>(consumer.stop());
  add_percentiles(bench, name + ".lateness_ms.", log.late_ms(), {{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}});
}

void measure_burst(Bench& bench) {
  bench.server.flush();
  const std::size_t messages = bench.scale.burst;
  LatenessLog log(messages);
  Consumer consumer(
      bench.server.url(), kQueue, [&](const Message& message) { return log.record(message); }, eight_workers());
  const DueTimes due = send_schedule(bench, {messages, static_cast<double>(messages)});
  consumer.start();
  std::this_thread::sleep_until(due.first);
  Probe probe(bench.server.socket());
  await_acks(consumer, messages, due.last);
  const std::vector<double> waits = probe.waits();
  static_cast<void>(consumer.stop());
  add_percentiles(bench, "burst.lateness_ms.", log.late_ms(), {{"p50", 0.5}, {"p99", 0.99}, {"max", 1}});
  add_percentiles(bench, "burst.probe_ms.", waits, {{"p50", 0.5}, {"p99", 0.99}});
}

}  // namespace

void load(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    const double capacity = measure_capacity(bench);
    bench.figures.add("load.capacity", capacity);
    for (const int percent : {25, 50, 75})
      measure_load(bench, capacity * percent / 100, "load." + std::to_string(percent));
  }
}

void burst(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) measure_burst(bench);
}

}  // namespace bench
