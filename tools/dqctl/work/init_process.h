// dqctl as process 1 of a container.
#pragma once

namespace dqctl {

// Process 1 is the parent of each process whose own parent has ended, and must reap it: otherwise the background
// children of commands remain as zombies until no process can be started. If this is process 1, it forks, and the call
// returns in the child, which does the work. This process reaps all its children and passes signals on to the one that
// works; when that has ended, this process exits with the same code. So the exit codes of commands, for which the child
// waits, are never reaped here.
//
// Call it before any thread is made. Throws Failure.
void leave_process_1();

}  // namespace dqctl
