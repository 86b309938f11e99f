#include "consumer/prefetcher.h"

#include "store/record.h"

#include <algorithm>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kRetryShare = 8;  // one of so many messages taken is for retry
constexpr std::size_t kGrowth = 4;  // after a take that returned all that it asked for, there may be so many times more

int retries_left_of(const store::Taken& taken, const std::string& id) {
  const auto other = taken.other_retries_left.find(id);
  return other != taken.other_retries_left.end() ? other->second : taken.retries_left;
}

}  // namespace

std::size_t Prefetcher::free_workers(const WorkerShare& share) const {
  const std::size_t free = std::min(minus(share.idle(), share.load.waiting + bodies_.size()), share.room);
  if (free > 0 || std::min(share.load.idle, share.load.allowed) == 0 || !retry_is_due()) return free;
  // The worker that is kept free for retry takes no first deliveries.
  return share.redelivers || bodies_.has_redelivered() ? 0 : 1;
}

std::size_t Prefetcher::room(const WorkerShare& share) const {
  const std::size_t waiting = share.load.waiting + bodies_.size() + coming_ + share.siblings;
  return std::min({minus(workers_ + share.prefetch, share.load.running + waiting),
                   minus(share.load.places, waiting + share.claimed), share.room});
}

bool Prefetcher::retry_is_due() const { return std::max(since_retry_, handled_) + 1 >= kRetryShare && retry_waits(); }

store::TakeLimits Prefetcher::limits(const WorkerShare& share) const {
  store::TakeLimits limits;
  // While a take is under way, a further one returns nothing from retry.
  limits.retry_max = is_taking() || poison_guard_.blocks_retry() ? 0 : free_workers(share);
  limits.total = std::min(std::max(room(share), limits.retry_max), store::kBatch);
  limits.retry_share = std::min((since_retry_ + limits.total) / kRetryShare, limits.retry_max);
  // While retry waits, its share also limits the number of first deliveries, however much room there is.
  const std::size_t most_new = minus((kRetryShare - 1) * (limits.retry_share + 1), since_retry_);
  if (retry_waits()) limits.total = std::min(limits.total, most_new + limits.retry_share);
  poison_guard_.plan(limits);
  return limits;
}

std::size_t Prefetcher::batches(const WorkerShare& share) const {
  if (!full_ || retry_waits()) return 1;
  return std::clamp<std::size_t>((room(share) + store::kBatch - 1) / store::kBatch, 1, kMostBatches);
}

// Only the first take may return messages from retry.
std::vector<store::TakeLimits> Prefetcher::limits_of_batches(const WorkerShare& share) const {
  std::vector<store::TakeLimits> all{limits(share)};
  const std::size_t further = batches(share) - 1;
  if (further > 0) {
    store::TakeLimits& first = all[0];
    first.total = std::min(first.total, minus(room(share), further * store::kBatch));
    first.retry_max = std::min(first.retry_max, first.total);
    first.retry_share = std::min(first.retry_share, first.total);
  }
  for (std::size_t i = 0; i < further; ++i) all.push_back({store::kBatch});
  return all;
}

void Prefetcher::take(RoundTrip& round_trip, const store::Store& store, const WorkerShare& share) {
  const Clock::time_point sent_at = Clock::now();
  for (const store::TakeLimits& requested : limits_of_batches(share)) {
    if (requested.total == 0) return;
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

void Prefetcher::take_due(RoundTrip& round_trip, const store::Store& store, const WorkerShare& share, bool with_ids,
                          const store::Watcher& watcher) {
  const Clock::time_point sent_at = Clock::now();
  for (const store::TakeLimits& requested : limits_of_batches(share)) {
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
  since_retry_ = minus(since_retry_, (kRetryShare - 1) * taken.from_retry);
  if (taken.from_retry > 0) handled_ = 0;
  if (!retry_waits()) since_retry_ = std::min(since_retry_, kRetryShare - 1);
}

}  // namespace delayqueue
