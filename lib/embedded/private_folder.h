// Private folders: no other user of this machine can enter or replace them, or the files in them.
//
// An embedded server executes the append-only file in its folder, which may hold any command, and gives its data to any
// client of the socket there. So other users must not be able to change the folder or any folder above it.
#pragma once

#include "embedded/server_process.h"

#include <fcntl.h>

#include <string>
#include <vector>

namespace delayqueue {

// The absolute path without "." and "..", and without a slash at its end. Throws SetupError if the path is relative and
// the working directory cannot be found, as after its removal.
std::string absolute_folder(const std::string& folder);

// Opens the folder, which must belong to the effective user and give no rights to group and others. Makes it and the
// missing folders above it, with mode 0700 for any umask.
//
// Each folder above must belong to root or to the effective user, and must not be writable by others, except with the
// sticky bit (as /tmp): others can make entries there, but cannot rename or remove ours. A symbolic link in the path
// must belong to root or to the effective user and is followed; the folder itself must not be a link.
//
// Throws SetupError with the folder, its owner or mode, and what to do. This function and those below throw what
// fail_with() throws if a system call fails.
Descriptor open_private_folder(const std::string& path);

// Checks the files that a server reads and writes in its folder: each must belong to the effective user and be no link.
// The folder's mode is not enough, because the files may be older than it. Throws SetupError.
void check_server_files(const Descriptor& folder, const std::string& path);

// Flags to open() a folder, but not through a symbolic link.
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// All entries except "." and "..". `path` is that of the folder, for errors.
std::vector<std::string> names_in(const Descriptor& folder, const std::string& path);

}  // namespace delayqueue
