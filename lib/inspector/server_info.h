// Reads version, role, settings and load of a server, its clock, and the time of a round trip to it.
#pragma once

#include "redis/connection.h"

#include <delayqueue/inspector.h>

namespace delayqueue {

// Takes several round trips. Throws ConnectionError if the connection breaks.
ServerReport report_server(redis::Connection& connection);

}  // namespace delayqueue
