// A process beside dqctl that ends the commands of a dqctl that was killed. The kernel would end the shell alone, and
// leave what the shell has started.
#pragma once

#include <sys/types.h>

#include "fd.h"

namespace dqctl {

class ProcessReaper {
 public:
  // Forks, so that it must be made before any thread. Throws Failure.
  ProcessReaper();

  // After the last command has ended.
  ~ProcessReaper();
  ProcessReaper(const ProcessReaper&) = delete;
  ProcessReaper& operator=(const ProcessReaper&) = delete;

  // Process groups that run from now on, or not any more. May be called between fork and exec: a command that enters
  // itself is never unknown. SIGPIPE must be ignored.
  void add(pid_t group) const noexcept { send(group, true); }
  void remove(pid_t group) const noexcept { send(group, false); }

 private:
  void send(pid_t group, bool runs) const noexcept;

  Pipe pipe_;
  pid_t pid_ = -1;
};

}  // namespace dqctl
