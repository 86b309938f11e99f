// The process that owns the folder of an embedded server.
#pragma once

#include "os/descriptor.h"

#include <sys/types.h>

#include <string>
#include <utility>

namespace delayqueue {

// The device and the inode of a folder. Equal for two paths that lead to the same folder.
using FolderId = std::pair<dev_t, ino_t>;
FolderId id_of(const Descriptor& folder);

// The right to run servers in a folder: a record lock on its file `owner`. The system releases it when the process
// ends, even by a crash or while it is a zombie. A fork does not inherit it. It names the process that has it, and
// holds between containers that share the folder.
//
// Without this lock a process must not start a server, and must not end one that it finds running. One that runs while
// no process has the lock belonged to a process that has ended. The server itself locks the file `lock`, so there are
// never two servers, even for a moment.
class FolderOwner {
 public:
  // `url`: of the server's socket. Throws SetupError with the owner and the URL if another process, or another object
  // of this process, has the folder; and what fail_with() throws.
  FolderOwner(const Descriptor& folder, const std::string& path, const std::string& url);
  ~FolderOwner();
  FolderOwner(const FolderOwner&) = delete;
  FolderOwner& operator=(const FolderOwner&) = delete;

  // False after the folder was removed and made again.
  bool is_of(const Descriptor& folder) const { return id_of(folder) == id_; }

 private:
  const long process_;  // that has the folder
  const FolderId id_;
  Descriptor file_;
};

}  // namespace delayqueue
