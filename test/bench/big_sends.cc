// Sends of 1 MiB: how long Redis runs without a pause, its CPU time in all, and how long another client waits
// meanwhile.

#include "bench/jobs.h"
#include "bench/part.h"
#include "bench/probe.h"
#include "store/record.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kMiB = 1'048'576;
constexpr std::size_t kGroup = 25;  // messages that are stored at the same time

SendOptions later() {
  SendOptions options;
  options.delay = kLater;
  return options;
}

// Sends a message and cancels it, so that memory does not grow.
void send_and_cancel(Producer& producer, const std::string& body) {
  static_cast<void>(producer.cancel(producer.send(body, later()).id));
}

// Sends messages in groups, and removes each group before the next one. Returns the CPU time of Redis for each, in us.
double redis_us(Bench& bench, const std::string& body) {
  double us = 0;
  std::size_t sent = 0;
  while (sent < bench.scale.big_sends) {
    bench.server.flush();
    Producer producer(bench.server.url(), kQueue);
    send_and_cancel(producer, body);  // the first large one of a connection differs
    const double before = bench.server.cpu_us();
    for (std::size_t i = 0; i < kGroup; ++i, ++sent) producer.send(body, later());
    us += bench.server.cpu_us() - before;
  }
  return us / static_cast<double>(sent);
}

// The longest command of one send.
double longest_ms(Bench& bench, Producer& producer, const std::string& body, const SendOptions& options) {
  const std::string before = bench.server.command({"INFO", "commandstats"});
  const Sent sent = producer.send(body, options);
  const double us = longest_us(before, bench.server.command({"INFO", "commandstats"}));
  static_cast<void>(producer.cancel(sent.id));
  return us / 1000;
}

void add_stalls(Bench& bench, const std::string& name, const std::vector<double>& ms) {
  bench.figures.add("stall_ms." + name, percentile(ms, 0.99));
  bench.figures.add("stall_p50_ms." + name, percentile(ms, 0.5));
}

// Three kinds of sends in turn: with a new id, the first one of a connection, and with an id of the caller.
void measure_stalls(Bench& bench, const std::string& body) {
  bench.server.flush();
  Producer producer(bench.server.url(), kQueue);
  send_and_cancel(producer, body);
  std::vector<double> all, new_id, first, own_id;
  while (all.size() < bench.scale.big_sends) {
    new_id.push_back(longest_ms(bench, producer, body, later()));
    Producer other(bench.server.url(), kQueue);
    first.push_back(longest_ms(bench, other, body, later()));
    SendOptions with_id = later();
    with_id.id = store::new_ids(1).front();
    own_id.push_back(longest_ms(bench, producer, body, with_id));
    all.insert(all.end(), {new_id.back(), first.back(), own_id.back()});
  }
  add_stalls(bench, "send_1mib", all);
  add_stalls(bench, "send_1mib_new_id", new_id);
  add_stalls(bench, "send_1mib_first", first);
  add_stalls(bench, "send_1mib_own_id", own_id);
}

void add_waits(Bench& bench, const std::string& name, const std::vector<double>& waits) {
  bench.figures.add("probe_ms." + name + ".p50", percentile(waits, 0.5));
  bench.figures.add("probe_ms." + name + ".p99", percentile(waits, 0.99));
  bench.figures.add("probe_ms." + name + ".max", percentile(waits, 1));
}

// Another client's GET while messages are sent one after the other, and for as long without them.
void measure_probe(Bench& bench, const std::string& body) {
  bench.server.flush();
  Producer producer(bench.server.url(), kQueue);
  send_and_cancel(producer, body);
  const auto start = Clock::now();
  Probe meanwhile(bench.server.socket());
  for (std::size_t i = 0; i < bench.scale.big_sends; ++i) send_and_cancel(producer, body);
  add_waits(bench, "send_1mib", meanwhile.waits());
  const auto took = Clock::now() - start;
  Probe alone(bench.server.socket());
  std::this_thread::sleep_for(took);
  add_waits(bench, "alone", alone.waits());
}

}  // namespace

void big_sends(Bench& bench) {
  const std::string body(kMiB, 'x');
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    bench.progress.step("CPU time");
    bench.figures.add("redis_us.send_1mib", redis_us(bench, body));
    bench.progress.step("longest command");
    measure_stalls(bench, body);
    bench.progress.step("another client");
    measure_probe(bench, body);
  }
  bench.server.flush();
}

}  // namespace bench
