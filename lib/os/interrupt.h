// Interrupt: ends the network waits of one thread from another thread.
#pragma once

#include <sys/types.h>

#include <atomic>

#include "os/descriptor.h"

namespace delayqueue {

// A flag with a pipe. When it is raised, all waits of threads in a Scope of it end, and no new ones start. It stays
// raised.
class Interrupt {
 public:
  Interrupt();  // throws SetupError if no pipe can be created
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Any thread may call it at any time. In a fork it does not write to the pipe, which the parent polls.
  void raise();
  bool is_raised() const { return raised_; }

  int fd() const { return read_end_.get(); }  // readable when raised: poll it together with the socket

  // The Interrupt of the Scope that this thread is in; null: none.
  static const Interrupt* current() { return scope_of_thread(); }

  // Whether current() was raised.
  static bool is_raised_here() { return scope_of_thread() != nullptr && scope_of_thread()->is_raised(); }

  // Like poll() for input, but returns 0 also when current() is raised.
  static int poll_here(int fd, int timeout_ms);

  // Makes `interrupt` the current one of this thread, until the end of the scope.
  class Scope {
   public:
    explicit Scope(const Interrupt& interrupt) : before_(scope_of_thread()) { scope_of_thread() = &interrupt; }
    ~Scope() { scope_of_thread() = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const Interrupt* const before_;
  };

 private:
  static const Interrupt*& scope_of_thread();

  const pid_t process_;
  Descriptor read_end_, write_end_;
  std::atomic<bool> raised_{false};
};

}  // namespace delayqueue
