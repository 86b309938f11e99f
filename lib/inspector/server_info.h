// What a server tells of itself, and how far away it is.
#pragma once

#include "redis/connection.h"

#include <delayqueue/inspector.h>

namespace delayqueue {

// Some round trips. Throws ConnectionError if the link breaks.
ServerReport report_server(redis::Connection& connection);

}  // namespace delayqueue
