// SIGINT and SIGTERM are a wish that loops look at between two steps; SIGPIPE is an error of a write.
#pragma once

#include <chrono>

namespace dqctl {

// To be called first. A second SIGINT or SIGTERM ends the process at once. SIGPIPE is ignored from here on: whoever
// starts other programs has to set it back to SIG_DFL in them.
void watch_signals();

// Whether a SIGINT or SIGTERM came.
bool interrupted();

// Sleeps, but no longer than until a signal came; false if one did.
bool sleep_for(std::chrono::milliseconds span);

}  // namespace dqctl
