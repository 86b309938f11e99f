// The statistics of a queue, with their names in JSON.
#pragma once

#include <delayqueue/inspector.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "output/text.h"

namespace dqctl {

struct Total {
  const char* name;
  std::uint64_t delayqueue::Totals::*member;
};

inline constexpr std::array<Total, 12> kTotals = {{{"sent", &delayqueue::Totals::sent},
                                                   {"delivered", &delayqueue::Totals::delivered},
                                                   {"acked", &delayqueue::Totals::acked},
                                                   {"nacked", &delayqueue::Totals::nacked},
                                                   {"retried", &delayqueue::Totals::retried},
                                                   {"dead_lettered", &delayqueue::Totals::dead_lettered},
                                                   {"expired", &delayqueue::Totals::expired},
                                                   {"cancelled", &delayqueue::Totals::cancelled},
                                                   {"redriven", &delayqueue::Totals::redriven},
                                                   {"purged", &delayqueue::Totals::purged},
                                                   {"skipped", &delayqueue::Totals::skipped},
                                                   {"foreign", &delayqueue::Totals::foreign}}};

// Events per second between two readings; unset if Redis' clock or the statistics were set back in between.
inline std::optional<double> rate_of(const Total& total, const delayqueue::Counts& before,
                                     const delayqueue::Counts& now) {
  const auto seconds = std::chrono::duration<double>(span_between(before.now, now.now)).count();
  const std::uint64_t first = before.totals.*total.member;
  const std::uint64_t last = now.totals.*total.member;
  if (seconds <= 0 || last < first) return std::nullopt;
  return static_cast<double>(last - first) / seconds;
}

}  // namespace dqctl
