// How evenly partitions divide the work among the masters of a Cluster, what they cost, and what more masters gain.
#include "support/test.h"

#include "support/cluster.h"
#include "support/cores.h"
#include "support/cpu_share.h"

namespace delayqueue {
namespace {

constexpr unsigned kManyPartitions = 32;
constexpr std::size_t kFullCalls = kManyPartitions * 200;  // messages that give each partition a full script call
constexpr int kSpreadRounds = 3;

std::unique_ptr<test::Cluster> cluster_of(std::size_t masters) {
  test::ClusterOptions options;
  options.masters = masters;
  options.replicas = false;
  return std::make_unique<test::Cluster>(options);
}

// Messages that are sent to queues, the same number to each, and handled.
class QueueLoad {
 public:
  // The places of the partitions depend on the name of the queue.
  QueueLoad(test::Cluster& cluster, unsigned partitions)
      : QueueLoad(cluster, std::vector{"orders" + std::to_string(partitions)}, partitions) {}

  QueueLoad(test::Cluster& cluster, std::vector<std::string> queues, unsigned partitions)
      : cluster_(cluster), queues_(std::move(queues)) {
    for (const std::string& queue : queues_) {
      producers_.push_back(std::make_unique<Producer>(cluster.url(), queue));
      if (partitions > 1) QueueAdmin(cluster.url(), queue).set_partitions(partitions);
    }
    send(1, kFullCalls);  // loads the scripts, and makes the connections
    handle(kFullCalls * queues_.size());
  }

  // One queue after the other. Several threads send to each at a time, so that a master has the next messages when it
  // has stored those of one thread.
  void send(std::size_t threads, std::size_t messages_of_each) {
    const std::string body(64, 'x');
    for (const auto& producer : producers_) {
      std::vector<std::future<void>> senders;
      for (std::size_t i = 0; i < threads; ++i) {
        senders.push_back(std::async(
            std::launch::async, [&] { producer->send_batch(std::vector<std::string_view>(messages_of_each, body)); }));
      }
      for (std::future<void>& sender : senders) sender.get();
    }
  }

  void handle(std::size_t messages) {
    std::vector<Subscription> subscriptions;
    for (const std::string& queue : queues_) subscriptions.push_back({queue, Handler(test::ack_all)});
    Consumer consumer(cluster_.url(), std::move(subscriptions), with(&ConsumerOptions::concurrency, 8));
    consumer.start();
    CHECK(test::eventually([&] { return consumer.metrics().stats.acked == messages; }, test::kPatience));
    CHECK(consumer.stop(test::kPatience));
  }

  // The CPU time of each master for so many messages.
  std::vector<double> cpu_of(std::size_t messages) {
    std::vector<double> used = cpu_times();
    send(1, messages / queues_.size());
    handle(messages / queues_.size() * queues_.size());
    const std::vector<double> after = cpu_times();
    for (std::size_t i = 0; i < used.size(); ++i) used[i] = after[i] - used[i];
    return used;
  }

 private:
  std::vector<double> cpu_times() const {
    std::vector<double> all;
    for (std::size_t i = 0; i < cluster_.size(); ++i) all.push_back(test::cpu_seconds(cluster_.node(i).pid()));
    return all;
  }

  test::Cluster& cluster_;
  const std::vector<std::string> queues_;
  std::vector<std::unique_ptr<Producer>> producers_;
};

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST_CASE("spread: 32 partitions on 3, 4 and 6 masters: the busiest one uses at most 1.2 times the mean CPU time") {
  for (const std::size_t count : {3, 4, 6}) {
    CAPTURE(count);
    // At best a master of six has 6 of the 32 partitions, 1.125 times the mean.
    const double most = count == 6 ? 1.2 : 1.15;
    const auto cluster = cluster_of(count);
    QueueLoad load(*cluster, kManyPartitions);
    std::vector<double> busiest;
    double least = 2;
    for (int i = 0; i < kSpreadRounds || (least > most && i < 3 * kSpreadRounds); ++i) {
      const std::vector<double> used = load.cpu_of(8 * kFullCalls);
      busiest.push_back(*std::max_element(used.begin(), used.end()) * static_cast<double>(count) / sum_of(used));
      least = std::min(least, busiest.back());
    }
    MESSAGE(count << " masters: the busiest one used " << least << " to " << median_of(busiest) << " times the mean");
    CHECK(least <= most);
    CHECK(median_of(busiest) <= 1.3);  // other programs run on this machine meanwhile
  }
}

// The goal is 1.1. Part of it is not due to partitions: three masters share the caches of this machine, so any work on
// three of them costs more than on one. A queue on each master shows that part.
TEST_CASE("spread: with 32 partitions a message costs Redis at most 1.6 times the CPU time that it costs with one") {
  constexpr std::size_t kMessages = 10 * kFullCalls;
  const auto cluster = cluster_of(3);
  QueueLoad one(*cluster, 1), three(*cluster, test::queue_of_each_master(*cluster), 1), many(*cluster, kManyPartitions);
  std::vector<double> ratios, of_three, us;
  for (int i = 0; i < kSpreadRounds; ++i) {
    const double of_one = sum_of(one.cpu_of(kMessages));
    of_three.push_back(sum_of(three.cpu_of(kMessages)) / of_one);
    ratios.push_back(sum_of(many.cpu_of(kMessages)) / of_one);
    us.push_back(1e6 * of_one / static_cast<double>(kMessages));
  }
  MESSAGE("a message costs " << median_of(us) << " us with one partition, " << median_of(ratios)
                             << " times that with 32, and " << median_of(of_three)
                             << " times with a queue on each master");
  WARN(median_of(ratios) <= 1.1);
  CHECK(median_of(ratios) <= 1.6);
}

// The goal is 2.7 for both, and a machine with nothing else to do shows more than these bounds, which only tell three
// masters from one.
TEST_CASE("spread: three masters send at least 1.6 times as many messages as one, and handle more") {
  if (!test::has_two_cores()) return;
  constexpr std::size_t kThreads = 12, kOfEach = 2 * kFullCalls;
  const auto cluster = cluster_of(3);
  QueueLoad one(*cluster, 1), many(*cluster, kManyPartitions);
  std::vector<int> processes;
  for (std::size_t i = 0; i < cluster->size(); ++i) processes.push_back(cluster->node(i).pid());
  const test::CpuShare fifth(processes, 0.2);  // so that the masters are the limit, and not the cores of this machine
  std::vector<double> sends, receives;
  for (int i = 0; i < kSpreadRounds; ++i) {
    const double one_sent = 4 * seconds_of([&] { one.send(kThreads, kOfEach / 4); });
    const double one_handled = 4 * seconds_of([&] { one.handle(kThreads * kOfEach / 4); });
    sends.push_back(one_sent / seconds_of([&] { many.send(kThreads, kOfEach); }));
    receives.push_back(one_handled / seconds_of([&] { many.handle(kThreads * kOfEach); }));
  }
  MESSAGE("three masters send " << median_of(sends) << " and handle " << median_of(receives)
                                << " times as many messages as one");
  WARN(median_of(sends) >= 2.7);
  WARN(median_of(receives) >= 2.7);
  CHECK(median_of(sends) >= 1.6);
  CHECK(median_of(receives) >= 1.1);
}

}  // namespace
}  // namespace delayqueue
