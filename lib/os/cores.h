// Processor cores: whether a thread that waits busily keeps a server, or other threads, from running.
#pragma once

#include <string>

namespace delayqueue {

// How many CPUs this process can use at a time: those of the machine, or less by the quotas of its control groups (the
// limit of a container, CPUQuota of a systemd unit). 0 if it is unknown. `root`: the folder that has proc and sys.
double usable_cpus(const std::string& root = "");

// Whether this thread may wait busily for the server at the other end of the socket. It may not in two cases:
// - The thread and the server are both pinned to the same single core: the server cannot run while the thread waits.
// - This process can use fewer than two CPUs, by the machine or by its quota. Then the busy wait takes what other
//   threads need, or uses up the quota, and the system stops the whole process for a while.
// The cores of the server are known only if it listens on a unix socket and its process is visible. Otherwise (TCP,
// another container) this function assumes that the server has other cores.
bool may_wait_busily(int socket);

}  // namespace delayqueue
