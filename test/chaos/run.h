// One run: servers, processes, faults, and then the verdict.
#pragma once

#include <cstdint>
#include <string>

namespace chaos {

struct RunOptions {
  std::int64_t seconds = 20;
  std::uint64_t seed = 1;
  std::string topology = "single";
  std::int64_t rate = 300;  // messages a second
  bool replicas = false;    // durability: sends wait for a replica
  std::string go{};         // the program of the interoperability tests; empty: where the build puts it, if it did
  bool verbose = false;     // progress on stderr
  bool calm = false;        // no faults: then nothing may be delivered twice
  bool keep = false;        // the folder, when all went well, too
};

// Prints one line of counts, and lines of recovery times. False if anything is lost or any rule is broken.
bool run(const RunOptions& options);

}  // namespace chaos
