// Pipes, threads and random numbers: what the system may refuse to a process that has reached a limit.
#pragma once

#include "os/descriptor.h"

#include <delayqueue/error.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace delayqueue {

// The system's text for an error. If the limit of open files is reached, the text also says how to raise it.
std::string reason(int error);

// Returns the end to read and the end to write of a new pipe, both non-blocking and close-on-exec. Throws SetupError.
std::pair<Descriptor, Descriptor> make_pipe();

// What start_thread() throws: "cannot start a thread for `purpose`", the system's reason, and the limits to raise.
std::string thread_refused(const std::string& purpose, int error);

// Starts a thread. Throws `Failure`: SetupError, or ConnectionError if the thread is needed to connect.
template <class Failure = SetupError, class Function>
std::thread start_thread(const std::string& purpose, Function&& function) {
  try {
    return std::thread(std::forward<Function>(function));
  } catch (const std::system_error& e) {
    throw Failure(thread_refused(purpose, e.code().value()));
  }
}

// A seed for the jitter of pauses. Unlike std::random_device, it never throws: without random bytes it is the time.
unsigned random_seed();

}  // namespace delayqueue
