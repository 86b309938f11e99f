// Folders that no other user of this machine can enter or replace, and the files in them.
//
// An embedded server runs what is in its folder (an append-only file may hold any command) and shows its data to who
// connects to the socket there. So the folder, and each one above it, must be out of the reach of other users.
#pragma once

#include "embedded/server_process.h"

#include <fcntl.h>

#include <string>
#include <vector>

namespace delayqueue {

// Opens the folder, which must belong to the effective user and be closed to group and others. Makes it, and the
// missing ones above it, with mode 0700 whatever the umask is.
//
// Each folder above must belong to root or to the effective user, and be writable by nobody else, unless it is sticky
// (as /tmp): there others can make entries, but cannot rename or remove ours. A symbolic link on the way must belong to
// root or to the effective user, too, and is followed; the folder itself must be none.
//
// Throws SetupError that names the folder, its owner or mode, and what to do. This and the functions below throw what
// fail_with() throws where the system refuses a call.
Descriptor open_private_folder(const std::string& path);

// What a server would read or write in its folder must belong to the effective user, and be no link. The files may
// be older than the mode of the folder. Throws SetupError.
void check_server_files(const Descriptor& folder, const std::string& path);

// To open() a folder, never through a symbolic link.
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// All entries but "." and "..".
std::vector<std::string> names_in(const Descriptor& folder);

}  // namespace delayqueue
