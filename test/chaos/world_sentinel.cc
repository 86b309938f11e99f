
#include "chaos/worlds.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;

test::SentinelsOptions persistent_sentinels() {
  test::SentinelsOptions options;
  options.node = persistent();
  options.down_after = 2000ms;  // a busy machine stalls
  return options;
}

void demote(const test::Node& old, const test::Node& promoted) {
  test::must(old, {"REPLICAOF", "127.0.0.1", std::to_string(promoted.port())});
}

}  // namespace

SentinelWorld::SentinelWorld(std::string queue, const Journal& journal)
    : queue_(std::move(queue)),
      journal_(journal),
      sentinels_(persistent_sentinels()),
      watch_([this] { return sentinels_.master().address(); }, journal) {}

std::vector<std::string> SentinelWorld::logs() {
  std::vector<std::string> files;
  for (std::size_t i = 0; i < test::Sentinels::kNodes; ++i) {
    files.push_back(sentinels_.node(i).file("log"));
    files.push_back(sentinels_.sentinel(i).file("log"));
  }
  return files;
}

std::vector<FaultKind> SentinelWorld::faults() const {
  std::vector<FaultKind> kinds = common_faults();
  kinds.insert(kinds.end(), {{"sentinel_failover", 0ms, 2000ms, true},
                             {"kill_master", 0ms, 500ms},
                             {"freeze_master", 0ms, 500ms},
                             {"freeze_master_shortly", 100ms, 500ms},
                             {"kill_replica", 0ms, 1000ms},
                             {"kill_sentinel", 0ms, 1000ms}});
  return kinds;
}

void SentinelWorld::apply(const Step& step) {
  if (step.kind == "sentinel_failover") return fail_over(step);
  if (step.kind == "kill_master" || step.kind == "freeze_master") return replace_master(step, step.kind[0] == 'f');
  if (step.kind == "kill_replica") return restart_replica(step);
  journal_.line("fault " + described(step));
  if (step.kind == "kill_sentinel") {
    test::Node& sentinel = sentinels_.sentinel(step.pick % 3);
    sentinel.kill();
    std::this_thread::sleep_for(step.lasts);
    sentinel.restart();
  } else if (step.kind == "freeze_master_shortly") {
    test::Node& master = sentinels_.master();
    master.freeze();
    std::this_thread::sleep_for(step.lasts);
    master.thaw();
    journal_.line("back " + step.kind);
  } else {
    apply_common(step, sentinels_.master());
  }
}

// The old master serves for some 10 s more, and clients must leave it by themselves. Half of the time the test ends it.
void SentinelWorld::fail_over(const Step& step) {
  sentinels_.wait_ok();
  const test::Node& old = sentinels_.master();
  const auto began = journal_.line("fault " + described(step) + ' ' + old.address());
  const Watch::ExpectedFailover expected(watch_);
  const test::Node& promoted = sentinels_.failover();
  const auto done = journal_.line("back " + step.kind + ' ' + promoted.address());
  note_window(journal_, began - kReplicationLag, done + kLeaving);
  std::this_thread::sleep_for(step.lasts);
  if (step.pick % 2 == 1) demote(old, promoted);
}

// After SIGCONT the old master may acknowledge the commands that waited in its sockets.
void SentinelWorld::replace_master(const Step& step, bool freezes) {
  sentinels_.wait_ok();
  test::Node& old = sentinels_.master();
  const auto began = journal_.line("fault " + described(step) + ' ' + old.address());
  const Watch::ExpectedFailover expected(watch_);
  if (freezes) {
    old.freeze();
  } else {
    old.kill();
  }
  const auto gone = now_us();
  const test::Node& promoted = sentinels_.wait_for_master(old);
  journal_.line("back " + step.kind + ' ' + promoted.address());
  std::this_thread::sleep_for(step.lasts);
  test::wait_until("a replica of the new master", [&] { return promoted.info("connected_slaves") != "0"; });
  if (freezes) {
    old.thaw();
  } else {
    old.restart();
  }
  note_window(journal_, began - kReplicationLag, freezes ? now_us() + kLeaving : gone);
  if (step.pick % 2 == 1) demote(old, promoted);
}

void SentinelWorld::restart_replica(const Step& step) {
  sentinels_.wait_ok();
  journal_.line("fault " + described(step));
  const test::Node& master = sentinels_.master();
  std::size_t i = step.pick % test::Sentinels::kNodes;
  if (&sentinels_.node(i) == &master) i = (i + 1) % test::Sentinels::kNodes;
  sentinels_.node(i).kill();
  std::this_thread::sleep_for(step.lasts);
  sentinels_.node(i).restart();
}

}  // namespace chaos
