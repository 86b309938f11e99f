// How many random cases a test runs.
#pragma once

#include "support/standard.h"

namespace test {

// The number in an environment variable; without it `otherwise`.
inline std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// DELAYQUEUE_SEEDS, which scripts/test.sh sets to fewer than `usually`.
inline std::uint64_t seeds(std::uint64_t usually) { return setting("DELAYQUEUE_SEEDS", usually); }

}  // namespace test
