// Marks the symbols that the shared library exports; all others are hidden.
#pragma once

#if __cplusplus < 201703L
#error "delayqueue needs C++17: compile with -std=c++17 or later"
#include <delayqueue/needs_cpp17>  // no such file: the compilation ends here, before pages of other errors
#endif

#if defined(__GNUC__)
#define DELAYQUEUE_EXPORT __attribute__((visibility("default")))
#define DELAYQUEUE_HIDDEN __attribute__((visibility("hidden")))
#else
#define DELAYQUEUE_EXPORT
#define DELAYQUEUE_HIDDEN
#endif
