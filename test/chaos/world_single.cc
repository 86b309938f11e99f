#include <utility>

#include "chaos/worlds.h"

namespace chaos {
namespace {

constexpr std::int64_t kPostponed = 2'500'000;

}  // namespace

using namespace std::chrono_literals;

SingleWorld::SingleWorld(std::string queue, const Journal& journal)
    : queue_(std::move(queue)), journal_(journal), node_(persistent()) {}

std::vector<FaultKind> SingleWorld::faults() const {
  std::vector<FaultKind> kinds = common_faults();
  kinds.insert(kinds.end(), {{"kill_redis", 300ms, 1500ms},
                             {"kill_redis_fsync_always", 300ms, 1500ms},
                             {"restart_redis", 300ms, 1500ms},
                             {"freeze_redis", 300ms, 1000ms},
                             {"freeze_redis_long", 3500ms, 5000ms}});
  return kinds;
}

void SingleWorld::apply(const Step& step) {
  journal_.line("fault " + described(step));
  if (apply_common(step, node_)) return;
  const bool freezes = step.kind.rfind("freeze", 0) == 0;
  if (freezes) {
    node_.freeze();
  } else if (step.kind == "restart_redis") {
    shut_down(node_);
  } else {
    kill(step.kind == "kill_redis_fsync_always");
  }
  std::this_thread::sleep_for(step.lasts);
  if (freezes) {
    node_.thaw();
  } else {
    node_.restart();
  }
  journal_.line("back " + step.kind);
}

// With `everysec`, Redis lets writes to the file wait up to two seconds while a background fsync runs, and acknowledges
// them. Only those may be lost: data in the file survives in the kernel's page cache.
void SingleWorld::kill(bool fsync_always) {
  if (fsync_always) {
    node_.cmd({"CONFIG", "SET", "appendfsync", "always"});
    std::this_thread::sleep_for(300ms);
    node_.kill();
    return;
  }
  const auto killed_at = now_us();
  const bool waits = node_.info("aof_pending_bio_fsync") != "0";
  node_.kill();
  note_window(journal_, killed_at - (waits ? kPostponed : 0), now_us());
}

}  // namespace chaos
