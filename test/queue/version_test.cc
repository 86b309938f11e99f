#include "support/test.h"

TEST_CASE("version: the macros, version() and CMake's project agree") {
  CHECK(std::string(DELAYQUEUE_VERSION) == PROJECT_VERSION);
  CHECK(std::string(delayqueue::version()) == DELAYQUEUE_VERSION);
  const std::string parts = std::to_string(DELAYQUEUE_VERSION_MAJOR) + '.' + std::to_string(DELAYQUEUE_VERSION_MINOR) +
                            '.' + std::to_string(DELAYQUEUE_VERSION_PATCH);
  CHECK(parts == DELAYQUEUE_VERSION);
  CHECK(DELAYQUEUE_VERSION_NUMBER ==
        DELAYQUEUE_VERSION_MAJOR * 10000 + DELAYQUEUE_VERSION_MINOR * 100 + DELAYQUEUE_VERSION_PATCH);
}
