// Which servers have the library's scripts, and how they get them.
#pragma once

#include "queue/endpoint.h"

#include <delayqueue/inspector.h>

#include <vector>

namespace delayqueue {

// For every server that may serve the queue. Throws when these cannot be found out.
std::vector<ServerScripts> find_scripts(Endpoint& endpoint);
std::vector<ServerScripts> load_scripts(Endpoint& endpoint);

}  // namespace delayqueue
