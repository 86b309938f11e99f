// Consumers in processes of this program.
#pragma once

#include "support/standard.h"

namespace bench {

// The child process: consumes with an empty handler and eight workers until its stdin ends. Prints a line when it is
// connected. Returns the exit code.
int consume(const std::string& url);

}  // namespace bench
