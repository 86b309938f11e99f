#include "consumer/prefetcher.h"

#include "store/record.h"

#include <algorithm>
#include <utility>

namespace delayqueue {
namespace {

using run::minus;

constexpr std::size_t kGrowth = 4;  // after a take that returned all that it asked for, there may be so many times more

int retries_left_of(const store::Taken& taken, const std::string& id) {
  const auto other = taken.other_retries_left.find(id);
  return other != taken.other_retries_left.end() ? other->second : taken.retries_left;
}

// Of each call; only the first one may return messages from retry.
std::vector<store::TakeLimits> limits_of(const planning::Take& take) {
  std::vector<store::TakeLimits> limits;
  if (take.first.total == 0) return limits;
  limits.assign(1 + take.further, {store::kBatch});
  limits.front() = take.first;
  return limits;
}

}  // namespace

void Prefetcher::describe(planning::LaneView& view) const {
  view.coming = coming_;
  view.coming_retries = coming_retries_;
  view.more_ready = more_ready_;
  view.expected = expected_;
  view.lists_empty = lists_empty_;
  view.full = full_;
  view.retry_left = retry_left_;
  view.since_retry = since_retry_;
  poison_guard_.describe(view);
}

void Prefetcher::take(RoundTrip& round_trip, const store::Store& store, const planning::Take& take) {
  const Clock::time_point sent_at = Clock::now();
  for (const store::TakeLimits& requested : limits_of(take)) {
    round_trip.expect(
        store.ready2unack(round_trip.pipeline(), requested, lease_),
        [this, requested, sent_at](const auto& taken) {
          end_take(requested);
          const store::Taken result = taken.get();
          const std::size_t more = std::max(kGrowth * result.popped, minus(expected_, result.popped));
          read_taken(requested, sent_at, result, result.popped == requested.total ? more : 0);
        },
        [this, requested] { end_take(requested); });
    begin_take(requested);
  }
}

void Prefetcher::begin_take(const store::TakeLimits& limits) {
  answers_.begin();
  coming_ += limits.total;
  coming_retries_ += limits.retry_max;
  poison_guard_.sent(limits);
}

void Prefetcher::end_take(const store::TakeLimits& limits) {
  answers_.end();
  coming_ = minus(coming_, limits.total);
  coming_retries_ = minus(coming_retries_, limits.retry_max);
  if (limits.retry_max > 0) poison_guard_.ended();
}

void Prefetcher::take_due(RoundTrip& round_trip, const store::Store& store, const planning::Take& take, bool with_ids,
                          const store::Watcher& watcher) {
  const Clock::time_point sent_at = Clock::now();
  for (const store::TakeLimits& requested : limits_of(take)) {
    // A small take moves a whole batch, and the next takes find them in ready. A large one moves only what it takes, so
    // that nothing is moved twice.
    const std::size_t moved = requested.total < kLargeTake ? store::kBatch : requested.total;
    round_trip.expect(
        store.pending2unack(round_trip.pipeline(), with_ids, watcher, {moved, requested.total}, lease_),
        [this, requested, moved, sent_at](const auto& answer) {
          end_take(requested);
          const auto [promoted, taken] = answer.get();
          listener_.promoted(promoted, promoted.moved == moved);
          if (!taken) return expect_more(promoted.moved);
          read_taken(requested, sent_at, *taken, minus(promoted.moved, taken->popped));
        },
        [this, requested] { end_take(requested); });
    begin_take(requested);
  }
}

// more: the messages that are left in ready, as far as is known.
void Prefetcher::read_taken(const store::TakeLimits& limits, Clock::time_point sent_at, const store::Taken& taken,
                            std::size_t more) {
  more_ready_ = more > 0;
  expected_ = more;
  full_ = taken.popped == limits.total;
  const bool late = answers_.measure(Clock::now() - sent_at);
  lists_empty_ = !more_ready_ && taken.retry_left == 0 && taken.popped <= std::exchange(promoted_, 0);
  retry_left_ = taken.retry_left;
  Taken result{{}, taken.now_us, sent_at, {}, taken.foreign, taken.foreign_id};
  for (const auto& [id, attempt] : taken.messages) {
    auto delivery = std::make_shared<InFlightMessage>(
        InFlightMessage::Taken{id, queue_, attempt, retries_left_of(taken, id), taken.lease_us, line_, lane_},
        sent_at + lease_);
    delivery->may_have_headers = taken.has_headers;
    if (id == taken.timed_id) delivery->due = sent_at - taken.late;
    const bool foreign = !store::is_id(id);
    if (foreign) delivery->content = InFlightMessage::Content::foreign;
    if (foreign && result.foreign_id.empty()) result.foreign_id = id;
    (foreign ? result.foreign : result.deliveries).push_back(std::move(delivery));
  }
  bodies_.add(result.deliveries, late);
  if (limits.retry_max > 0) poison_guard_.read(limits, taken, result.deliveries);
  count_share(taken);
  listener_.taken(result);
}

void Prefetcher::count_share(const store::Taken& taken) {
  since_retry_ += taken.popped - taken.from_retry;
  since_retry_ = minus(since_retry_, (planning::kRetryShare - 1) * taken.from_retry);
  if (taken.from_retry > 0) handled_ = 0;
  if (!retry_waits()) since_retry_ = std::min(since_retry_, planning::kRetryShare - 1);
}

}  // namespace delayqueue
