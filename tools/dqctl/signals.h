// SIGINT and SIGTERM set a flag, which loops test between two steps. SIGPIPE is ignored: the write fails instead.
#pragma once

#include <chrono>

namespace dqctl {

// Installs the handlers; call it first. A second SIGINT or SIGTERM ends the process at once. SIGPIPE is ignored from
// now on: before exec, a child process must set it back to SIG_DFL.
void watch_signals();

// Whether SIGINT or SIGTERM arrived.
bool interrupted();

// Sleeps until `span` is over (true), or a signal arrives (false).
bool sleep_for(std::chrono::milliseconds span);

}  // namespace dqctl
