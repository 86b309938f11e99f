// One consumer of many queues: its rate, the shares of queues with weights, the lateness beside a flooded queue, and
// what it costs while it is idle.

#include "bench/jobs.h"
#include "bench/monitor.h"
#include "bench/part.h"
#include "bench/schedule.h"

namespace bench {
namespace {

using namespace delayqueue;

Verdict ack_at_once(const Message& /*message*/) { return ack(); }

Verdict ack_after_1ms(const Message& /*message*/) {
  std::this_thread::sleep_for(milliseconds(1));
  return ack();
}

std::vector<Subscription> subscriptions(std::size_t queues) {
  std::vector<Subscription> all;
  for (std::size_t i = 0; i < queues; ++i) all.push_back({kQueue + std::to_string(i), Handler(ack_at_once)});
  return all;
}

ConsumerOptions with_workers(std::size_t workers) {
  ConsumerOptions options;
  options.concurrency = workers;
  return options;
}

void fill(Bench& bench, const std::string& queue, std::size_t messages) {
  const std::string body = payload();
  Producer(bench.server.url(), queue).send_batch(std::vector<std::string_view>(messages, body));
}

// Messages that are due are divided among the first `filled` of the queues.
void measure_rate(Bench& bench, const std::string& name, std::size_t queues, std::size_t filled) {
  bench.progress.step(name);
  bench.server.flush();
  const std::vector<Subscription> all = subscriptions(queues);
  const std::size_t each = std::max<std::size_t>(1, bench.scale.variant / filled);
  for (std::size_t i = 0; i < filled; ++i) fill(bench, all[i].queue.str(), each);
  const auto start = Clock::now();
  Consumer consumer(bench.server.url(), all, with_workers(8));
  consumer.start();
  await([&] { return consumer.metrics().stats.acked >= each * filled; });
  bench.figures.add(name + ".receive", static_cast<double>(each * filled) / since(start));
}

// Queues with the weights 6, 3 and 1 have more messages than are counted. The first takes are left out: they do not
// know yet which queues have messages.
void measure_shares(Bench& bench) {
  bench.progress.step("many_queues.share");
  bench.server.flush();
  const std::array<unsigned, 3> weights{6, 3, 1};
  const std::size_t counted = bench.scale.variant, skipped = counted / 10;
  std::atomic<std::size_t> handled{0};
  std::array<std::atomic<std::size_t>, 3> own{};
  std::vector<Subscription> all;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    SubscriptionOptions options;
    options.weight = weights[i];
    const auto count = [&, i](const Message&) {
      const std::size_t before = handled++;
      if (before >= skipped && before < skipped + counted) ++own[i];
      return ack();
    };
    all.push_back({kQueue + std::to_string(i), Handler(count), options});
    fill(bench, all.back().queue.str(), counted * weights[i] / 6);
  }
  Consumer consumer(bench.server.url(), all, with_workers(8));
  consumer.start();
  await([&] { return handled >= skipped + counted; });
  for (std::size_t i = 0; i < weights.size(); ++i) {
    bench.figures.add("many_queues.share." + std::to_string(weights[i]),
                      static_cast<double>(own[i]) / static_cast<double>(counted));
  }
}

enum class Served { together, apart };  // by one Consumer, or by one each

// The lateness of a queue of which one message is due each millisecond, beside a queue with `flood` messages for each
// of these milliseconds, which are more than can be handled.
void measure_quiet(Bench& bench, const std::string& name, const Handler& handler, std::size_t flood,
                   Served served = Served::together) {
  bench.progress.step(name);
  bench.server.flush();
  constexpr milliseconds kBefore{200};  // the flood begins before the first message is due
  const std::size_t messages = std::max<std::size_t>(20, bench.scale.late_messages / 10);
  const std::size_t flooding = flood * (messages + static_cast<std::size_t>(kBefore.count()));
  const std::string flooded = kQueue + "-flooded";
  if (flooding > 0) fill(bench, flooded, flooding);
  LatenessLog log(messages);
  const Handler record = [&](const Message& message) { return log.record(message); };
  std::vector<Subscription> quiet{{kQueue, record}}, others{{flooded, handler}};
  if (served == Served::together) quiet.push_back(others.front());
  Consumer consumer(bench.server.url(), quiet, with_workers(8));
  std::optional<Consumer> other;
  if (served == Served::apart) other.emplace(bench.server.url(), others, with_workers(8));
  const DueTimes due = send_schedule(bench, {messages});
  std::this_thread::sleep_until(due.first - kBefore);
  consumer.start();
  if (other) other->start();
  const auto acked = [](const Consumer& of, const std::string& queue) {
    for (const ConsumerQueueMetrics& one : of.metrics().queues) {
      if (one.queue == queue) return one.stats.acked;
    }
    return std::uint64_t{0};
  };
  await([&] { return acked(consumer, kQueue) >= messages; });
  const std::string p50 = name + ".lateness_ms.p50", p99 = name + ".lateness_ms.p99";
  if (flooding > 0 && acked(other ? *other : consumer, flooded) >= flooding) {
    return bench.progress.left_out(p50 + ' ' + p99, "the flood was handled before the other messages");
  }
  bench.figures.add(p50, percentile(log.late_ms(), 0.5));
  bench.figures.add(p99, percentile(log.late_ms(), 0.99));
}

void measure_idle(Bench& bench) {
  bench.progress.step("many_queues.idle");
  bench.server.flush();
  Consumer consumer(bench.server.url(), subscriptions(100), with_workers(8));
  consumer.start();
  std::this_thread::sleep_for(bench.scale.many_queues_calm);
  Monitor monitor(bench.server);
  const double cpu = cpu_time();
  const auto start = Clock::now();
  std::this_thread::sleep_for(bench.scale.idle);
  bench.figures.add("many_queues.idle_cpu_percent", 100 * (cpu_time() - cpu) / since(start));
  bench.figures.add("many_queues.idle_requests_per_s", static_cast<double>(monitor.requests()) / since(start));
}

}  // namespace

void many_queues(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const std::size_t queues : {1, 10, 100}) {
      measure_rate(bench, "many_queues." + std::to_string(queues), queues, queues);
    }
    measure_rate(bench, "many_queues.one_of_100", 100, 1);
    measure_shares(bench);
    measure_quiet(bench, "many_queues.quiet.alone", ack_at_once, 0);
    measure_quiet(bench, "many_queues.quiet.flooded", ack_at_once, 400);
    measure_quiet(bench, "many_queues.quiet.flooded_apart", ack_at_once, 400, Served::apart);
    measure_quiet(bench, "many_queues.quiet.flooded_1ms", ack_after_1ms, 10);
  }
  measure_idle(bench);  // once: it takes long, and is the same each time
  bench.figures.ratio("ratio.many_queues_one_of_100", "many_queues.one_of_100.receive", "many_queues.1.receive");
}

}  // namespace bench
