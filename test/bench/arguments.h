// The command line of the benchmark.
#pragma once

#include "bench/part.h"
#include "bench/scale.h"

namespace bench {

struct Arguments {
  Scale scale{};
  std::vector<std::string> only;  // names of parts; empty: all parts
  std::string peers;              // path of the program that measures peers; empty: none

  bool wants(const Part& part) const;
};

// Throws std::invalid_argument that names the wrong argument.
Arguments arguments_of(int count, char** words);

}  // namespace bench
