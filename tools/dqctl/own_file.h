// Files that dqctl writes, and secrets that it reads: another user of this machine must not be able to choose them.
#pragma once

#include <string>

#include "fd.h"

namespace dqctl {

enum class IfExists { refuse, append, replace };

// Opens a file to write to: a regular file of ours with one name, never through a symbolic link. A new one has mode 0600,
// one to append to must be closed to other users.
// option: what to name in the error, "--backup". Throws Usage.
Fd open_own_file(const std::string& option, const std::string& file, IfExists if_exists);

// The first line of a regular file of at most 64 KiB; never waits for a pipe or a terminal. The file's name is in no
// error: it may be the secret itself, given in the wrong place. Throws Usage.
std::string secret_in_file(const std::string& option, const std::string& file);

}  // namespace dqctl
