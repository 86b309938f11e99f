// What happens when: drawn from the seed alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "chaos/mix.h"

namespace chaos {

using std::chrono::milliseconds;

struct Step {
  milliseconds at{};       // after the start
  std::string kind{};      // one of the lane's
  milliseconds lasts{};    // of what has an end
  milliseconds rest{};     // at least so long after the end of the one before
  std::uint64_t pick = 0;  // for whoever has to choose: a process, a node
};

// A kind of fault, and how long it may last.
struct FaultKind {
  std::string name{};
  milliseconds least{};
  milliseconds most{};
  bool loses_copies = false;  // replicas(1) is no help against it: another replica may have had the copy
};

// One after the other, each kind as often as any other (give or take one), with pauses from `least` to `most` between
// the end of one and the start of the next; all over by `end`.
std::vector<Step> draw_lane(Random& random, const std::vector<FaultKind>& kinds, milliseconds least, milliseconds most,
                            milliseconds end);

// What can happen to producers and workers; the crew knows how.
std::vector<FaultKind> process_faults(milliseconds lease);

}  // namespace chaos
