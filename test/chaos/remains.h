// The content of Redis at the end of a run.
#pragma once

#include "chaos/rules.h"
#include "chaos/world.h"

namespace chaos {

// Waits until no message is left to deliver and no garbage to collect. `headers`: whether the run uses them. Returns
// false after the limit.
bool drained(World& world, const std::string& queue, bool headers, std::chrono::milliseconds limit);

// Reads the dead letters, as above. Everything else except the totals and the wake-up marker must not be there.
Remains read_remains(World& world, const std::string& queue, bool headers);

}  // namespace chaos
