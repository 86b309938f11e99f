// The JSON of one partition of a queue.
#pragma once

#include <delayqueue/inspector.h>

#include "output/json.h"

namespace dqctl {

Object partition_object(const delayqueue::PartitionInfo& info);

}  // namespace dqctl
