// What is in Redis when all is quiet.
#pragma once

#include <chrono>
#include <string>

#include "chaos/rules.h"
#include "chaos/world.h"

namespace chaos {

// Waits until nothing is left to be delivered or swept. False if it is not within the limit.
bool drained(World& world, const std::string& queue, std::chrono::milliseconds limit);

// Dead letters, and whatever is there besides them, totals, and the wake-up marker.
Remains look_at(World& world, const std::string& queue);

}  // namespace chaos
