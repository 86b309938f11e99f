// The version of this library. CMakeLists.txt reads it from here.
#pragma once

#include <delayqueue/export.h>

#define DELAYQUEUE_VERSION_MAJOR 0
#define DELAYQUEUE_VERSION_MINOR 1
#define DELAYQUEUE_VERSION_PATCH 0
#define DELAYQUEUE_VERSION "0.1.0"

// The version as a number, for comparisons: 1.2.3 is 10203.
#define DELAYQUEUE_VERSION_NUMBER \
  (DELAYQUEUE_VERSION_MAJOR * 10000 + DELAYQUEUE_VERSION_MINOR * 100 + DELAYQUEUE_VERSION_PATCH)

namespace delayqueue {

// The version of the linked library, such as "0.1.0". It may be newer than the headers.
DELAYQUEUE_EXPORT const char* version() noexcept;

}  // namespace delayqueue
