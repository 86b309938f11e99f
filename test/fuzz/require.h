// The assertion of the fuzz targets.
#pragma once

#include <cstdio>
#include <cstdlib>

// Aborts if the condition is false: libFuzzer then keeps the input.
#define REQUIRE(condition)                                                                \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)
