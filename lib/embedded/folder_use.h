// Which processes use a folder whose embedded server they share.
#pragma once

#include "os/descriptor.h"

#include <unistd.h>

#include <chrono>
#include <string>

namespace delayqueue {

// One process' share: an open file of the folder, `users`, with a shared lock, until this object or the process goes.
//
// The file is a FIFO that the server has open, too: when the last process has closed it, however that process ended, the
// system sends the server SIGTERM (fcntl F_SETSIG). So the server needs neither its starter nor a process that watches.
//
// A fork inherits the open file with its lock, and so it is a user, too, until it calls exec.
class FolderUse {
 public:
  // Throws SetupError, and what fail_with() throws.
  FolderUse(const Descriptor& folder, const std::string& path);
  ~FolderUse();
  FolderUse(const FolderUse&) = delete;
  FolderUse& operator=(const FolderUse&) = delete;

  // Returns true if no other process uses the folder: then they wait in join() until share(). A server that runs all the
  // same has been told to end, or will be; `end_server` is called to make sure of it. Throws std::runtime_error if
  // others have been starting or ending the server until `deadline`.
  template <class EndServer>
  bool join(std::chrono::steady_clock::time_point deadline, EndServer end_server) {
    if (!alone_or_with_others(deadline)) return false;
    end_server();
    return true;
  }
  void share();

  // Before the end of the process, to be called once: whether it is the last that uses the folder. If so others wait in
  // join() until this object is destroyed.
  bool is_last();

  // False once the folder was removed and made again.
  bool is_of(const Descriptor& folder) const;

 private:
  bool alone_or_with_others(std::chrono::steady_clock::time_point deadline);

  const pid_t owner_ = ::getpid();
  Descriptor file_;
  Descriptor again_;  // the same FIFO, opened once more: a lock on it conflicts with that of file_ in a fork
};

// Whether the system tells a server of its last user. If not, the server ends with the process that started it.
bool system_tells_of_last_user();

// For the server's process, before exec: async-signal-safe. It must lead its process group.
void end_with_last_user(int folder);

}  // namespace delayqueue
