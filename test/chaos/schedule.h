// The schedule of faults. It depends on the seed alone.
#pragma once

#include "chaos/mix.h"

namespace chaos {

using std::chrono::milliseconds;

struct Step {
  milliseconds at{};       // after the start
  std::string kind{};      // one of the kinds of its lane
  milliseconds lasts{};    // the duration, if it has one
  milliseconds rest{};     // least time after the end of the previous step
  std::uint64_t pick = 0;  // random number that chooses a process or a node
};

std::string described(const Step& step);  // for the journal: the kind and the duration

// A kind of fault, with the limits of its duration.
struct FaultKind {
  std::string name{};
  milliseconds least{};
  milliseconds most{};
  bool loses_copies = false;  // replicas(1) does not protect against it, because another replica may have the copy
};

// Draws steps that follow each other, each kind equally often (plus or minus one), with pauses from `least` to `most`
// between them. All of them end by `end`.
std::vector<Step> draw_lane(Random& random, const std::vector<FaultKind>& kinds, milliseconds least, milliseconds most,
                            milliseconds end);

// The faults of producers and workers, which Crew applies.
std::vector<FaultKind> process_faults(milliseconds lease);

}  // namespace chaos
