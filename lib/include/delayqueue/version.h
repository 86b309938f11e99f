// The version of this library. CMakeLists.txt reads it here.
#pragma once

#include <delayqueue/export.h>

#define DELAYQUEUE_VERSION_MAJOR 0
#define DELAYQUEUE_VERSION_MINOR 1
#define DELAYQUEUE_VERSION_PATCH 0
#define DELAYQUEUE_VERSION "0.1.0"

// To compare: 10203 is 1.2.3.
#define DELAYQUEUE_VERSION_NUMBER \
  (DELAYQUEUE_VERSION_MAJOR * 10000 + DELAYQUEUE_VERSION_MINOR * 100 + DELAYQUEUE_VERSION_PATCH)

namespace delayqueue {

// Of the library that is linked, which may be newer than the headers: "0.1.0".
DELAYQUEUE_EXPORT const char* version() noexcept;

}  // namespace delayqueue
