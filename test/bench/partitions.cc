// A queue with partitions on several masters, each with a share of a core: how many more messages they send and handle
// than one of them, and beside a queue on each of them; how evenly they are used, and what a message costs.

#include "bench/drain.h"
#include "bench/part.h"
#include "support/cluster.h"
#include "support/cpu_share.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::chrono::minutes kPatience{3};
constexpr double kCores = 0.6;       // of all masters together, so that the cores of this machine are not the limit
constexpr std::size_t kThreads = 5;  // that send, for each master
constexpr unsigned kForEach = 8;     // partitions for each master, at least

unsigned partitions_for(std::size_t masters) {
  unsigned partitions = 1;
  while (partitions < kForEach * masters) partitions *= 2;
  return partitions;
}

test::ClusterOptions without_replicas(std::size_t masters) {
  test::ClusterOptions options;
  options.masters = masters;
  options.replicas = false;
  return options;
}

std::vector<int> processes_of(test::Cluster& cluster) {
  std::vector<int> processes;
  for (std::size_t i = 0; i < cluster.size(); ++i) processes.push_back(cluster.node(i).pid());
  return processes;
}

std::vector<double> cpu_of(const std::vector<int>& processes) {
  std::vector<double> times;
  for (const int process : processes) times.push_back(test::cpu_seconds(process));
  return times;
}

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// Queues whose messages are sent and handled together, and the number of masters that have them.
struct Work {
  std::vector<std::string> queues;
  unsigned partitions;
  std::size_t masters;
};

// Several threads for each master, so that it has the next messages when it has stored those of one thread.
void send_from_threads(std::vector<std::unique_ptr<Producer>>& producers, std::size_t threads,
                       std::size_t messages_of_each) {
  const std::string body = payload();
  std::vector<std::future<void>> senders;
  for (std::size_t i = 0; i < threads; ++i) {
    senders.push_back(std::async(std::launch::async, [&, i] {
      producers[i % producers.size()]->send_batch(std::vector<std::string_view>(messages_of_each, body));
    }));
  }
  for (std::future<void>& sender : senders) sender.get();
}

// held: each master has its share of a core. Without that, the cost of a message has no part of stopping the masters,
// which empties their caches.
enum class Masters { held, free };

// Sends and handles messages. Returns the CPU time of each master.
std::vector<double> measure(Bench& bench, test::Cluster& cluster, const Work& work, const std::string& name,
                            Masters state) {
  bench.progress.step(name);
  std::vector<std::unique_ptr<Producer>> producers;
  for (const std::string& queue : work.queues) {
    if (work.partitions > 1) QueueAdmin(cluster.url(), queue).set_partitions(work.partitions);
    producers.push_back(std::make_unique<Producer>(cluster.url(), queue));
    for (unsigned i = 0; i < work.partitions; ++i) producers.back()->send(payload());  // makes the connections
  }
  const std::size_t first = work.queues.size() * work.partitions;
  const std::size_t threads = work.masters * kThreads;
  const std::size_t messages_of_each = std::max<std::size_t>(1, bench.scale.partitioned / kThreads);
  const std::size_t messages = threads * messages_of_each;

  const std::vector<int> processes = processes_of(cluster);
  std::vector<double> used = cpu_of(processes);
  std::optional<test::CpuShare> share;
  if (state == Masters::held) share.emplace(processes, kCores / static_cast<double>(cluster.size()));
  const auto start = Clock::now();
  send_from_threads(producers, threads, messages_of_each);
  const double send_time = since(start);
  Drain drain(cluster.url(), work.queues, 8);
  if (!drain.reaches(messages + first, Clock::now() + kPatience, bench.progress))
    throw std::runtime_error("partitions: not all messages were handled in time");
  drain.stop();
  const std::vector<double> after = cpu_of(processes);
  for (std::size_t i = 0; i < used.size(); ++i) used[i] = after[i] - used[i];
  // The other masters are idle, but not without work: they exchange messages with each other.
  const double cpu = work.masters == 1 ? *std::max_element(used.begin(), used.end()) : sum_of(used);
  if (state == Masters::free) {
    bench.figures.add(name + ".redis_us", 1e6 * cpu / static_cast<double>(messages));
  } else {
    bench.figures.add(name + ".send", static_cast<double>(messages) / send_time);
    bench.figures.add(name + ".receive", static_cast<double>(messages + first) / drain.took());
  }
  return used;
}

void measure_masters(Bench& bench, std::size_t masters) {
  const std::string name = "partitions." + std::to_string(masters);
  bench.progress.step(name);
  test::Cluster cluster(without_replicas(masters));
  const unsigned partitions = partitions_for(masters);
  const Work one{{"bench"}, 1, 1};
  const Work apart{test::queue_of_each_master(cluster), 1, masters};
  const Work all{{"bench" + std::to_string(partitions)}, partitions, masters};
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const Masters state : {Masters::free, Masters::held}) {
      measure(bench, cluster, one, name + ".one_master", state);
      measure(bench, cluster, apart, name + ".queue_on_each", state);
      const std::vector<double> used = measure(bench, cluster, all, name + ".all_masters", state);
      if (state == Masters::free) continue;
      const double most = *std::max_element(used.begin(), used.end());
      bench.figures.add(name + ".busiest", most * static_cast<double>(masters) / sum_of(used));
    }
  }
  for (const std::string figure : {"send", "receive", "redis_us"}) {
    const std::string ratio = "ratio.partitions_" + std::to_string(masters) + '_' + figure;
    bench.figures.ratio(ratio, name + ".all_masters." + figure, name + ".one_master." + figure);
    bench.figures.ratio(ratio + "_queue_on_each", name + ".all_masters." + figure, name + ".queue_on_each." + figure);
  }
}

}  // namespace

void partitions(Bench& bench) {
  lone_messages(bench);
  for (const std::size_t masters : {3, 6, 12}) measure_masters(bench, masters);
}

}  // namespace bench
