// Who holds a message, as far as the registry of consumers tells.
#pragma once

#include <delayqueue/inspector.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output/text.h"

namespace dqctl {

// A message that a handler works on. Each consumer names only the few that run for longest.
struct HeldMessage {
  std::string id{};
  Time since{};
  delayqueue::Worker worker{};
};

// All that the consumers of the queue name, the longest running first. Of several that name a message, the one that
// began last has it: the entry of a dead process may be left. None if this user may not read the registry.
std::vector<HeldMessage> held_messages(delayqueue::Inspector& inspector);

// "host web-1, process 4711 (orders-service)"
std::string place_text(const delayqueue::Worker& worker);

}  // namespace dqctl
