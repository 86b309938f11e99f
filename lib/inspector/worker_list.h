// Reads the registry of a queue's consumers.
#pragma once

#include "queue/shared_connection.h"

#include <delayqueue/inspector.h>

#include <vector>

namespace delayqueue {

// The consumers whose entries have not ended, by host and process. `home`: partition 0.
std::vector<Worker> read_workers(SharedConnection& home);

}  // namespace delayqueue
