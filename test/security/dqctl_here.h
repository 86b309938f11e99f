// dqctl in this process: thousands of commands take seconds, and a sanitizer sees them all.
#pragma once

#include <string>
#include <vector>

#include "run.h"

namespace test {

// Through its main(), for server(). Not for work, top and what reads all of stdin.
Ran run_here(const std::vector<std::string>& arguments, const std::string& input = {});

}  // namespace test
