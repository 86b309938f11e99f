// Who holds a message, as far as the registry of consumers tells.
#pragma once

#include <delayqueue/inspector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output/text.h"

namespace dqctl {

// A message that a handler works on, or whose payload is still arriving. Each consumer names only the few that run for
// longest.
struct HeldMessage {
  std::string id{};
  Time since{};
  delayqueue::Worker worker{};
  std::optional<std::uint64_t> fetching{};  // see RunningMessage
};

// The consumers of the queue. None if this user may not read the registry.
std::vector<delayqueue::Worker> registered_workers(delayqueue::Inspector& inspector);

// All that these consumers name, the longest running first. Of several that name a message, the one that began last has
// it: the entry of a dead process may be left.
std::vector<HeldMessage> held_messages(const std::vector<delayqueue::Worker>& workers);

// "host web-1, process 4711 (orders-service)"
std::string place_text(const delayqueue::Worker& worker);

}  // namespace dqctl
