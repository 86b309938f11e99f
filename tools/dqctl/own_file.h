// Opens files to write and reads secrets so that no other user of this machine can substitute the file.
#pragma once

#include <string>

#include "fd.h"

namespace dqctl {

enum class IfExists { refuse, append, replace };

// Opens a file to write: a regular file that this user owns, with one name, never through a symbolic link. A new file
// has mode 0600. A file to append to must be closed to other users. option: the name in the error, such as "--backup".
// Throws Usage.
Fd open_own_file(const std::string& option, const std::string& file, IfExists if_exists);

// The first line of a regular file, at most 64 KiB; never waits for a pipe or a terminal. No error contains the file
// name: it may be the secret itself, given in the wrong place. Throws Usage.
std::string secret_in_file(const std::string& option, const std::string& file);

// The same of a regular file that is open.
std::string secret_in_file(const std::string& option, const Fd& fd);

}  // namespace dqctl
