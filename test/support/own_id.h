// The ids with which worker_program sends if it chooses them itself.
#pragma once

#include "support/standard.h"

namespace test {

inline std::string own_id(int number) {
  const std::string digits = std::to_string(number);
  return "00000000-0000-4000-8000-" + std::string(12 - digits.size(), '0') + digits;
}

}  // namespace test
