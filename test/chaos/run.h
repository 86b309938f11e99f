// One run: starts servers and processes, applies faults, and judges the result.
#pragma once

#include "support/standard.h"

namespace chaos {

struct RunOptions {
  std::int64_t seconds = 20;
  std::uint64_t seed = 1;
  std::string topology = "single";
  std::int64_t rate = 300;  // messages a second
  bool replicas = false;    // sends wait for a replica
  std::string go{};         // path of the Go program; empty: the one of the build, if it exists
  std::string old{};        // path of this program, of a version before partitions; empty: a stand-in
  bool verbose = false;     // progress on stderr
  bool calm = false;        // no faults; duplicates are then errors
  bool keep = false;        // keep the folder after a successful run
};

// Prints one line of counts, and lines of recovery times. Returns false if a message is lost or a rule is broken.
bool run(const RunOptions& options);

}  // namespace chaos
