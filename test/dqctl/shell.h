// Scripts of the shells that dqctl completes for.
#pragma once

#include <string>

#include "support/local.h"

namespace test {

// What a script writes to stdout and stderr. dqctl is on its PATH, the folder is its working directory and HOME;
// DELAYQUEUE_URI is `uri`, or server() where that is empty.
std::string script(const std::string& shell, const std::string& text, const TempDir& folder, std::string uri = "");

// False: it is not installed, and the test says that it was skipped.
bool has_shell(const std::string& name);

// The folder of the built programs.
std::string program_folder();

}  // namespace test
