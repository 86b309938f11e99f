// A process beside dqctl that ends the commands of a dqctl that was killed. The kernel would end the shell alone, and
// leave what the shell has started.
#pragma once

#include <sys/types.h>

#include "fd.h"

namespace dqctl {

class Keeper {
 public:
  // Forks, so that it must be made before any thread. Throws Failure.
  Keeper();

  // After the last command has ended.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Process groups that run from now on, or not any more. May be called between fork and exec: a command that enters
  // itself is never unknown. SIGPIPE must be ignored.
  void enter(pid_t group) const noexcept { tell(group, true); }
  void leave(pid_t group) const noexcept { tell(group, false); }

 private:
  void tell(pid_t group, bool runs) const noexcept;

  Pipe pipe_;
  pid_t pid_ = -1;
};

}  // namespace dqctl
