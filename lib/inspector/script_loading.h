// Reads which servers have loaded the library's scripts, and loads them.
#pragma once

#include "queue/endpoint.h"

#include <delayqueue/inspector.h>

#include <vector>

namespace delayqueue {

// One entry for every server that may serve the queue; if a server fails, its entry has the error. Both throw if the
// servers cannot be determined.
std::vector<ServerScripts> find_scripts(Endpoint& endpoint);
std::vector<ServerScripts> load_scripts(Endpoint& endpoint);

}  // namespace delayqueue
