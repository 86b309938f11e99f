// How often each of a consumer's queues is polled.
#pragma once

#include <delayqueue/options.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace delayqueue {

// So many queues are polled every poll_interval. With more and with wake-ups, each is polled less often, so that the
// number of requests stays the same, up to the factor kSlowestPoll.
inline constexpr int kPolledOften = 10;
inline constexpr double kSlowestPoll = 10;
inline constexpr std::size_t kMostPolled = 100;  // the partitions above 0 are polled as if there were so many queues

// How much less often than with one queue each of so many is polled.
inline milliseconds stretched(milliseconds interval, std::size_t queues) {
  const auto factor = static_cast<double>(queues) / kPolledOften;
  return milliseconds(std::llround(static_cast<double>(interval.count()) * std::clamp(factor, 1.0, kSlowestPoll)));
}

}  // namespace delayqueue
