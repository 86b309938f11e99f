
#include "chaos/worlds.h"

namespace chaos {

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

void SingleWorld::kill(bool fsync_always) {
  if (!fsync_always) return kill_with_window(journal_, node_);
  node_.cmd({"CONFIG", "SET", "appendfsync", "always"});
  std::this_thread::sleep_for(300ms);
  node_.kill();
}

}  // namespace chaos
