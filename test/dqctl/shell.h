// Runs scripts in the shells that dqctl has completions for.
#pragma once

#include <string>

#include "support/local.h"

namespace test {

// Runs the script in the folder and returns its stdout and stderr. HOME is the folder, and dqctl is on PATH.
// DELAYQUEUE_URI is `uri`, or server() if that is empty.
std::string script(const std::string& shell, const std::string& text, const TempDir& folder, std::string uri = "");

// Returns false, and prints that the test is skipped, if the shell is not installed.
bool has_shell(const std::string& name);

// The folder of the built programs.
std::string program_folder();

}  // namespace test
