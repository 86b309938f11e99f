#include "consumer/clock_monitor.h"

#include <cstdio>
#include <utility>

namespace delayqueue {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

constexpr microseconds kJump{1'000'000};
constexpr microseconds kOtherClock{5'000'000};  // the clocks of two servers may differ by this

}  // namespace

std::optional<ClockMonitor::Jump> ClockMonitor::observe(const ClockSample& sample) {
  if (sample.now_us == 0 || sample.answered <= last_.answered) return std::nullopt;
  const ClockSample before = std::exchange(last_, sample);
  if (before.now_us == 0) {
    new_connection_ = false;
    return std::nullopt;
  }
  const microseconds there(sample.now_us - before.now_us);
  const auto most_here = duration_cast<microseconds>(sample.answered - before.sent_at);
  const auto least_here = duration_cast<microseconds>(sample.sent_at - before.answered);
  Jump jump;
  if (there > most_here) jump.by = there - most_here;
  if (there < least_here) jump.by = there - least_here;
  jump.other_server = std::exchange(new_connection_, false);
  const microseconds limit = (jump.other_server ? kOtherClock : kJump) + most_here / 1000;
  if (jump.by <= limit && jump.by >= -limit) return std::nullopt;
  return jump;
}

std::string to_text(const ClockMonitor::Jump& jump, const std::string& where) {
  const bool forward = jump.by.count() > 0;
  char by[40];
  std::snprintf(by, sizeof by, "%+.1f s", std::chrono::duration<double>(jump.by).count());
  const std::string what = jump.other_server ? "the clock of redis at " + where + " is " + by + " off the one before"
                                             : "Redis' clock jumped by " + std::string(by) + " at " + where;
  return what + (forward
                     ? ": scheduled messages became due, and leases ended, early by as much (unless this machine "
                       "slept so long)"
                     : ": scheduled messages and backoffs, and what died with its consumer, wait longer by as much");
}

}  // namespace delayqueue
