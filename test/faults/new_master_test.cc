// A master that joins a Cluster while a partitioned queue is in use, and gets some of its slots; and one that leaves.
#include "support/test.h"

#include <signal.h>

#include "store/keys.h"
#include "store/record.h"
#include "support/cluster.h"
#include "support/process.h"

namespace delayqueue {
namespace {

constexpr unsigned kCount = 16;

// Threads that send, one consumer, and what became of each message.
class Use {
 public:
  Use(const std::string& url, std::string queue)
      : name_crc_(store::name_crc(queue, "dp")),
        producer_(url, queue),
        consumer_(
            url, queue, [this](const Message& message) { return note(message.id()); }, options()) {
    consumer_.start();
    for (int i = 0; i < 3; ++i) threads_.emplace_back([this] { send(); });
  }
  ~Use() { stop_sending(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  void stop_sending() {
    stopped_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  bool stop() { return consumer_.stop(); }

  std::set<std::string> sent() const {
    const std::lock_guard lock(mutex_);
    return sent_;
  }
  std::map<std::string, int> deliveries() const {
    const std::lock_guard lock(mutex_);
    return deliveries_;
  }
  int failed_sends() const { return failed_sends_; }
  std::string refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

  // Deliveries of messages whose ids name this partition.
  std::size_t delivered_from(unsigned partition) const {
    const std::lock_guard lock(mutex_);
    return delivered_from_.at(partition);
  }

 private:
  static ConsumerOptions options() { return with(&ConsumerOptions::logger, no_log()); }

  Verdict note(const std::string& id) {
    const std::lock_guard lock(mutex_);
    ++deliveries_[id];
    ++delivered_from_.at(store::partition_of(id, name_crc_).value());
    return ack();
  }

  void send() {
    while (!stopped_) {
      SendOptions options;
      for (bool done = false; !done; std::this_thread::sleep_for(1ms)) {
        try {
          const std::string id = producer_.send("x", options).id;
          const std::lock_guard lock(mutex_);
          sent_.insert(id);
          done = true;
        } catch (const ConnectionError& e) {
          ++failed_sends_;
          if (!e.ids().empty()) options.id = e.ids().front();
          if (stopped_) return;
        } catch (const std::exception& e) {
          const std::lock_guard lock(mutex_);
          refused_ = e.what();
          return;
        }
      }
    }
  }

  const std::uint16_t name_crc_;
  std::atomic<bool> stopped_{false};
  std::atomic<int> failed_sends_{0};
  mutable std::mutex mutex_;  // guards the members down to refused_
  std::set<std::string> sent_;
  std::map<std::string, int> deliveries_;
  std::array<std::size_t, kCount> delivered_from_{};
  std::string refused_;  // another error of a send
  Producer producer_;
  Consumer consumer_;
  std::vector<std::thread> threads_;
};

void move_slot(test::Cluster& cluster, int slot, test::Node& to) {
  cluster.begin_migration(slot, to);
  while (cluster.migrate_keys(slot, 5) > 0) std::this_thread::sleep_for(2ms);
  cluster.finish_migration(slot);
}

// What `redis-cli --cluster del-node` does: the node runs on, and serves no slot.
void remove(test::Cluster& cluster, test::Node& node) {
  const std::string id = node.cmd({"CLUSTER", "MYID"}).text;
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    if (&cluster.node(i) != &node) REQUIRE(cluster.node(i).cmd({"CLUSTER", "FORGET", id}) == "OK");
  }
  REQUIRE(node.cmd({"CLUSTER", "RESET"}) == "OK");
}

TEST_CASE("cluster partitions: the load follows slots to a master that joins, without a restart, and none is lost") {
  test::ClusterOptions options;
  options.replicas = false;
  test::Cluster cluster(options);
  const std::string name = test::fresh_queue();
  QueueAdmin(cluster.url(), name).set_partitions(kCount);
  const auto base = [&](unsigned partition) { return store::make_keys(name, {"dp", true, false}, partition).base; };
  Use use(cluster.url(), name);
  const auto all_used = [&] {
    for (unsigned partition = 0; partition < kCount; ++partition) {
      if (use.delivered_from(partition) == 0) return false;
    }
    return true;
  };
  REQUIRE(eventually(all_used, kPatience));

  test::Node& joined = cluster.add_master();
  const std::vector<unsigned> moved = {2, 5, 6, 11};
  for (const unsigned partition : moved) move_slot(cluster, test::slot_of(base(partition)), joined);
  for (const unsigned partition : moved) {
    CHECK(&cluster.owner(base(partition)) == &joined);
    const std::size_t before = use.delivered_from(partition);
    CHECK(eventually([&] { return use.delivered_from(partition) > before + 5; }, kPatience));
  }

  use.stop_sending();
  const std::set<std::string> sent = use.sent();
  const auto missing = [&] {
    std::size_t count = 0;
    const auto deliveries = use.deliveries();
    for (const std::string& id : sent) count += deliveries.count(id) == 0 ? 1 : 0;
    return count;
  };
  CHECK(eventually([&] { return missing() == 0; }, kPatience));
  CHECK(use.stop());
  CHECK(use.refused() == "");
  const Counts counts = Inspector(cluster.url(), name).counts();
  CHECK(counts.pending + counts.ready + counts.unack + counts.retry + counts.dead == 0);
  MESSAGE(sent.size() << " messages, " << use.failed_sends() << " sends failed at first");
}

TEST_CASE("cluster: clients that slept while their master left the Cluster find the new one") {
  test::ClusterOptions options;
  options.replicas = false;
  options.node.arguments = {"--cluster-require-full-coverage", "no"};
  test::Cluster cluster(options);
  test::Node& leaves = cluster.add_master();
  const std::string name = test::fresh_queue();
  const std::string base = store::make_keys(name, {"dp", true, false}).base;
  const int slot = test::slot_of(base);
  test::Node& stays = cluster.owner_of(slot);
  move_slot(cluster, slot, leaves);
  move_slot(cluster, (slot + 1) % 16'384, leaves);  // a master without any slot would become a replica
  Producer producer(cluster.url(), name);
  producer.send("first");
  test::Process worker({"consume", cluster.url(), name, "1", "60000", "1000"});
  REQUIRE(eventually([&] { return worker.said("end").size() == 1; }, kPatience));
  worker.kill(SIGSTOP);
  move_slot(cluster, slot, stays);
  remove(cluster, leaves);

  const auto sends = [&] {
    try {
      producer.send("second");
      return true;
    } catch (const ConnectionError&) {
      return false;
    }
  };
  CHECK(eventually(sends, kPatience));
  CHECK(stays.cmd({"LLEN", base + ":ready"}) == 1);
  worker.kill(SIGCONT);
  CHECK(eventually([&] { return worker.said("end").size() == 2; }, kPatience));
}

}  // namespace
}  // namespace delayqueue
