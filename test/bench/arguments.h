// What is asked of a run.
#pragma once

#include <string>
#include <vector>

#include "bench/scale.h"

namespace bench {

struct Arguments {
  Scale scale{};
  std::vector<std::string> only;  // names of parts; empty: all
  std::string peers;              // a program; empty: none

  bool wants(const std::string& part) const;
};

// Throws std::invalid_argument that says what is wrong.
Arguments arguments_of(int count, char** words);

}  // namespace bench
