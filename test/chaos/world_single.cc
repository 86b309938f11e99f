#include <utility>

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
  journal_.line("fault " + step.kind + ' ' + std::to_string(step.lasts.count()));
  if (apply_common(step, node_)) return;
  const bool freezes = step.kind.rfind("freeze", 0) == 0;
  if (step.kind == "kill_redis_fsync_always") {
    node_.cmd({"CONFIG", "SET", "appendfsync", "always"});
    std::this_thread::sleep_for(300ms);
  }
  if (freezes) {
    node_.freeze();
  } else if (step.kind == "restart_redis") {
    shut_down(node_);
  } else {
    node_.kill();
  }
  std::this_thread::sleep_for(step.lasts);
  if (freezes) {
    node_.thaw();
  } else {
    node_.restart();
  }
  journal_.line("back " + step.kind);
}

}  // namespace chaos
