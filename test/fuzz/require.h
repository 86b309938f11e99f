// What a fuzz target promises.
#pragma once

#include <cstdio>
#include <cstdlib>

// A promise that does not hold is a finding: libFuzzer keeps the input.
#define REQUIRE(condition)                                                                \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)
