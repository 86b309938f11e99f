// Reference count, over processes, of the users of a folder's embedded server.
#pragma once

#include "os/descriptor.h"

#include <unistd.h>

#include <chrono>
#include <string>

namespace delayqueue {

// One process' reference: the folder's file `users`, open and with a shared lock until this object or the process ends.
//
// The file is a FIFO that the server has open, too. When the last process has closed it, even by a crash, the system
// sends SIGTERM to the server (fcntl F_SETSIG). So the server depends neither on the process that started it nor on a
// supervisor.
//
// A forked process inherits the open file and its lock, so it is a user, too, until it calls exec.
class FolderUse {
 public:
  // Throws SetupError, and what fail_with() throws.
  FolderUse(const Descriptor& folder, const std::string& path);
  ~FolderUse();
  FolderUse(const FolderUse&) = delete;
  FolderUse& operator=(const FolderUse&) = delete;

  // Returns true if no other process uses the folder. Then this process has the exclusive lock, and others wait in
  // join() until it calls share(). `end_server` is called first, to end a server whose users have all gone and that has
  // not ended yet. Throws ConnectionError if other processes are still starting or ending the server at `deadline`.
  template <class EndServer>
  bool join(std::chrono::steady_clock::time_point deadline, EndServer end_server) {
    if (!alone_or_with_others(deadline)) return false;
    end_server();
    return true;
  }
  void share();

  // Whether this process is the last user of the folder. If so, others wait in join() until this object is destroyed.
  // Call it once, before the process ends.
  bool is_last();

  // Whether the reference is to this folder. False after the folder was removed and made again.
  bool is_of(const Descriptor& folder) const;

 private:
  bool alone_or_with_others(std::chrono::steady_clock::time_point deadline);

  const pid_t owner_ = ::getpid();
  Descriptor file_;
  Descriptor second_;  // the same FIFO, opened again: a lock on it conflicts with the lock that a fork has on file_
};

// Whether the system signals a server when its last user has ended. If not, the server ends with the process that
// started it.
bool supports_last_user_signal();

// Asks the system for that signal. Called in the server's process before exec; it must lead its process group.
void end_after_last_user(int folder);

}  // namespace delayqueue
