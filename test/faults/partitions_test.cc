// Producers of a partitioned queue while masters of a Cluster come and go.
#include "support/test.h"

#include "store/keys.h"
#include "store/record.h"
#include "support/cluster.h"
#include "support/limits.h"

using namespace delayqueue;
using test::Node;

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kPartitions = 16;

// A Cluster that goes on without some of its slots, and keeps its data when a node is killed.
test::Cluster& incomplete() {
  static test::Cluster cluster([] {
    test::ClusterOptions options;
    options.node.arguments = {
        "--cluster-require-full-coverage", "no", "--appendonly", "yes", "--appendfsync", "always"};
    return options;
  }());
  return cluster;
}

// A queue with 16 partitions in that Cluster.
class ClusterQueue {
 public:
  ClusterQueue() { QueueAdmin(incomplete().url(), name).set_partitions(kPartitions); }

  std::string base(unsigned partition) const { return store::make_keys(name, {"dp", true, false}, partition).base; }
  Node& owner(unsigned partition) const { return incomplete().owner(base(partition)); }
  unsigned named_by(const std::string& id) const {
    return store::partition_of(id, store::name_crc(name, "dp")).value_or(0);
  }

  std::set<unsigned> partitions_of(const Node& node) const {
    std::set<unsigned> found;
    for (unsigned partition = 0; partition < kPartitions; ++partition) {
      if (&owner(partition) == &node) found.insert(partition);
    }
    return found;
  }

  std::uint64_t ready(const std::set<unsigned>& without = {}) const {
    std::uint64_t all = 0;
    for (unsigned partition = 0; partition < kPartitions; ++partition) {
      if (without.count(partition) > 0) continue;
      all += static_cast<std::uint64_t>(owner(partition).cmd({"LLEN", base(partition) + ":ready"}).integer);
    }
    return all;
  }

  const std::string name = test::fresh_queue();
};

Client quick_to_give_up(milliseconds command_timeout = 1s) {
  return {incomplete().url(), with(&ClientOptions::command_timeout, command_timeout)};
}

const ProducerOptions kQuiet = with(&ProducerOptions::logger, no_log());

// Threads that send through one Producer until stop().
class Load {
 public:
  struct Result {
    std::string id;
    bool failed = false;
    Clock::time_point begun{}, ended{};
  };

  explicit Load(const ClusterQueue& queue, milliseconds command_timeout = 1s)
      : Load(queue, quick_to_give_up(command_timeout), kQuiet) {}
  Load(const ClusterQueue& queue, const Client& client, const ProducerOptions& options)
      : producer(client, queue.name, options) {
    for (int i = 0; i < 4; ++i) add_thread();
  }
  ~Load() { stop(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  void add_thread() {
    threads_.emplace_back([this] { run(); });
  }

  // Stops, and returns all results.
  const std::vector<Result>& stop() {
    stopped_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return results_;
  }

  // Whether a message that was sent after `since` is in one of these partitions.
  bool has_used(const ClusterQueue& queue, const std::set<unsigned>& partitions, Clock::time_point since) const {
    const std::lock_guard lock(mutex_);
    return std::any_of(results_.begin(), results_.end(), [&](const Result& one) {
      return !one.failed && one.begun >= since && partitions.count(queue.named_by(one.id)) > 0;
    });
  }

  // Of a message that was sent to one of these partitions.
  std::string any_id(const ClusterQueue& queue, const std::set<unsigned>& partitions) const {
    const std::lock_guard lock(mutex_);
    for (const Result& one : results_) {
      if (!one.failed && partitions.count(queue.named_by(one.id)) > 0) return one.id;
    }
    return "";
  }

  std::size_t succeeded(Clock::time_point begun, Clock::time_point ended) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(results_.begin(), results_.end(), [&](const Result& one) {
      return !one.failed && one.begun >= begun && one.ended <= ended;
    }));
  }

  Producer producer;

 private:
  void run() {
    while (!stopped_) {
      Result result;
      result.begun = Clock::now();
      try {
        result.id = producer.send("x").id;
      } catch (const ConnectionError& e) {
        result.failed = true;
        if (!e.ids().empty()) result.id = e.ids().front();
      }
      result.ended = Clock::now();
      {
        const std::lock_guard lock(mutex_);
        results_.push_back(result);
      }
      std::this_thread::sleep_for(1ms);
    }
  }

  std::atomic<bool> stopped_{false};
  mutable std::mutex mutex_;  // guards the results
  std::vector<Result> results_;
  std::vector<std::thread> threads_;
};

// Repeats the sends that failed. Then each message must be in the queue, once.
void check_all_stored(const ClusterQueue& queue, Load& load) {
  const std::vector<Load::Result>& results = load.stop();
  std::set<std::string> ids;
  std::size_t repeated = 0;
  for (const Load::Result& one : results) {
    REQUIRE(one.id.size() == 36);
    ids.insert(one.id);
    if (!one.failed) continue;
    const Sent again = load.producer.send("x", test::named(one.id));
    CHECK(again.id == one.id);
    ++repeated;
  }
  CHECK(ids.size() == results.size());
  CHECK(queue.ready() == results.size());
  MESSAGE(results.size() << " messages, " << repeated << " repeated, " << load.producer.metrics().moved << " moved");
}

// The partitions of a master that has none of partition 0 and 1.
Node& other_than_homes(const ClusterQueue& queue) {
  for (unsigned partition = 2; partition < kPartitions; ++partition) {
    Node& node = queue.owner(partition);
    if (&node != &queue.owner(0) && &node != &queue.owner(1)) return node;
  }
  throw std::runtime_error("partitions 0 and 1 are on all masters");
}

}  // namespace

TEST_CASE("cluster partitions: producers use those of all masters") {
  ClusterQueue queue;
  Producer producer(quick_to_give_up(), queue.name, kQuiet);
  std::set<unsigned> named;
  std::set<const Node*> masters;
  for (unsigned i = 0; i < 4 * kPartitions; ++i) named.insert(queue.named_by(producer.send("x").id));
  for (const unsigned partition : named) masters.insert(&queue.owner(partition));
  CHECK(named.size() == kPartitions);
  CHECK(masters.size() == 3);
  CHECK(producer.metrics().moved == 0);
  for (unsigned partition = 0; partition < kPartitions; ++partition) {
    CHECK(queue.owner(partition).cmd({"LLEN", queue.base(partition) + ":ready"}) == 4);
  }
  CHECK(producer.send_batch(test::numbers(kPartitions * 200)).size() == kPartitions * 200);
  CHECK(queue.ready() == 4 * kPartitions + kPartitions * 200);
}

TEST_CASE("cluster partitions: a large batch is sent to all masters at the same time, and waits for no other one") {
  ClusterQueue queue;
  Node& victim = other_than_homes(queue);
  Node& replica = incomplete().replica_of(victim);
  const std::set<unsigned> gone = queue.partitions_of(victim);
  Producer producer(quick_to_give_up(60s), queue.name, kQuiet);
  for (unsigned i = 0; i < kPartitions; ++i) producer.send("connects");
  const std::uint64_t others = (1 + 200) * (kPartitions - gone.size());
  replica.kill();
  victim.freeze();
  auto sent = std::async(std::launch::async, [&] { return producer.send_batch(test::numbers(kPartitions * 200)); });
  CHECK(eventually([&] { return queue.ready(gone) == others; }, kPatience));
  CHECK(sent.wait_for(0s) == std::future_status::timeout);
  victim.thaw();
  replica.restart();
  incomplete().wait_ok();
  std::set<std::string> ids;
  for (const Sent& one : sent.get()) ids.insert(one.id);
  CHECK(ids.size() == kPartitions * 200);
  CHECK(queue.ready() == kPartitions + kPartitions * 200);
}

TEST_CASE("cluster partitions: of several large batches one has threads") {
  ClusterQueue queue;
  Node& victim = other_than_homes(queue);
  Node& replica = incomplete().replica_of(victim);
  Producer producer(quick_to_give_up(60s), queue.name, kQuiet);
  for (unsigned i = 0; i < kPartitions; ++i) producer.send("connects");
  replica.kill();
  victim.freeze();  // so that the calls take long
  const std::size_t before = test::threads_of_this_process();
  std::vector<std::future<std::vector<Sent>>> calls;
  for (int i = 0; i < 8; ++i) {
    calls.push_back(
        std::async(std::launch::async, [&] { return producer.send_batch(test::numbers(kPartitions * 200)); }));
  }
  std::size_t most = 0;
  for (int i = 0; i < 50; ++i) {
    most = std::max(most, test::threads_of_this_process());
    std::this_thread::sleep_for(10ms);
  }
  CHECK(most <= before + calls.size() + 2 + 1);  // those of one call, and one that probes the master
  victim.thaw();
  replica.restart();
  incomplete().wait_ok();
  for (auto& call : calls) CHECK(call.get().size() == kPartitions * 200);
  CHECK(queue.ready() == kPartitions + calls.size() * kPartitions * 200);
}

#ifdef __GLIBC__
TEST_CASE("cluster partitions: a large batch is stored if the system refuses the threads that would send it") {
  ClusterQueue queue;
  Producer producer(quick_to_give_up(), queue.name, kQuiet);
  for (unsigned i = 0; i < kPartitions; ++i) producer.send("connects");
  {
    const test::NoThreads none;
    CHECK(producer.send_batch(test::numbers(kPartitions * 200)).size() == kPartitions * 200);
  }
  CHECK(queue.ready() == kPartitions + kPartitions * 200);
}
#endif

TEST_CASE(
    "cluster partitions: a master is killed: unwritten messages go to others at once, the rest is in doubt, once") {
  ClusterQueue queue;
  Node& victim = other_than_homes(queue);
  const std::set<unsigned> gone = queue.partitions_of(victim);
  Node& replica = incomplete().replica_of(victim);
  Load load(queue);
  REQUIRE(eventually([&] { return load.has_used(queue, gone, {}); }, kPatience));
  replica.kill();
  const auto killed = Clock::now();
  victim.kill();
  const auto dead = Clock::now();
  std::this_thread::sleep_for(4s);
  const auto back = Clock::now();
  CHECK(load.succeeded(dead + 200ms, back) > 100);
  CHECK_FALSE(load.has_used(queue, gone, dead));
  victim.restart();
  replica.restart();
  incomplete().wait_ok();
  const auto ready = Clock::now();
  CHECK(eventually([&] { return load.has_used(queue, gone, ready); }, kPatience));
  CHECK(load.producer.metrics().moved > 0);
  check_all_stored(queue, load);
  std::size_t failed = 0;
  for (const Load::Result& one : load.stop()) {
    if (!one.failed || one.begun >= back) continue;
    ++failed;
    CHECK(one.begun <= dead + 1s);
    CHECK(one.ended >= killed);
  }
  CHECK(failed <= 8);
}

TEST_CASE(
    "cluster partitions: a master is frozen: sends in flight fail after one command_timeout, others wait for none") {
  constexpr auto kAnswerTimeout = 4s;
  ClusterQueue queue;
  Node& victim = other_than_homes(queue);
  const std::set<unsigned> gone = queue.partitions_of(victim);
  Node& replica = incomplete().replica_of(victim);
  Load load(queue, kAnswerTimeout);
  // All of them: the first use of a partition begins with reads, after which nothing is in doubt.
  const auto has_used = [&](unsigned partition) { return load.has_used(queue, {partition}, {}); };
  REQUIRE(eventually([&] { return std::all_of(gone.begin(), gone.end(), has_used); }, kPatience));
  replica.kill();
  victim.freeze();
  const auto frozen = Clock::now();
  std::this_thread::sleep_for(200ms);
  load.add_thread();  // the others may all have had a send in flight
  // What was in flight may have been a read: nothing is in doubt after it.
  CHECK_THROWS_AS(load.producer.send("x", test::named(load.any_id(queue, gone))), ConnectionError);
  std::this_thread::sleep_until(frozen + 2 * kAnswerTimeout + 1s);
  const auto thawed = Clock::now();
  victim.thaw();
  CHECK(load.succeeded(frozen + 200ms, frozen + 900ms) > 20);  // before the sends in flight have failed
  CHECK(eventually([&] { return load.has_used(queue, gone, thawed); }, kPatience));
  replica.restart();
  incomplete().wait_ok();
  check_all_stored(queue, load);
  std::size_t failed = 0;
  for (const Load::Result& one : load.stop()) {
    if (!one.failed || one.begun >= thawed) continue;
    if (gone.count(queue.named_by(one.id)) == 0) continue;  // another master was late on a busy machine
    ++failed;
    CHECK(one.ended - one.begun < kAnswerTimeout + 3s);  // a busy machine is late; a second timeout would take longer
    // A partition comes back after a probe, and never by trying a user's send: so no later one has failed.
    CHECK(one.begun < frozen + kAnswerTimeout);
  }
  CHECK(failed <= 5);  // one for each thread
}

TEST_CASE("cluster partitions: a master is frozen: of the messages of send_async only those of one partition fail") {
  ClusterQueue queue;
  Node& victim = other_than_homes(queue);
  Node& replica = incomplete().replica_of(victim);
  Producer producer(quick_to_give_up(), queue.name, kQuiet);
  for (unsigned i = 0; i < kPartitions; ++i) producer.send("connects");
  replica.kill();
  victim.freeze();
  std::vector<std::future<Sent>> futures;
  for (int i = 0; i < 4'000; ++i) futures.push_back(producer.send_async("x"));
  std::size_t failed = 0;
  std::vector<std::string> in_doubt;
  for (std::future<Sent>& future : futures) {
    try {
      future.get();
    } catch (const ConnectionError& e) {
      in_doubt.insert(in_doubt.end(), e.ids().begin(), e.ids().end());
      ++failed;
    }
  }
  victim.thaw();
  replica.restart();
  incomplete().wait_ok();
  CHECK(failed <= 200);  // the others were not written yet when these had failed
  CHECK(in_doubt.size() == failed);
  for (const std::string& id : in_doubt) producer.send("x", test::named(id));
  CHECK(queue.ready() == kPartitions + futures.size());
}

TEST_CASE("cluster partitions: a server that is away for long fails no send_async to one that is back soon") {
  ClusterQueue queue;
  Node& victim = other_than_homes(queue);
  Node& other = queue.owner(0);
  Node& replica = incomplete().replica_of(victim);
  ProducerOptions options = kQuiet;
  options.send_timeout = 3s;
  Producer producer(quick_to_give_up(), queue.name, options);
  std::map<const Node*, std::string> ids;
  while (ids.size() < 3) {
    const std::string id = producer.send("x").id;
    ids[&queue.owner(queue.named_by(id))] = id;
  }
  replica.kill();
  victim.freeze();
  CHECK_THROWS_AS(producer.send("x", test::named(ids.at(&victim))), ConnectionError);
  // A busy machine may be too late.
  const auto succeeds = [&] {
    std::promise<void> all_wait;
    producer.send_async("x", test::named(ids.at(&other)), [&](const AsyncSent&) { all_wait.get_future().wait(); });
    auto to_victim = producer.send_async("x", test::named(ids.at(&victim)));
    auto to_other = producer.send_async("x", test::named(ids.at(&other)));
    other.freeze();
    all_wait.set_value();  // both are in one batch
    std::this_thread::sleep_for(1200ms);
    other.thaw();
    CHECK_THROWS_AS(to_victim.get(), ConnectionError);
    try {
      to_other.get();
    } catch (const ConnectionError&) {
      return false;
    }
    return true;
  };
  bool succeeded = false;
  for (int i = 0; i < 5 && !succeeded; ++i) succeeded = succeeds();
  CHECK(succeeded);
  victim.thaw();
  replica.restart();
  incomplete().wait_ok();
}

TEST_CASE("cluster partitions: after a failover the new master gets messages, without a restart") {
  ClusterQueue queue;
  Node& victim = other_than_homes(queue);
  const std::set<unsigned> gone = queue.partitions_of(victim);
  incomplete().wait_calm(victim);
  Load load(queue);
  REQUIRE(eventually([&] { return load.has_used(queue, gone, {}); }, kPatience));
  victim.kill();
  const auto dead = Clock::now();
  CHECK(eventually([&] { return load.has_used(queue, gone, dead); }, kPatience));
  load.stop();
  victim.restart();
  incomplete().wait_ok();
}

TEST_CASE(
    "cluster partitions: a producer starts without partition 0 if partition 1 tells; other ids need partition 0") {
  ClusterQueue queue;
  Producer(quick_to_give_up(), queue.name, kQuiet).send("x");
  const std::string mine = "12345678-abcd-4ef0-8123-456789abcdef";
  const std::string third = store::new_ids(1, {store::name_crc(queue.name, "dp"), 3}).front();
  const std::string beyond = store::new_ids(1, {store::name_crc(queue.name, "dp"), 200}).front();
  Node& home = queue.owner(0);
  REQUIRE(&queue.owner(1) != &home);
  Node& replica = incomplete().replica_of(home);
  const std::set<unsigned> gone = queue.partitions_of(home);
  replica.kill();
  home.kill();
  Producer producer(quick_to_give_up(), queue.name, kQuiet);
  std::set<unsigned> named;
  CHECK(eventually(
      [&] {
        try {
          for (int i = 0; i < 50; ++i) named.insert(queue.named_by(producer.send("x").id));
          return true;
        } catch (const ConnectionError&) {  // the rest of the Cluster may not have noticed yet
          return false;
        }
      },
      kPatience));
  CHECK(named.size() == kPartitions - gone.size());
  for (const unsigned partition : gone) CHECK(named.count(partition) == 0);

  // Calls by id: the partition that the id names answers, or they fail; a message is never reported as unknown.
  if (gone.count(3) == 0) CHECK(producer.cancel(third) == State::unknown);
  CHECK(test::thrown([&] { return producer.cancel(mine); }).rfind("ConnectionError: ", 0) == 0);
  CHECK(test::thrown([&] { return producer.cancel(beyond); }).rfind("ConnectionError: ", 0) == 0);
  try {
    producer.send("mine", test::named(mine));
    FAIL("partition 0 is away");
  } catch (const ConnectionError& e) {
    CHECK(e.ids() == std::vector<std::string>{mine});
  }
  home.restart();
  replica.restart();
  incomplete().wait_ok();
  CHECK(eventually(
      [&] {
        try {
          return producer.send("mine", test::named(mine)).id == mine;
        } catch (const ConnectionError&) {
          return false;
        }
      },
      kPatience));
  CHECK(producer.cancel(mine) == State::ready);
  CHECK(producer.cancel(beyond) == State::unknown);
}

void move_a_slot(const ProducerOptions& options) {
  ClusterQueue queue;
  const int slot = test::slot_of(queue.base(5));
  Node& from = incomplete().owner_of(slot);
  Node& to = incomplete().other_master(from);
  Load load(queue, quick_to_give_up(10s), options);
  REQUIRE(eventually([&] { return load.has_used(queue, {5}, {}); }, kPatience));
  incomplete().begin_migration(slot, to);
  const auto moving = Clock::now();
  CHECK(eventually([&] { return load.succeeded(moving, Clock::now()) > 100; }, kPatience));
  while (incomplete().migrate_keys(slot, 2) > 0) std::this_thread::sleep_for(5ms);
  incomplete().finish_migration(slot);
  const auto moved = Clock::now();
  CHECK(eventually([&] { return load.has_used(queue, {5}, moved); }, kPatience));
  const std::vector<Load::Result>& results = load.stop();
  CHECK(std::none_of(results.begin(), results.end(), [](const Load::Result& one) { return one.failed; }));
  CHECK(load.producer.metrics().moved > 0);
  check_all_stored(queue, load);
}

TEST_CASE("cluster partitions: while the slot of one moves, the others get its messages, and no send fails") {
  move_a_slot(kQuiet);
}

TEST_CASE("cluster partitions: the same if sends wait until replicas have them") {
  ProducerOptions options = kQuiet;
  options.durability = Durability::replicas(1, 10s);
  options.send_timeout = 10s;
  move_a_slot(options);
}
