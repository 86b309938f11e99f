#include "consumer/lane_health.h"

#include <utility>

namespace delayqueue {

void LaneHealth::leave() {
  health_.leave();
  requests_.refused.reset();
  requests_.finished = requests_.moved = false;
}

Purpose LaneHealth::purpose_in(Purpose round_trip, bool stopping) const {
  if (requests_.refused || pause().count() > 0) return {};
  if (works()) return round_trip;
  if (requests_.under_way > 0 || !round_trip.settle) return {};
  return stopping || !has_joined() ? kSettle : kSettleAndTake;
}

void LaneHealth::fail(const redis::Failure& failure, const std::string& where, std::optional<milliseconds> lease) {
  partition_.queue.reporter.counters().failed(failure.text);
  const std::string text = health_.failed(failure.text, pauses_after(failure, lease));
  partition_.queue.reporter.failed(&partition_.queue, partition_.named(text), health_.is_new_failure(), {where, ""});
}

void LaneHealth::read_success(const std::string& where, bool holds_back) {
  // What a lane joins with may succeed while its moves fail.
  const bool any = std::exchange(requests_.finished, false);
  const bool finished = any && health_.state() != Health::joining;
  if (any) health_.joined_only();
  if (!has_joined() || holds_back) return;
  if (!finished && (health_.is_failing() || requests_.under_way > 0)) return;
  if (const auto text = health_.succeeded(where)) {
    partition_.queue.reporter.recovered(&partition_.queue, partition_.named(*text), {where, ""});
  }
}

}  // namespace delayqueue
