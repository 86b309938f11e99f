#include "consumer/lane_health.h"

#include "consumer/consumer_connection.h"

#include <utility>

namespace delayqueue {

void LaneHealth::leave() {
  joined_ = works_ = only_joined_ = false;
  requests_.refused = nullptr;
  requests_.finished = requests_.moved = false;
}

Purpose LaneHealth::purpose_in(Purpose round_trip, bool stopping) const {
  if (requests_.refused != nullptr || pause().count() > 0) return {};
  if (works_) return round_trip;
  if (requests_.under_way > 0 || !round_trip.settle) return {};
  return stopping || !joined_ ? kSettle : kSettleAndTake;
}

void LaneHealth::fail(const std::exception& e, const std::string& where, std::optional<milliseconds> lease) {
  works_ = false;
  partition_.queue.reporter.counters().failed(e.what());
  const std::string text = backoff_.failed(e.what(), pauses_after(e, lease), Clock::now());
  partition_.queue.reporter.failed(&partition_.queue, partition_.named(text), backoff_.is_new(), {where, ""});
}

void LaneHealth::read_success(const std::string& where, bool holds_back) {
  // What a lane joins with may succeed while its moves fail.
  const bool finished = std::exchange(requests_.finished, false) && !std::exchange(only_joined_, false);
  if (!joined_ || holds_back) return;
  if (!finished && (backoff_.is_failing() || requests_.under_way > 0)) return;
  if (backoff_.is_failing()) {
    partition_.queue.reporter.recovered(
        &partition_.queue,
        partition_.named("Redis answers again at " + where + "; it failed " + backoff_.duration_text(Clock::now())),
        {where, ""});
  }
  backoff_.succeeded(Clock::now());
  works_ = true;
}

}  // namespace delayqueue
