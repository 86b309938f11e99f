// Runs dqctl inside the test process: thousands of commands take seconds only, and sanitizers check all of them.
#pragma once

#include "run.h"

namespace test {

// Calls the main() of dqctl for server(). Not for `work`, `top` and commands that read all of stdin.
Ran run_here(const std::vector<std::string>& arguments, const std::string& input = {});

}  // namespace test
