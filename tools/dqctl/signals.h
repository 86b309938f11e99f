// SIGINT, SIGTERM, SIGHUP and other signals that would end the process set a flag, which loops test between two steps:
// so a change is recorded also if the terminal is closed. SIGPIPE is ignored: the write fails instead.
#pragma once

#include <chrono>

namespace dqctl {

// Installs the handlers; call it first. A second signal of the same kind ends the process at once. A SIGHUP that is
// ignored, as by nohup, stays so. SIGPIPE is ignored from now on: before exec, a child process must set it back to
// SIG_DFL.
void watch_signals();

// Installs another handler for the same signals.
void handle_signals(void (*handler)(int), int flags);

// Whether one of these signals arrived.
bool interrupted();

// Sleeps until `span` is over (true), or a signal arrives (false).
bool sleep_for(std::chrono::milliseconds span);

}  // namespace dqctl
