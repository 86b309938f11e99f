// Where the files of this repository and the programs built beside the tests are.
#pragma once

#include <string>

namespace test {

// The absolute path of a file of the repository, such as "scripts/lua/send.lua".
std::string source_path(const std::string& file);

// The absolute path of a program built with the tests, such as "worker_program" or "dqctl".
std::string program_path(const std::string& name);

}  // namespace test
