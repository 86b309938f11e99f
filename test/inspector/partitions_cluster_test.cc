// Inspectors and QueueAdmins of queues with partitions in a Cluster, also while one of its masters is away.
#include "support/test.h"

#include "support/cluster.h"
#include "support/partitioned.h"

namespace delayqueue {
namespace {

using test::Node;
using test::Partitioned;

test::ClusterOptions without_full_coverage() {
  test::ClusterOptions options;
  options.node.arguments = {"--cluster-require-full-coverage", "no", "--appendonly", "yes"};
  return options;
}

test::Cluster& masters() {
  static test::Cluster cluster(without_full_coverage());
  return cluster;
}

std::size_t clients_at(const Node& node, const std::string& name) {
  std::istringstream all(node.cmd({"CLIENT", "LIST"}).text);
  std::size_t count = 0;
  for (std::string line; std::getline(all, line);) count += has(line, " name=" + name + " ") ? 1 : 0;
  return count;
}

// A master that is away: it and its replica are killed, and started again at the end.
class Away {
 public:
  Away(test::Cluster& cluster, Node& master)
      : cluster_(cluster), master_(master), replica_(cluster.replica_of(master)) {
    replica_.kill();
    master_.kill();
  }
  ~Away() { come_back(); }
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;

  void come_back() {
    if (back_) return;
    back_ = true;
    master_.restart();
    replica_.restart();
    cluster_.wait_ok();
  }

 private:
  test::Cluster& cluster_;
  Node& master_;
  Node& replica_;
  bool back_ = false;
};

// The owners of a queue's partitions, by partition.
std::vector<Node*> owners(const Partitioned& queue, unsigned count) {
  std::vector<Node*> all;
  for (unsigned partition = 0; partition < count; ++partition) {
    all.push_back(&masters().owner(queue.to.keys(partition).base));
  }
  return all;
}

ClientOptions impatient() {
  ClientOptions options;
  options.connect_timeout = options.command_timeout = 1s;
  return options;
}

TEST_CASE("partitions: in a Cluster they are spread over the masters, and each is reported with its slot and master") {
  Partitioned queue(16, masters().url());
  for (unsigned partition = 0; partition < 16; ++partition) queue.to.send(partition);
  CHECK(queue.inspector.counts().ready == 16);
  CHECK(queue.inspector.list(State::ready).size() == 16);
  const std::vector<Node*> of = owners(queue, 16);
  std::map<std::string, int> share;
  for (const PartitionInfo& one : queue.inspector.partitions()) {
    CAPTURE(one.partition);
    CHECK(one.slot == test::slot_of(queue.to.keys(one.partition).base));
    CHECK(one.server == of[one.partition]->address());
    CHECK(one.counts.ready == 1);
    ++share[one.server];
  }
  CHECK(share.size() == 3);
  for (const auto& one : share) CHECK(one.second >= 4);
}

TEST_CASE("partitions: an Inspector and a QueueAdmin have one connection to each master together") {
  const std::string name = test::fresh_queue();
  Partitioned queue(32, masters().url());
  const Client client(queue.url, with(&ClientOptions::client_name, name));
  Inspector inspector(client, queue.name);
  QueueAdmin admin(client, queue.name);
  std::vector<std::string> ids;
  for (unsigned partition = 0; partition < 32; ++partition) ids.push_back(queue.to.send(partition, "x", 1h));
  CHECK(inspector.counts().pending == 32);
  CHECK(inspector.find_all(ids).size() == 32);
  CHECK(admin.reschedule(ids, {}) == std::vector<Outcome>(32, Outcome::done));
  admin.pause();
  CHECK(inspector.paused());
  admin.resume();
  CHECK(admin.purge(State::ready) == 32);
  CHECK(admin.forget().none());
  CHECK(inspector.counts().ready == 0);  // closes the connection to the node that has the list of queues
  for (std::size_t i = 0; i < test::Cluster::kNodes; ++i) {
    CAPTURE(i);
    const std::size_t most = masters().node(i).info("role") == "master" ? 1 : 0;
    CHECK(eventually([&] { return clients_at(masters().node(i), name) <= most; }, kPatience));
  }
}

TEST_CASE("partitions: calls follow when many of them have moved to another master") {
  Partitioned queue(32, masters().url());
  for (unsigned partition = 0; partition < 32; ++partition) queue.to.send(partition, "x", 1h);
  CHECK(queue.inspector.counts().pending == 32);
  const std::vector<Node*> before = owners(queue, 32);
  Node& from = *before[0];
  Node& to = masters().other_master(from);
  std::size_t moved = 0;
  for (unsigned partition = 1; partition < 32 && moved < 8; ++partition) {
    if (before[partition] != &from) continue;
    const int slot = test::slot_of(queue.to.keys(partition).base);
    masters().begin_migration(slot, to);
    while (masters().migrate_keys(slot, 100) > 0) {
    }
    masters().finish_migration(slot);
    ++moved;
  }
  REQUIRE(moved == 8);
  CHECK(queue.inspector.counts().pending == 32);
  CHECK(queue.inspector.counts().pending == 32);
  CHECK(queue.admin.purge(State::pending) == 32);
}

TEST_CASE("partitions: while a master is away, only calls that need its partitions fail") {
  Partitioned queue(16, masters().url());
  const ClientOptions client_options = impatient();
  InspectorOptions options;
  Inspector inspector({queue.url, client_options}, queue.name, options);
  QueueAdmin admin({queue.url, client_options}, queue.name, options);
  std::vector<std::string> ids;
  for (unsigned partition = 0; partition < 16; ++partition) ids.push_back(queue.to.send(partition, "x", 1h));
  CHECK(inspector.counts().pending == 16);
  const std::vector<Node*> of = owners(queue, 16);
  Node& home = *of[0];
  Node& other = *of[1];
  REQUIRE(&home != &other);
  unsigned third = 2;  // a partition of the third master
  while (of[third] == &home || of[third] == &other) ++third;
  Away away(masters(), other);
  REQUIRE(eventually([&] { return inspector.find(ids[0]).has_value(); }, kPatience));  // the others know of the failure

  const auto begin = std::chrono::steady_clock::now();
  const std::vector<PartitionInfo> all = inspector.partitions();
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
  REQUIRE(all.size() == 16);
  for (const PartitionInfo& one : all) {
    CAPTURE(one.partition);
    CHECK(one.error.empty() == (of[one.partition] != &other));
    CHECK(one.counts.pending == (of[one.partition] != &other ? 1 : 0));
  }
  CHECK(thrown([&] { return inspector.counts(); }).find("ConnectionError: ") == 0);
  CHECK(inspector.find(ids[third]).has_value());
  CHECK(thrown([&] { return inspector.find(ids[1]); }).find("ConnectionError: ") == 0);
  options.partition = third;
  CHECK(Inspector({queue.url, client_options}, queue.name, options).counts().pending == 1);
  options.partition.reset();

  // Those of the masters that are there are done.
  CHECK(thrown([&] { return admin.bury(ids); }).find("ConnectionError: ") == 0);
  CHECK(inspector.find(ids[0])->state == State::dead);
  CHECK(inspector.find(ids[third])->state == State::dead);
  CHECK(thrown([&] { admin.purge(State::dead); }).find("ConnectionError: ") == 0);
  CHECK(inspector.find(ids[0])->state == State::dead);  // purge deletes all or none

  // The pause is at home: consumers copy it to the partitions of the other master before they take messages there.
  CHECK(thrown([&] { admin.pause({1h, "why"}); }).find("ConnectionError: ") == 0);
  CHECK(home.cmd({"GET", queue.to.keys(0).paused}) == "why");
  CHECK(of[third]->cmd({"GET", queue.to.keys(third).paused}) == "why");
  CHECK(thrown([&] { admin.set_partitions(32); }).find("ConnectionError: ") == 0);
  CHECK(inspector.layout().partitions == 16);

  const CheckReport report = admin.check(with(&CheckOptions::recheck_after, 0ms));
  for (unsigned partition = 0; partition < 16; ++partition) {
    CHECK(report.errors.count(partition) == (of[partition] == &other ? 1 : 0));
  }

  away.come_back();
  REQUIRE(eventually([&] { return thrown([&] { admin.pause({1h, "again"}); }) == "nothing"; }, kPatience));
  CHECK(other.cmd({"GET", queue.to.keys(1).paused}) == "again");
  CHECK(admin.bury(ids)[1] == Outcome::done);
  CHECK(inspector.counts().dead == 16);
}

TEST_CASE("partitions: without partition 0 the layout is read from partition 1, and unknown is not a guess") {
  Partitioned queue(16, masters().url());
  const ClientOptions options = impatient();
  const std::vector<Node*> of = owners(queue, 16);
  unsigned there = 1;
  while (of[there] == of[0]) ++there;
  const std::string id = queue.to.send(there, "x", 1h);
  Away away(masters(), *of[0]);
  Inspector inspector({queue.url, options}, queue.name);
  QueueAdmin admin({queue.url, options}, queue.name);
  REQUIRE(eventually([&] { return thrown([&] { return inspector.find(id); }) == "nothing"; }, kPatience));
  CHECK(inspector.find(id)->partition == there);
  CHECK(inspector.partitions().size() == 16);
  CHECK(inspector.layout().partitions == 16);
  CHECK(has(thrown([&] { return inspector.find(queue.to.id(200)); }),
            "ConnectionError: cannot tell the partition of an id"));
  CHECK(admin.cancel({id}).front() == State::pending);
  CHECK(thrown([&] { admin.pause(); }).find("ConnectionError: ") == 0);
  CHECK(of[there]->cmd({"EXISTS", queue.to.keys(there).paused}) == 0);
}

TEST_CASE("partitions: a queue that has one does not wait for another master, except once for the copy of the layout") {
  test::Queue queue(masters().url());
  queue.send("x");
  const ClientOptions options = impatient();
  Inspector inspector({queue.url, options}, queue.name);
  Node& other = masters().owner(store::make_keys(queue.name, {"dp", true, false}, 1).base);
  REQUIRE(&other != &masters().owner("{dp:" + queue.name + "}"));
  other.freeze();
  CHECK(inspector.counts().ready == 1);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) CHECK(inspector.counts().ready == 1);
  const auto took = std::chrono::steady_clock::now() - begin;
  other.thaw();
  CHECK(took < 1s);
  masters().wait_ok();
}

}  // namespace
}  // namespace delayqueue
