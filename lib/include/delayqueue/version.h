// The version of this library, and the marks of what the shared library exports. CMakeLists.txt reads the version here.
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

#define DELAYQUEUE_VERSION_MAJOR 0
#define DELAYQUEUE_VERSION_MINOR 1
#define DELAYQUEUE_VERSION_PATCH 0
#define DELAYQUEUE_VERSION "0.1.0"

// The version as a number, for comparisons: 1.2.3 is 10203.
#define DELAYQUEUE_VERSION_NUMBER \
  (DELAYQUEUE_VERSION_MAJOR * 10000 + DELAYQUEUE_VERSION_MINOR * 100 + DELAYQUEUE_VERSION_PATCH)

// All names are in an inline namespace with the name of the ABI, which is the SOVERSION of the shared library. Before
// 1.0 each minor version has its own ABI, and keeps it. Objects of two ABIs do not link with each other, and a process
// may have both. Programs write delayqueue::Producer, and must not declare a class of the library themselves.
#define DELAYQUEUE_ABI v0_1

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

// The version of the linked library, such as "0.1.0". It may be newer than the headers.
DELAYQUEUE_EXPORT const char* version() noexcept;

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
