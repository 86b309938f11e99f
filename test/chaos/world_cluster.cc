
#include "chaos/worlds.h"
#include "store/keys.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;

// With partitions it goes on without some of its slots.
test::ClusterOptions persistent_cluster(bool partitions) {
  test::ClusterOptions options;
  options.node = persistent();
  options.node_timeout = 2000ms;  // a busy machine stalls
  if (!partitions) return options;
  for (const char* word : {"--cluster-require-full-coverage", "no"}) options.node.arguments.emplace_back(word);
  return options;
}

std::vector<std::string> bases_of(const std::string& queue, const std::vector<unsigned>& numbers) {
  const unsigned most = numbers.empty() ? 1 : *std::max_element(numbers.begin(), numbers.end());
  std::vector<std::string> bases;
  for (unsigned partition = 0; partition < most; ++partition) {
    bases.push_back(delayqueue::store::make_keys(queue, {"dp", true, false}, partition).base);
  }
  return bases;
}

bool serves(const test::Node& node) {
  return node.cmd({"CLUSTER", "INFO"}).text.find("cluster_state:ok") != std::string::npos;
}

}  // namespace

ClusterWorld::ClusterWorld(const std::string& queue, const Journal& journal, std::vector<unsigned> numbers)
    : numbers_(std::move(numbers)),
      bases_(bases_of(queue, numbers_)),
      journal_(journal),
      cluster_(persistent_cluster(!numbers_.empty())),
      watch_([this] { return masters(); }, journal) {}

// The masters of the first four partitions. Those are evenly spread: while no slot has moved, on all three masters.
std::string ClusterWorld::masters() {
  std::string addresses;
  for (std::size_t i = 0; i < std::min<std::size_t>(4, bases_.size()); ++i) {
    addresses += (i == 0 ? "" : "+") + cluster_.owner(bases_[i]).address();
  }
  return addresses;
}

// For windows: empty if the queue has one.
std::string ClusterWorld::partitions_of(const test::Node& node) {
  std::string numbers;
  for (std::size_t i = 0; bases_.size() > 1 && i < bases_.size(); ++i) {
    if (&cluster_.owner(bases_[i]) == &node) numbers += (numbers.empty() ? "" : ",") + std::to_string(i);
  }
  return numbers;
}

std::vector<std::string> ClusterWorld::logs() {
  std::vector<std::string> files;
  for (std::size_t i = 0; i < test::Cluster::kNodes; ++i) files.push_back(cluster_.node(i).file("log"));
  return files;
}

std::vector<FaultKind> ClusterWorld::faults() const {
  std::vector<FaultKind> kinds = common_faults();
  kinds.insert(kinds.end(), {{"cluster_failover", 0ms, 0ms},
                             {"kill_owner", 0ms, 500ms},
                             {"freeze_owner", 0ms, 500ms},
                             {"freeze_owner_shortly", 100ms, 500ms},
                             {"kill_replica", 0ms, 1000ms},
                             {"migrate_slot", 100ms, 1000ms}});
  if (numbers_.empty()) return kinds;
  kinds.insert(kinds.end(), {{"freeze_owner_beyond_timeout", 1200ms, 1600ms},  // less than the node timeout
                             {"take_away_owner", 1000ms, 3000ms},
                             {"lose_layout", 0ms, 0ms}});
  return kinds;
}

void ClusterWorld::apply(const Step& step) {
  const std::string& base = bases_[step.pick % bases_.size()];
  if (step.kind == "cluster_failover") return fail_over(step, base);
  if (step.kind == "kill_owner" || step.kind == "freeze_owner") return replace_owner(step, base, step.kind[0] == 'f');
  if (step.kind == "kill_replica") return restart_replica(step, base);
  if (step.kind == "migrate_slot") return migrate(step, base);
  if (step.kind == "take_away_owner") return take_away(step, base);
  if (step.kind == "lose_layout") return lose_layout(step);
  test::Node& owner = cluster_.owner(base);
  journal_.line("fault " + described(step) + ' ' + owner.address());
  if (apply_common(step, owner)) return;
  owner.freeze();
  std::this_thread::sleep_for(step.lasts);
  owner.thaw();
  journal_.line("back " + step.kind);
}

// A planned failover: the old owner pauses its clients until the new one has all data. Nothing may be lost.
void ClusterWorld::fail_over(const Step& step, const std::string& base) {
  cluster_.wait_ok();
  journal_.line("fault " + described(step));
  const Watch::ExpectedFailover expected(watch_);
  cluster_.failover(base);
  journal_.line("back " + step.kind);
}

// After SIGCONT the old owner may acknowledge the commands that waited in its sockets.
void ClusterWorld::replace_owner(const Step& step, const std::string& base, bool freezes) {
  cluster_.wait_ok();
  test::Node& old = cluster_.owner(base);
  const std::string partitions = partitions_of(old);
  const test::Node& promoted = cluster_.replica_of(old);
  const auto began = journal_.line("fault " + described(step) + ' ' + old.address());
  const Watch::ExpectedFailover expected(watch_);
  if (freezes) {
    old.freeze();
  } else {
    old.kill();
  }
  const auto gone = now_us();
  test::wait_until("another owner than " + old.address(), [&] { return &cluster_.owner(base) == &promoted; });
  test::wait_until("an owner that serves", [&] { return serves(promoted); });
  journal_.line("back " + step.kind + ' ' + promoted.address());
  std::this_thread::sleep_for(step.lasts);
  if (freezes) {
    old.thaw();
  } else {
    old.restart();
  }
  note_window(journal_, began - kReplicationLag, freezes ? now_us() + kLeaving : gone, partitions);
}

void ClusterWorld::restart_replica(const Step& step, const std::string& base) {
  cluster_.wait_ok();
  journal_.line("fault " + described(step));
  test::Node& replica = cluster_.replica_of(cluster_.owner(base));
  replica.kill();
  std::this_thread::sleep_for(step.lasts);
  replica.restart();
}

// While the slot moves, its keys are on two nodes, and no move can run on the queue.
void ClusterWorld::migrate(const Step& step, const std::string& base) {
  cluster_.wait_ok();
  test::Node& from = cluster_.owner(base);
  test::Node& to = cluster_.other_master(from);
  const int slot = test::slot_of(base);
  journal_.line("fault " + described(step) + " from " + from.address() + " to " + to.address());
  const Watch::ExpectedFailover expected(watch_);
  cluster_.begin_migration(slot, to);
  std::this_thread::sleep_for(step.lasts / 2);
  cluster_.migrate_keys(slot, 5);
  std::this_thread::sleep_for(step.lasts / 2);
  const auto keys_left = [&] { return from.cmd({"CLUSTER", "COUNTKEYSINSLOT", std::to_string(slot)}).integer; };
  do {
    while (cluster_.migrate_keys(slot, 500) > 0) {
    }
  } while (keys_left() > 0);
  cluster_.finish_migration(slot);
  journal_.line("back " + step.kind);
}

// A master and its replica are away, so no other node serves its slots.
void ClusterWorld::take_away(const Step& step, const std::string& base) {
  cluster_.wait_ok();
  test::Node& master = cluster_.owner(base);
  test::Node& replica = cluster_.replica_of(master);
  test::wait_until("a complete file", [&] {  // a node that was a replica until now writes it again
    return master.info("aof_rewrite_in_progress") == "0" && master.info("aof_rewrite_scheduled") == "0";
  });
  const std::string partitions = partitions_of(master);
  journal_.line("fault " + described(step) + ' ' + master.address());
  const Watch::ExpectedFailover expected(watch_);
  replica.kill();
  kill_with_window(journal_, master, partitions);
  std::this_thread::sleep_for(step.lasts);
  master.restart();
  replica.restart();
  test::wait_until("an owner that serves", [&] { return serves(master); });
  journal_.line("back " + step.kind);
}

// One of the two copies of the layout that count is lost, by turns, as in a failover that loses the last writes.
void ClusterWorld::lose_layout(const Step& step) {
  const std::string key = bases_[++layouts_lost_ % 2] + ":settings";
  journal_.line("fault " + described(step) + ' ' + key);
  test::must(cluster_.owner(key), {"HDEL", key, "generation", "partitions", "top"});
}

}  // namespace chaos
