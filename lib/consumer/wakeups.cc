#include "consumer/wakeups.h"

namespace delayqueue {

// Another consumer is woken if more waits than this one can take: once, until there is room again.
bool Wakeups::read(bool full, bool more_ready) {
  const auto marker = listener_.read();
  const bool found = marker.has_value();
  if (found && marker->foreign) clear_wake_ = true;  // there may be a million more
  ready_ = ready_ || (found && marker->ready);
  const bool signalled = std::exchange(overflow_signalled_, full);
  if ((full && more_ready && !signalled) || (found && full)) wake_another_ = true;
  return found;
}

void Wakeups::add(RoundTrip& round_trip, const store::Store& store, bool stopping) {
  redis::Pipeline& pipeline = round_trip.pipeline();
  if (std::exchange(clear_wake_, false)) store.clear_wake(pipeline);
  if (std::exchange(wake_another_, false)) store.wake(pipeline);
  if (stopping && std::exchange(is_watcher_, false)) store.leave_watch(pipeline, name_);
}

}  // namespace delayqueue
