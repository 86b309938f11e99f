#include "consumer/wakeups.h"

#include <delayqueue/error.h>

#include <utility>

namespace delayqueue {

void Wakeups::receive(const WakeupListener::Marker& marker) {
  const WakeupListener::Marker before = received_.value_or(marker);
  received_ = marker;
  received_->ready = marker.ready || before.ready;
  received_->foreign = marker.foreign || before.foreign;
}

// Another consumer is woken if more waits than this one can take: once, until there is room again.
std::optional<WakeupListener::Marker> Wakeups::read(bool full, bool more_ready) {
  auto marker = std::exchange(received_, std::nullopt);
  if (marker && marker->foreign) clear_wake_ = true;  // there may be a million more
  const bool signalled = std::exchange(overflow_signalled_, full);
  if ((full && more_ready && !signalled) || (marker && full)) wake_another_ = true;
  return marker;
}

void Wakeups::add(RoundTrip& round_trip, bool stopping) {
  redis::Pipeline& pipeline = round_trip.pipeline();
  const store::Store& moves = partition_.moves;
  if (std::exchange(clear_wake_, false)) moves.clear_wake(pipeline);
  if (std::exchange(wake_another_, false)) {
    if (is_home()) {
      moves.wake(pipeline);
    } else {
      partition_.queue.add_marker(partition_.number, "0");
    }
  }
  if (stopping && (is_watcher_ || lost_marker_)) {
    is_watcher_ = lost_marker_ = false;
    moves.leave_watch(pipeline, partition_.queue.consumer);
    forward_marker(round_trip);
  }
  if (is_home()) add_markers(round_trip);
}

void Wakeups::add_markers(RoundTrip& round_trip) {
  if (std::exchange(partition_.queue.clears_wakes, false)) partition_.moves.clear_wakes(round_trip.pipeline());
  for (const auto& [number, due] : std::exchange(partition_.queue.markers, {})) {
    partition_.moves.wake_for(round_trip.pipeline(), number, due);
  }
}

void Wakeups::forward_marker(RoundTrip& round_trip) {
  if (is_home()) return;
  round_trip.expect(partition_.moves.take_marker(round_trip.pipeline()), [this](const auto& answer) {
    try {
      if (const auto due = answer.get()) partition_.queue.add_marker(partition_.number, *due);
    } catch (const ReplyError&) {  // without the right to it other consumers find the message when they poll
    }
  });
}

}  // namespace delayqueue
