#include "consumer/prefetcher.h"

#include "store/headers.h"
#include "store/record.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kRetryShare = 8;  // one of so many messages taken is for retry

// The prefetch is the number of messages handled in a span: kPrefetchSpan, or kRoundTripsToHandler times the latency of
// a take if that is longer, at most kLongestPrefetchSpan.
constexpr milliseconds kPrefetchSpan{10};
constexpr milliseconds kLongestPrefetchSpan{100};
constexpr int kRoundTripsToHandler = 4;

// Limits of one fetch: the number of bodies, and their bytes, estimated from the latest sizes.
constexpr std::size_t kMostFetched = kMostBatches * store::kBatch;
constexpr double kBodyBytes = 256 * 1024;

// An answer is late after kUsualTimes times the latency of a take, within these bounds.
constexpr int kUsualTimes = 4;
constexpr milliseconds kShortestPatience{50};
constexpr milliseconds kLongestPatience{500};

int retries_left_of(const store::Taken& taken, const std::string& id) {
  const auto other = taken.other_retries_left.find(id);
  return other != taken.other_retries_left.end() ? other->second : taken.retries_left;
}

}  // namespace

std::size_t Prefetcher::free_workers(const WorkerShare& share) const {
  const std::size_t free = std::min(minus(share.idle(), share.load.waiting + fetching_.size()), share.room);
  if (free > 0 || std::min(share.load.idle, share.load.allowed) == 0 || !retry_is_due()) return free;
  // The worker that is kept free for retry takes no first deliveries.
  return share.redelivers || fetches_redelivered() ? 0 : 1;
}

bool Prefetcher::fetches_redelivered() const {
  return std::any_of(fetching_.begin(), fetching_.end(),
                     [](const InFlightPtr& delivery) { return delivery->message.attempt() > 1; });
}

std::size_t Prefetcher::room(const WorkerShare& share) const {
  const std::size_t waiting = share.load.waiting + fetching_.size() + coming_ + share.siblings;
  return std::min({minus(workers_ + share.prefetch, share.load.running + waiting),
                   minus(share.load.places, waiting + share.claimed), share.room});
}

bool Prefetcher::retry_is_due() const { return since_retry_ + 1 >= kRetryShare && retry_waits(); }

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
          read_taken(requested, sent_at, result, result.popped == requested.total);
        },
        [this, requested] { end_take(requested); });
    begin_take(requested);
  }
}

void Prefetcher::begin_request() {
  if (requests_++ == 0) waits_since_ = Clock::now();
}

void Prefetcher::end_request() {
  requests_ = minus(requests_, 1);
  waits_since_ = Clock::now();
}

void Prefetcher::begin_take(const store::TakeLimits& limits) {
  begin_request();
  coming_ += limits.total;
  coming_retries_ += limits.retry_max;
  poison_guard_.sent(limits);
}

void Prefetcher::end_take(const store::TakeLimits& limits) {
  end_request();
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
          if (!taken) return expect_more();
          read_taken(requested, sent_at, *taken, promoted.moved > taken->popped);
        },
        [this, requested] { end_take(requested); });
    begin_take(requested);
  }
}

// more: messages are left in ready, as far as is known.
void Prefetcher::read_taken(const store::TakeLimits& limits, Clock::time_point sent_at, const store::Taken& taken,
                            bool more) {
  more_ready_ = more;
  full_ = taken.popped == limits.total;
  const Clock::duration took = Clock::now() - sent_at;
  const bool late = took >= patience();
  latency_ = latency_.count() > 0 ? 0.9 * latency_ + 0.1 * Seconds(took) : Seconds(took);
  shortest_take_ = shortest_take_.count() > 0 ? std::min(shortest_take_, Seconds(took)) : Seconds(took);
  lists_empty_ = !more && taken.retry_left == 0 && taken.popped <= std::exchange(promoted_, 0);
  retry_left_ = taken.retry_left;
  Taken result{{}, taken.now_us, sent_at, {}, taken.foreign, taken.foreign_id};
  for (const auto& [id, attempt] : taken.messages) {
    auto delivery = std::make_shared<InFlightMessage>(
        InFlightMessage::Taken{id, queue_, attempt, retries_left_of(taken, id), taken.lease_us, line_, lane_},
        sent_at + lease_);
    delivery->may_have_headers = taken.has_headers;
    if (id == taken.timed_id) delivery->due = sent_at - taken.late;
    delivery->foreign = !store::is_id(id);
    if (delivery->foreign && result.foreign_id.empty()) result.foreign_id = id;
    (delivery->foreign ? result.foreign : result.deliveries).push_back(std::move(delivery));
  }
  fetching_.insert(fetching_.end(), result.deliveries.begin(), result.deliveries.end());
  if (late) came_late_ += result.deliveries.size();
  if (limits.retry_max > 0) poison_guard_.read(limits, taken, result.deliveries);
  count_share(taken);
  listener_.taken(result);
}

void Prefetcher::count_share(const store::Taken& taken) {
  since_retry_ += taken.popped - taken.from_retry;
  since_retry_ = minus(since_retry_, (kRetryShare - 1) * taken.from_retry);
  if (!retry_waits()) since_retry_ = std::min(since_retry_, kRetryShare - 1);
}

// Takes and fetches overlap, so deliveries that wait for a request may follow others whose bodies are requested.
std::size_t Prefetcher::first_to_fetch() const {
  const auto waits = [](const InFlightPtr& delivery) { return !delivery->requested; };
  return static_cast<std::size_t>(std::find_if(fetching_.begin(), fetching_.end(), waits) - fetching_.begin());
}

void Prefetcher::fetch(RoundTrip& round_trip, const store::Store& store) {
  const std::size_t first = first_to_fetch();
  if (first == fetching_.size()) return;
  const auto fit = std::max<std::size_t>(1, static_cast<std::size_t>(kBodyBytes / body_size_));
  const std::size_t end = std::min(fetching_.size(), first + std::min(fit, kMostFetched));
  std::vector<std::string> ids;
  bool with_headers = false;
  for (std::size_t i = first; i < end && !fetching_[i]->requested; ++i) {
    ids.push_back(fetching_[i]->message.id());
    with_headers = with_headers || fetching_[i]->may_have_headers;
  }
  const Fetch fetch{fetching_[first].get(), ids.size()};
  using Stored = redis::Answer<Bodies>;
  const auto headers = with_headers ? std::optional<Stored>(store.headers(round_trip.pipeline(), ids)) : std::nullopt;
  round_trip.expect(
      store.bodies(round_trip.pipeline(), ids),
      [this, headers, fetch](const auto& bodies) {
        const std::size_t begin = end_fetch(fetch);
        read_bodies(bodies.get(), headers ? headers->get() : Bodies(), begin, fetch.count);
      },
      [this, fetch] {
        end_fetch(fetch);
        body_size_ = kBodyBytes;  // perhaps too much to arrive in time: the next are fetched one by one
      });
  for (std::size_t i = 0; i < fetch.count; ++i) fetching_[first + i]->requested = true;
  begin_request();
}

// The request has an answer, or is dropped. Returns where its deliveries begin: they have stayed together.
std::size_t Prefetcher::end_fetch(const Fetch& fetch) {
  end_request();
  const auto is_first = [&](const InFlightPtr& delivery) { return delivery.get() == fetch.first; };
  const auto begin = std::find_if(fetching_.begin(), fetching_.end(), is_first);
  const auto first = static_cast<std::size_t>(begin - fetching_.begin());
  const std::size_t end = std::min(first + fetch.count, fetching_.size());
  for (std::size_t i = first; i < end; ++i) fetching_[i]->requested = false;
  return first;
}

// `headers`: of the same messages, packed; empty if none of them has any.
void Prefetcher::read_bodies(Bodies bodies, const Bodies& headers, std::size_t first, std::size_t most) {
  Fetched fetched;
  const std::size_t count = std::min({bodies.size(), most, fetching_.size() - first});
  const auto begin = fetching_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = begin + static_cast<std::ptrdiff_t>(count);
  for (auto* group : {&fetched.first, &fetched.redelivered, &fetched.expired}) group->reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    InFlightPtr& delivery = fetching_[first + i];
    std::optional<std::string>& body = bodies[i];
    delivery->expired = !body;
    if (!body) continue;
    const bool has_headers = i < headers.size() && headers[i];
    const std::size_t size = body->size() + (has_headers ? headers[i]->size() : 0);
    body_size_ = 0.9 * body_size_ + 0.1 * static_cast<double>(std::max<std::size_t>(size, 64));
    MessageContents::set_payload(delivery->message, std::move(*body));
    if (has_headers) {
      auto unpacked = store::unpacked(*headers[i]);
      if (!unpacked) fetched.damaged_id = delivery->message.id();
      MessageContents::set_headers(delivery->message, std::move(unpacked).value_or(Headers()));
    }
  }
  // Nothing throws from here on until the listener has them. If memory ran out above, they are fetched again.
  for (auto delivery = begin; delivery != end; ++delivery) {
    auto& group = (*delivery)->expired                 ? fetched.expired
                  : (*delivery)->message.attempt() > 1 ? fetched.redelivered
                                                       : fetched.first;
    group.push_back(std::move(*delivery));
  }
  fetching_.erase(begin, end);
  poison_guard_.forget(fetched.expired);
  listener_.fetched(std::move(fetched));
}

std::optional<Prefetcher::Clock::time_point> Prefetcher::late_at() const {
  return requests_ > 0 && !is_late() ? std::optional(waits_since_ + patience()) : std::nullopt;
}

Prefetcher::Clock::duration Prefetcher::patience() const {
  const auto usual = std::chrono::duration_cast<Clock::duration>(kUsualTimes * latency_);
  return std::clamp<Clock::duration>(usual, kShortestPatience, kLongestPatience);
}

std::vector<InFlightPtr> Prefetcher::abandon_late(std::size_t most) {
  const auto is_requested = [](const InFlightPtr& delivery) { return delivery->requested; };
  const auto unrequested = std::find_if(fetching_.rbegin(), fetching_.rend(), is_requested) - fetching_.rbegin();
  const std::size_t count = std::min({most, std::exchange(came_late_, 0), static_cast<std::size_t>(unrequested)});
  const auto first = fetching_.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<InFlightPtr> late(std::make_move_iterator(first), std::make_move_iterator(fetching_.end()));
  fetching_.erase(first, fetching_.end());
  poison_guard_.forget(late);
  return late;
}

// Adapts the prefetch to the speed of the handlers: fast ones never wait for the network, slow ones leave messages to
// other consumers.
void Prefetcher::handled(std::size_t returned, const std::vector<InFlightPtr>& done) {
  poison_guard_.forget(done);
  handled_lately_ += returned;
  const Clock::time_point now = Clock::now();
  const Seconds counted = now - counting_since_;
  const Seconds span = std::clamp<Seconds>(kRoundTripsToHandler * latency_, kPrefetchSpan, kLongestPrefetchSpan);
  if (counted < span / 2) return;
  const double in_span = static_cast<double>(handled_lately_) * (span / counted);
  const auto wanted = static_cast<std::size_t>(std::min(in_span, static_cast<double>(most_prefetched_)));
  prefetch_ = std::max(wanted, prefetch_ / 2);
  handled_lately_ = 0;
  counting_since_ = now;
}

}  // namespace delayqueue
