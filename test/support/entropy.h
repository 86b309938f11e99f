// Counts the calls of getentropy() in this program, and lets one fail. Linux only.
#pragma once

#include "support/standard.h"

namespace test {

extern std::atomic<int> entropy_calls;

// Lets the next call in this thread fail with this errno.
void fail_next_entropy(int error);

}  // namespace test
