// Runs scripts in the shells that dqctl has completions for.
#pragma once

#include "support/local.h"

namespace test {

// Runs the script in the folder and returns its stdout and stderr. HOME is the folder, and dqctl is on PATH.
// DELAYQUEUE_URI is `uri`, or server() if that is empty.
std::string script(const std::string& shell, const std::string& text, const TempDir& folder, std::string uri = "");

// Define complete_for, which prints what the shell offers for the last of its arguments.
extern const std::string kZshHead, kBashHead;

// What the shell offers at the end of each command line, in this order. A line ends with an empty word or with the
// start of a word; $ and quotes are as in all three shells.
std::vector<std::string> offered_by(const std::string& shell, const std::vector<std::string>& lines);

// Returns false, and prints that the test is skipped, if the shell is not installed.
bool has_shell(const std::string& name);

// The folder of the built programs.
std::string program_folder();

}  // namespace test
