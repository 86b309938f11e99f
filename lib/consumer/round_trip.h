// A consumer's trip to Redis and back: one pipeline, and what it was to ask for. Used by the consumer's thread only.
#pragma once

#include "queue/write_concern.h"
#include "redis/pipeline.h"
#include "store/moves.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>

namespace delayqueue {

// There are two errands, and each is on one trip at a time, so that its parts remember one pipeline's answers only:
// to settle (and renew, fetch bodies, and all that is done now and then), and to take (after moving what is due).
// Redis works on the one while the consumer works on what the other brought back. The two lean on each other in
// nothing but this: what is late must be renewed and settled before overdue leases are taken back.
struct Errands {
  bool settle = false;
  bool take = false;
};

struct Trip {
  Trip(redis::Connection& connection, Errands what) : pipeline(connection), errands(what) {}

  redis::Pipeline pipeline;
  const Errands errands;

  // The rest is remembered by Settling, Held, Intake and Housekeeping.
  std::optional<store::Answer<store::Reclaimed>> reclaimed;
  std::optional<store::Answer<store::Promoted>> promoted;
  std::optional<store::Answer<std::size_t>> persisted;
  std::size_t persists = 0;
  std::size_t settles = 0;
  Durable::Asked durable;
  bool renews = false;
  bool keeps_house = false;
};

// Those under way, in the order of their answers.
using Trips = std::deque<Trip>;

inline bool is_under_way(const Trips& trips, bool Errands::*errand) {
  return std::any_of(trips.begin(), trips.end(), [&](const Trip& trip) { return trip.errands.*errand; });
}

}  // namespace delayqueue
