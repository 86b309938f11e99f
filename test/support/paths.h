// Absolute paths of files of this repository and of programs built with the tests.
#pragma once

#include "support/standard.h"

namespace test {

// A file of the repository, such as "scripts/lua/send.lua".
std::string source_path(const std::string& file);

// A program built with the tests, such as "worker_program" or "dqctl".
std::string program_path(const std::string& name);

// To preload into a program: see slow_names.h.
std::string slow_names_library();

}  // namespace test
