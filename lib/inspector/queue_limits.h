// The limits of a queue as callers give and get them.
#pragma once

#include "store/limits.h"

#include <delayqueue/inspector.h>

namespace delayqueue {

// Throws std::invalid_argument for a value outside its range. `partitions`: among which the limits are divided.
store::Limits checked(const QueueLimits& limits, unsigned partitions);
QueueLimits limits_of(const store::Limits& limits);

}  // namespace delayqueue
