// A child process that kills the running commands if dqctl is killed. The kernel alone would kill the shell, but not
// the processes that the shell has started.
#pragma once

#include <sys/types.h>

#include "fd.h"

namespace dqctl {

class ProcessReaper {
 public:
  // Forks: create it before any thread. Throws Failure.
  ProcessReaper();

  // All commands must have ended.
  ~ProcessReaper();
  ProcessReaper(const ProcessReaper&) = delete;
  ProcessReaper& operator=(const ProcessReaper&) = delete;

  // Registers or removes the process group of a command. Both may be called between fork and exec: a command registers
  // itself, so none is missed. SIGPIPE must be ignored.
  void add(pid_t group) const noexcept { send(group, true); }
  void remove(pid_t group) const noexcept { send(group, false); }

 private:
  void send(pid_t group, bool runs) const noexcept;

  Pipe pipe_;
  pid_t pid_ = -1;
};

}  // namespace dqctl
