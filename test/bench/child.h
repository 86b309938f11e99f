// Child processes of the benchmark.
#pragma once

#include <sys/types.h>

#include "support/standard.h"

namespace bench {

// Starts a program with these descriptors as its stdin and stdout; -1: those of this process. Its signal mask is empty,
// unlike that of this process. Throws std::runtime_error.
pid_t spawn(std::vector<std::string> words, int input, int output);

}  // namespace bench
