// Reads version, role, settings, load and risks of one server, its clock, and the time of a round trip to it.
#pragma once

#include "redis/connection.h"

#include <delayqueue/server.h>

namespace delayqueue {

// Takes several round trips. Throws ConnectionError if the connection breaks.
ServerInfo read_server_info(redis::Connection& connection);

}  // namespace delayqueue
