#include <stdexcept>
#include <utility>

#include "chaos/worlds.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;

test::ClusterOptions persistent_cluster() {
  test::ClusterOptions options;
  options.node = persistent();
  options.node_timeout = 2000ms;  // a busy machine stalls
  return options;
}

}  // namespace

ClusterWorld::ClusterWorld(std::string queue, const Journal& journal)
    : queue_(std::move(queue)),
      journal_(journal),
      cluster_(persistent_cluster()),
      watch_([this] { return cluster_.owner(base()).address(); }, journal) {}

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
  return kinds;
}

void ClusterWorld::apply(const Step& step) {
  if (step.kind == "cluster_failover") return fail_over(step);
  if (step.kind == "kill_owner" || step.kind == "freeze_owner") return replace_owner(step, step.kind[0] == 'f');
  if (step.kind == "kill_replica") return restart_replica(step);
  if (step.kind == "migrate_slot") return migrate(step);
  test::Node& owner = cluster_.owner(base());
  journal_.line("fault " + described(step) + ' ' + owner.address());
  if (apply_common(step, owner)) return;
  owner.freeze();
  std::this_thread::sleep_for(step.lasts);
  owner.thaw();
  journal_.line("back " + step.kind);
}

// A planned failover: the old owner pauses its clients until the new one has all data. Nothing may be lost.
void ClusterWorld::fail_over(const Step& step) {
  cluster_.wait_ok();
  journal_.line("fault " + described(step));
  const Watch::ExpectedFailover expected(watch_);
  cluster_.failover(base());
  journal_.line("back " + step.kind);
}

// After SIGCONT the old owner may acknowledge the commands that waited in its sockets.
void ClusterWorld::replace_owner(const Step& step, bool freezes) {
  cluster_.wait_ok();
  test::Node& old = cluster_.owner(base());
  const test::Node& promoted = cluster_.replica_of(old);
  const auto began = journal_.line("fault " + described(step) + ' ' + old.address());
  const Watch::ExpectedFailover expected(watch_);
  if (freezes) {
    old.freeze();
  } else {
    old.kill();
  }
  const auto gone = now_us();
  test::wait_until("another owner than " + old.address(), [&] { return &cluster_.owner(base()) == &promoted; });
  test::wait_until("an owner that serves", [&] {
    return promoted.cmd({"CLUSTER", "INFO"}).text.find("cluster_state:ok") != std::string::npos;
  });
  journal_.line("back " + step.kind + ' ' + promoted.address());
  std::this_thread::sleep_for(step.lasts);
  if (freezes) {
    old.thaw();
  } else {
    old.restart();
  }
  note_window(journal_, began - kReplicationLag, freezes ? now_us() + kLeaving : gone);
}

void ClusterWorld::restart_replica(const Step& step) {
  cluster_.wait_ok();
  journal_.line("fault " + described(step));
  test::Node& replica = cluster_.replica_of(cluster_.owner(base()));
  replica.kill();
  std::this_thread::sleep_for(step.lasts);
  replica.restart();
}

// While the slot moves, its keys are on two nodes, and no move can run on the queue.
void ClusterWorld::migrate(const Step& step) {
  cluster_.wait_ok();
  test::Node& from = cluster_.owner(base());
  test::Node& to = cluster_.other_master(from);
  const int slot = test::slot_of(base());
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

}  // namespace chaos
