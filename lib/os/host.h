// The machine that this process runs on.
#pragma once

#include <string>

namespace delayqueue {

// The name of this machine, or of the container; "unknown" if the system does not tell.
std::string host_name();

}  // namespace delayqueue
