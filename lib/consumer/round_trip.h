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
struct Purpose {
  bool settle = false;
  bool take = false;
};

struct RoundTrip {
  RoundTrip(redis::Connection& connection, Purpose what) : pipeline(connection), purpose(what) {}

  redis::Pipeline pipeline;
  const Purpose purpose;

  // The rest is remembered by Settler, LeaseKeeper, Prefetcher and Maintenance.
  std::optional<store::Answer<store::Reclaimed>> reclaimed;
  std::optional<store::Answer<store::Promoted>> promoted;
  std::optional<store::Answer<std::size_t>> persisted;
  std::size_t persists = 0;
  std::size_t settles = 0;
  WriteConcern::Asked durable;
  bool renews = false;
  bool maintains = false;
};

// Those under way, in the order of their answers.
using RoundTrips = std::deque<RoundTrip>;

inline bool is_under_way(const RoundTrips& round_trips, bool Purpose::*purpose) {
  return std::any_of(round_trips.begin(), round_trips.end(),
                     [&](const RoundTrip& round_trip) { return round_trip.purpose.*purpose; });
}

}  // namespace delayqueue
