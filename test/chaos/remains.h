// The content of Redis at the end of a run.
#pragma once

#include <chrono>
#include <string>

#include "chaos/rules.h"
#include "chaos/world.h"

namespace chaos {

// `headers`: whether they are used in the run.

// Waits until no message is left to deliver and no garbage to collect. Returns false after the limit.
bool drained(World& world, const std::string& queue, bool headers, std::chrono::milliseconds limit);

// Reads the dead letters. Everything else except the totals and the wake-up marker must not be there.
Remains read_remains(World& world, const std::string& queue, bool headers);

}  // namespace chaos
