#include "consumer/intake.h"

#include "redis/connection.h"
#include "store/headers.h"
#include "store/record.h"

#include <delayqueue/error.h>

#include <exception>
#include <iterator>
#include <new>

namespace delayqueue {
namespace {

// To pass over a message costs Redis about 1 us: a scan passes over so many, with a pause before the next one.
constexpr std::size_t kMostPassed = 1000;
constexpr milliseconds kPause{100};

bool has(const std::vector<InFlightPtr>& deliveries, const InFlightPtr& one) {
  return std::find(deliveries.begin(), deliveries.end(), one) != deliveries.end();
}

// Limits of one fetch: the number of bodies, and their bytes, estimated from the latest sizes.
constexpr std::size_t kMostFetched = kMostBatches * store::kBatch;
constexpr double kBodyBytes = 256 * 1024;

// A body is large if it has more bytes, and slow if it takes longer.
constexpr std::size_t kLarge = 64 * 1024;
constexpr milliseconds kSlowAnswer{500};

// Limits of the bodies whose sizes are read first: sizes in one round trip, and lone fetches of a lane.
constexpr std::size_t kMostSizes = store::kBatch;
constexpr std::size_t kMostLone = 2;
constexpr std::size_t kMoreTogether = 1024;  // bytes, after a success; after a failure a quarter is left
constexpr milliseconds kLonePause{1000};     // after a lone fetch that could not begin

using Content = InFlightMessage::Content;

std::vector<InFlightPtr>& group_of(const InFlightMessage& delivery, BodyFetcher::Fetched& fetched) {
  if (delivery.content == Content::expired) return fetched.expired;
  return delivery.message.attempt() > 1 ? fetched.redelivered : fetched.first;
}

// Whether it is an occurrence of a schedule, which must not be handled while an earlier one is alive.
bool must_not_overlap(const InFlightMessage& delivery) {
  if (!store::may_be_occurrence(delivery.message.id())) return false;
  const auto names = store::occurrence_of(delivery.message.headers());
  return names && names->skips;
}

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

// ---- PoisonGuard ----------------------------------------------------------------------------------------------------

bool PoisonRuns::may_add() const {
  return std::all_of(running_.begin(), running_.end(),
                     [](const Running& one) { return one.delivery->runs_longer_than(one.lease); });
}

void PoisonRuns::remove(const std::vector<InFlightPtr>& done) {
  const auto over = [&](const Running& one) { return has(done, one.delivery); };
  running_.erase(std::remove_if(running_.begin(), running_.end(), over), running_.end());
}

void PoisonGuard::describe(planning::LaneView& view) const {
  view.expects_poison = runs_.expects_one(this);
  view.resting = rescan_at_ && Clock::now() < *rescan_at_;
  view.scanning = scanning_;
  view.owes_poison = owed_;
  view.to_skip = left_;
}

// Possible poison messages that are met for the first time get a pause, because most leave retry soon. After it one
// scan passes over all of retry. None is taken during a scan, so that they keep their order.
void PoisonGuard::read(const store::TakeLimits& limits, const store::Taken& taken,
                       const std::vector<InFlightPtr>& deliveries) {
  for (const InFlightPtr& delivery : deliveries) {
    const std::vector<std::string>& poison = taken.possible_poison;
    const bool possible = std::find(poison.begin(), poison.end(), delivery->message.id()) != poison.end();
    if (possible) runs_.add(delivery, lease_);
  }
  owed_ = taken.further_poison > 0 && limits.poison_max == 0;
  const Clock::time_point now = Clock::now();
  if (taken.further_poison == 0) {
    scanning_ = may_hide_others_ = false;
    rescan_at_.reset();
  } else if (scanning_) {
    left_ = std::min(left_, taken.retry_left) -
            std::min({left_, taken.retry_left, taken.further_poison, limits.poison_skip});
    scanning_ = left_ > 0;
    may_hide_others_ = false;
    rescan_at_ = scanning_ ? now : now + kPause;
  } else if (!rescan_at_) {
    may_hide_others_ = true;
    rescan_at_ = now + kPause;
  } else if (now >= *rescan_at_) {
    scanning_ = true;
    left_ = std::min(taken.retry_left, kMostPassed);
  }
}

// ---- LoneFetch ------------------------------------------------------------------------------------------------------

LoneFetch::LoneFetch(InFlightPtr delivery, Endpoint& endpoint, const store::Moves& moves, BackgroundCalls& calls)
    : delivery_(std::move(delivery)), call_(calls) {
  call_.start([id = delivery_->message.id(), with_headers = delivery_->may_have_headers, &endpoint, &moves,
               link = link_] { return fetch(id, with_headers, endpoint, moves, *link); });
}

void LoneFetch::cancel() {
  const std::lock_guard lock(link_->mutex);
  link_->cancelled = true;
  if (link_->handle != nullptr) link_->handle->shut_down();
}

LoneFetch::Result LoneFetch::fetch(const std::string& id, bool with_headers, Endpoint& endpoint,
                                   const store::Moves& moves, Link& link) {
  Result result;
  bool reads = false;
  Clock::time_point begun = Clock::now();
  try {
    const std::unique_ptr<redis::Connection> connection = endpoint.connect_to_master();
    {
      const std::lock_guard lock(link.mutex);
      if (link.cancelled) throw ConnectionError("the fetch was cancelled");
      link.handle = connection->shutdown_handle();
    }
    redis::Pipeline pipeline(*connection);
    using Stored = redis::Answer<std::vector<std::optional<std::string>>>;
    std::vector<Stored> answers;
    if (with_headers) answers.push_back(moves.headers(pipeline, {id}));
    answers.push_back(moves.bodies(pipeline, {id}));
    reads = true;
    begun = Clock::now();
    pipeline.run();
    reads = false;  // what fails from here on is an answer of Redis
    if (with_headers) result.headers = std::move(answers.front().get().at(0));
    result.body = std::move(answers.back().get().at(0));
  } catch (const std::bad_alloc&) {
    result.failure = "out of memory";
    result.counts = true;
  } catch (const std::exception& e) {
    result.failure = e.what();
    if (result.failure.empty()) result.failure = "an error without a text";
    result.counts = reads;
  }
  result.took = Clock::now() - begun;
  return result;
}

// ---- BodyFetcher ----------------------------------------------------------------------------------------------------

void BodyFetcher::add(const std::vector<InFlightPtr>& taken, bool late) {
  const auto is_redelivered = [](const InFlightPtr& delivery) { return delivery->message.attempt() > 1; };
  may_have_redelivered_ = may_have_redelivered_ || std::any_of(taken.begin(), taken.end(), is_redelivered);
  if (large_.are_slow()) {
    maybe_large_.insert(maybe_large_.end(), taken.begin(), taken.end());
    return;
  }
  waiting_.insert(waiting_.end(), taken.begin(), taken.end());
  if (late) came_late_ += taken.size();
}

void BodyFetcher::describe(planning::LaneView& view) {
  view.fetching = waiting_.size() + maybe_large_.size() + beginning_.size();
  view.fetches_redelivered = may_have_redelivered_ && has_redelivered();
  may_have_redelivered_ = view.fetches_redelivered || (may_have_redelivered_ && !lone_.empty());  // these may come back
  view.has_to_fetch = has_to_fetch();
  view.came_late = came_late_ == 0 ? 0 : std::min(came_late_, unrequested_last());
}

bool BodyFetcher::has_redelivered() const {
  const auto is_redelivered = [](const InFlightPtr& delivery) { return delivery->message.attempt() > 1; };
  return std::any_of(waiting_.begin(), waiting_.end(), is_redelivered) ||
         std::any_of(beginning_.begin(), beginning_.end(), is_redelivered) ||
         std::any_of(maybe_large_.begin(), maybe_large_.end(), is_redelivered);
}

// Takes and fetches overlap, so deliveries that wait for a request may follow others whose bodies are requested.
std::size_t BodyFetcher::first_to_fetch() const {
  const auto waits = [](const InFlightPtr& delivery) { return !delivery->requested; };
  return static_cast<std::size_t>(std::find_if(waiting_.begin(), waiting_.end(), waits) - waiting_.begin());
}

// How many deliveries follow all those whose bodies are requested.
std::size_t BodyFetcher::unrequested_last() const {
  const auto is_requested = [](const InFlightPtr& delivery) { return delivery->requested; };
  const auto requested = std::find_if(waiting_.rbegin(), waiting_.rend(), is_requested);
  return static_cast<std::size_t>(requested - waiting_.rbegin());
}

void BodyFetcher::fetch(RoundTrip& round_trip) {
  if (has_to_begin()) request_begins(round_trip);
  if (!maybe_large_.empty()) {
    request_sizes(round_trip);
    request_small(round_trip);
  }
  const std::size_t first = first_to_fetch();
  if (first == waiting_.size()) return;
  const auto fit = std::max<std::size_t>(1, static_cast<std::size_t>(kBodyBytes / body_size_));
  const std::size_t end = std::min(waiting_.size(), first + std::min(fit, kMostFetched));
  std::vector<std::string> ids;
  ids.reserve(end - first);
  bool with_headers = false;
  for (std::size_t i = first; i < end && !waiting_[i]->requested; ++i) {
    ids.push_back(waiting_[i]->message.id());
    with_headers = with_headers || waiting_[i]->may_have_headers;
  }
  request(round_trip, first, ids, with_headers);
}

// `ids`: of the deliveries in waiting_ from `first` on.
void BodyFetcher::request(RoundTrip& round_trip, std::size_t first, const std::vector<std::string>& ids,
                          bool with_headers) {
  const Fetch fetch{waiting_[first].get(), ids.size()};
  using Stored = redis::Answer<Bodies>;
  const auto headers = with_headers ? std::optional<Stored>(moves_.headers(round_trip.pipeline(), ids)) : std::nullopt;
  round_trip.expect(
      moves_.bodies(round_trip.pipeline(), ids),
      [this, headers, fetch, &pipeline = round_trip.pipeline()](const auto& bodies) {
        const std::size_t begin = end_fetch(fetch);
        Bodies found = bodies.get();
        if (pipeline.slowest_answer() >= kSlowAnswer) note_slow(found, pipeline.slowest_answer());
        if (most_together_ > 0) most_together_ = std::min(most_together_ + kMoreTogether, kLarge);
        read_bodies(std::move(found), headers ? headers->get() : Bodies(), begin, fetch.count);
      },
      [this, fetch] { drop(fetch); });
  for (std::size_t i = 0; i < fetch.count; ++i) waiting_[first + i]->requested = true;
  answers_.begin();
}

// `took`: how long the answer, or another one of the round trip, was arriving.
void BodyFetcher::note_slow(const Bodies& bodies, Clock::duration took) {
  std::size_t bytes = 0;
  for (const auto& body : bodies) bytes += body ? body->size() : 0;
  if (bytes <= kLarge) return;
  if (!large_.are_slow()) {
    const auto ms = std::chrono::duration_cast<milliseconds>(took).count();
    listener_.log(Severity::info, "payloads of " + std::to_string(bytes) + " bytes took " + std::to_string(ms) +
                                      " ms to arrive: from now on large ones are fetched alone");
  }
  large_.were_slow();
}

// The answer will not come. Perhaps a body was too large for the link, or for client-output-buffer-limit.
void BodyFetcher::drop(const Fetch& fetch) {
  const std::size_t first = end_fetch(fetch);
  const std::size_t count = std::min(fetch.count, waiting_.size() - first);
  const auto begin = waiting_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = begin + static_cast<std::ptrdiff_t>(count);
  const bool sized = begin != end && (*begin)->size;
  if (sized) most_together_ = std::max<std::size_t>(1, (most_together_ == 0 ? kLarge : most_together_) / 4);
  if (sized && count == 1) (*begin)->is_fetched_alone = true;  // no other body was in the answer
  maybe_large_.insert(maybe_large_.begin(), std::make_move_iterator(begin), std::make_move_iterator(end));
  waiting_.erase(begin, end);
  body_size_ = kBodyBytes;  // the next are fetched one by one
}

// The request has an answer, or is dropped. Returns where its deliveries begin: they have stayed together.
std::size_t BodyFetcher::end_fetch(const Fetch& fetch) {
  answers_.end();
  const auto is_first = [&](const InFlightPtr& delivery) { return delivery.get() == fetch.first; };
  const auto begin = std::find_if(waiting_.begin(), waiting_.end(), is_first);
  const auto first = static_cast<std::size_t>(begin - waiting_.begin());
  const std::size_t end = std::min(first + fetch.count, waiting_.size());
  for (std::size_t i = first; i < end; ++i) waiting_[i]->requested = false;
  return first;
}

// `headers`: of the same messages, packed; empty if none of them has any.
void BodyFetcher::read_bodies(Bodies bodies, const Bodies& headers, std::size_t first, std::size_t most) {
  Fetched fetched;
  const std::size_t count = std::min({bodies.size(), most, waiting_.size() - first});
  const auto begin = waiting_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = begin + static_cast<std::ptrdiff_t>(count);
  for (auto* group : {&fetched.first, &fetched.redelivered, &fetched.expired}) group->reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    InFlightPtr& delivery = waiting_[first + i];
    std::optional<std::string>& body = bodies[i];
    delivery->content = body ? Content::message : Content::expired;
    if (!body) continue;
    const bool has_headers = i < headers.size() && headers[i];
    const std::size_t size = body->size() + (has_headers ? headers[i]->size() : 0);
    body_size_ = 0.9 * body_size_ + 0.1 * static_cast<double>(std::max<std::size_t>(size, 64));
    set_contents(*delivery, std::move(*body), has_headers ? &headers[i] : nullptr, fetched);
  }
  const auto waits_to_begin = std::count_if(begin, end, [](const InFlightPtr& one) { return must_not_overlap(*one); });
  if (waits_to_begin > 0) beginning_.reserve(beginning_.size() + static_cast<std::size_t>(waits_to_begin));
  // Nothing throws from here on until the listener has them. If memory ran out above, they are fetched again.
  for (auto delivery = begin; delivery != end; ++delivery)
    group_of(**delivery, fetched).push_back(std::move(*delivery));
  waiting_.erase(begin, end);
  pass_on(std::move(fetched));
}

// Keeps the occurrences that must not overlap.
void BodyFetcher::pass_on(Fetched fetched) {
  for (auto* group : {&fetched.first, &fetched.redelivered}) {
    const auto begins = [](const InFlightPtr& delivery) { return !must_not_overlap(*delivery); };
    if (std::all_of(group->begin(), group->end(), begins)) continue;
    const auto kept = std::stable_partition(group->begin(), group->end(), begins);
    for (auto delivery = kept; delivery != group->end(); ++delivery) {
      (*delivery)->requested = false;
      may_have_redelivered_ = may_have_redelivered_ || (*delivery)->message.attempt() > 1;
      beginning_.push_back(*delivery);
    }
    group->erase(kept, group->end());
  }
  listener_.fetched(std::move(fetched));
}

bool BodyFetcher::has_to_begin() const {
  return std::any_of(beginning_.begin(), beginning_.end(), [](const InFlightPtr& one) { return !one->requested; });
}

void BodyFetcher::request_begins(RoundTrip& round_trip) {
  for (const InFlightPtr& delivery : beginning_) {
    const auto names = store::occurrence_of(delivery->message.headers());
    if (delivery->requested || !names) continue;
    delivery->requested = true;
    round_trip.expect(
        moves_.begin(round_trip.pipeline(), names->schedule, names->slot_ms, delivery->message.id()),
        [this, delivery](const auto& answer) { read_begun(delivery, answer); },
        [delivery] { delivery->requested = false; });
  }
}

void BodyFetcher::read_begun(const InFlightPtr& delivery, const store::Answer<store::Begun>& answer) {
  const auto found = std::find(beginning_.begin(), beginning_.end(), delivery);
  if (found == beginning_.end()) return;
  store::Begun begun = store::Begun::handle;
  try {
    begun = answer.get();
    begin_has_failed_ = false;
  } catch (const ReplyError& e) {
    if (!std::exchange(begin_has_failed_, true)) {
      listener_.log(Severity::warning,
                    "cannot find out whether an earlier message of the schedule is alive, so two may "
                    "be handled at the same time: " +
                        std::string(e.what()));
    }
  }
  Fetched fetched;
  if (begun == store::Begun::handle) group_of(*delivery, fetched).push_back(delivery);
  if (begun == store::Begun::skip) fetched.skipped.push_back(delivery);
  if (begun == store::Begun::wait) fetched.waits.push_back(delivery);
  if (begun == store::Begun::skip) delivery->content = Content::skipped;
  beginning_.erase(found);
  listener_.fetched(std::move(fetched));
}

// `headers`: packed; null: it has none.
void BodyFetcher::set_contents(InFlightMessage& delivery, std::string&& body, const std::optional<std::string>* headers,
                               Fetched& fetched) {
  MessageContents::set_payload(delivery.message, std::move(body));
  if (headers == nullptr) return;
  auto unpacked = store::unpacked(**headers);
  if (!unpacked) fetched.damaged_id = delivery.message.id();
  MessageContents::set_headers(delivery.message, std::move(unpacked).value_or(Headers()));
}

std::vector<InFlightPtr> BodyFetcher::dequeue_late(std::size_t most) {
  const std::size_t count = std::min({most, std::exchange(came_late_, 0), unrequested_last()});
  const auto first = waiting_.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<InFlightPtr> late(std::make_move_iterator(first), std::make_move_iterator(waiting_.end()));
  waiting_.erase(first, waiting_.end());
  return late;
}

std::vector<InFlightPtr> BodyFetcher::dequeue_all() {
  std::vector<InFlightPtr> all = std::exchange(waiting_, {});
  all.insert(all.end(), maybe_large_.begin(), maybe_large_.end());
  all.insert(all.end(), beginning_.begin(), beginning_.end());
  maybe_large_.clear();
  beginning_.clear();
  for (LoneFetch& fetch : lone_) {
    fetch.cancel();
    all.push_back(fetch.delivery());
  }
  cancelled_.splice(cancelled_.end(), lone_);
  return all;
}

// ---- Those whose size is read first ---------------------------------------------------------------------------------

// Whether it is fetched together with others.
bool BodyFetcher::is_small(const InFlightMessage& delivery) const {
  return delivery.size && *delivery.size <= kLarge && !delivery.is_fetched_alone;
}

bool BodyFetcher::has_maybe_large_to_fetch() const {
  return std::any_of(maybe_large_.begin(), maybe_large_.end(), [this](const InFlightPtr& one) {
    return !one->requested && (is_small(*one) || (!one->size && !one->is_fetched_alone));
  });
}

void BodyFetcher::request_sizes(RoundTrip& round_trip) {
  std::size_t requested = 0;
  for (const InFlightPtr& one : maybe_large_) {
    if (one->size || one->requested || one->is_fetched_alone) continue;
    if (requested++ == kMostSizes) return;
    one->requested = true;
    round_trip.expect(
        moves_.body_size(round_trip.pipeline(), one->message.id()),
        [this, one](const auto& size) {
          one->requested = false;
          try {
            one->size = size.get();
          } catch (const ReplyError& e) {
            one->is_fetched_alone = true;
            const bool denied = redis::current_failure().is_access_denied();
            if (!denied || !std::exchange(large_.can_size, false)) return;
            listener_.log(Severity::warning, "cannot read the sizes of payloads, so large ones are found only when " +
                                                 std::string("they fail; grant +strlen: ") + e.what());
          }
        },
        [one] { one->requested = false; });
  }
}

// Moves small ones behind the others in waiting_, and requests them.
void BodyFetcher::request_small(RoundTrip& round_trip) {
  const std::size_t most = most_together_ == 0 ? kLarge : most_together_;
  const std::size_t first = waiting_.size();
  std::vector<std::string> ids;
  std::size_t bytes = 0;
  bool with_headers = false;
  const auto fits = [&](const InFlightPtr& one) {
    if (one->requested || !is_small(*one) || ids.size() == kMostSizes) return false;
    if (!ids.empty() && bytes + *one->size > most) return false;
    bytes += *one->size;
    with_headers = with_headers || one->may_have_headers;
    ids.push_back(one->message.id());
    waiting_.push_back(one);
    return true;
  };
  maybe_large_.erase(std::remove_if(maybe_large_.begin(), maybe_large_.end(), fits), maybe_large_.end());
  if (!ids.empty()) request(round_trip, first, ids, with_headers);
}

void BodyFetcher::advance_lone(bool works) {
  cancelled_.remove_if([](const LoneFetch& one) { return one.has_ended(); });
  if (lone_.empty() && maybe_large_.empty()) return;
  for (auto one = lone_.begin(); one != lone_.end();) {
    const auto next = std::next(one);
    if (one->has_ended()) {
      std::list<LoneFetch> ended;
      ended.splice(ended.end(), lone_, one);
      read_lone(ended.front());
    } else if (one->delivery()->lone_since && Clock::now() - *one->delivery()->lone_since > longest_) {
      one->cancel();
    }
    one = next;
  }
  const auto is_next = [this](const InFlightPtr& one) {
    return !one->requested && !is_small(*one) && (one->size || one->is_fetched_alone);
  };
  if (!works) {
    for (const InFlightPtr& one : maybe_large_) one->lone_since.reset();  // an outage spends no retry
  }
  while (works && lone_.size() < kMostLone && Clock::now() >= lone_paused_until_) {
    const auto next = std::find_if(maybe_large_.begin(), maybe_large_.end(), is_next);
    if (next == maybe_large_.end() || calls_.running >= BackgroundCalls::kMost) return;
    if (!(*next)->lone_since) (*next)->lone_since = Clock::now();
    try {
      lone_.emplace_back(*next, endpoint_, moves_, calls_);
    } catch (const SetupError& e) {
      return pause_lone(e.what());
    }
    maybe_large_.erase(next);
  }
}

BodyFetcher::Clock::time_point BodyFetcher::lone_due() const {
  Clock::time_point due = Clock::time_point::max();
  const Clock::time_point now = Clock::now();
  for (const LoneFetch& one : lone_) {
    const Clock::time_point end = *one.delivery()->lone_since + longest_;
    if (end > now) due = std::min(due, end);
  }
  if (!maybe_large_.empty() && now < lone_paused_until_) due = std::min(due, lone_paused_until_);
  return due;
}

void BodyFetcher::pause_lone(const std::string& failure) {
  lone_paused_until_ = Clock::now() + kLonePause;
  if (large_.warns()) listener_.log(Severity::warning, "cannot fetch a large payload alone: " + failure);
}

void BodyFetcher::end_lone() {
  lone_.clear();
  cancelled_.clear();
}

void BodyFetcher::read_lone(LoneFetch& fetch) {
  const InFlightPtr& delivery = fetch.delivery();
  LoneFetch::Result result = fetch.finish();
  const bool too_long = Clock::now() - *delivery->lone_since > longest_;
  if (result.body) {
    if (result.took >= kSlowAnswer) large_.were_slow();
    Fetched fetched;
    delivery->content = Content::message;
    set_contents(*delivery, std::move(*result.body), result.headers ? &result.headers : nullptr, fetched);
    group_of(*delivery, fetched).push_back(delivery);
    return pass_on(std::move(fetched));
  }
  // The new connection may lead to another server. Only that of the message knows whether the body is gone.
  if (result.failure.empty() && !too_long) {
    delivery->size = 0;
    delivery->is_fetched_alone = false;
    maybe_large_.push_back(delivery);
    return;
  }
  if (!result.counts && !too_long) {  // no connection, or Redis refuses it
    maybe_large_.insert(maybe_large_.begin(), delivery);
    return pause_lone(result.failure);
  }
  large_.were_slow();
  std::string reason = delivery->size ? "payload of " + std::to_string(*delivery->size) + " bytes" : "the payload";
  reason += " could not be fetched: ";
  reason += too_long ? "it took longer than processing_timeout" : result.failure;
  if (reason.find("closed the connection") != std::string::npos) {
    reason += "; see client-output-buffer-limit in the configuration of the server";
  }
  listener_.failed(delivery, std::move(reason));
}

// ---- Taker ----------------------------------------------------------------------------------------------------------

void Taker::describe(planning::LaneView& view) {
  view.coming = coming_;
  view.coming_retries = coming_retries_;
  view.more_ready = more_ready_;
  view.expected = expected_;
  view.lists_empty = lists_empty_ && !paced_;  // take_paced takes from the lists only
  view.paced = paced_;
  view.held_back = was_held_ = Clock::now() < held_until_;
  view.full = full_;
  view.retry_left = retry_left_;
  view.since_retry = since_retry_;
  poison_guard_.describe(view);
}

void Taker::take(RoundTrip& round_trip, const store::Moves& moves, const planning::Take& take,
                 milliseconds poll_interval) {
  const Clock::time_point sent_at = Clock::now();
  for (const store::TakeLimits& requested : limits_of(take)) {
    round_trip.expect(
        paced_ ? moves.take_paced(round_trip.pipeline(), requested, lease_, consumer_)
               : moves.ready2unack(round_trip.pipeline(), requested, lease_),
        [this, requested, sent_at, poll_interval, paced = paced_](const auto& taken) {
          end_take(requested);
          const store::Taken result = taken.get();
          if (!read_limits(result, paced, sent_at, poll_interval)) return;
          const std::size_t more = std::max(kGrowth * result.popped, minus(expected_, result.popped));
          const bool may_have_more = result.popped == requested.total || result.held_back;
          read_taken(requested, sent_at, result, may_have_more ? std::max<std::size_t>(more, 1) : 0);
        },
        [this, requested] { end_take(requested); });
    begin_take(requested);
  }
}

// Whether the answer is one of a take. If not, this was ready2unack, and a take with take_paced follows.
bool Taker::read_limits(const store::Taken& taken, bool paced, Clock::time_point sent_at, milliseconds poll_interval) {
  if (taken.has_limits && !paced_) places_are_new_ = true;
  paced_ = taken.has_limits;
  if (taken.has_limits && !paced) {
    expect_more(std::max<std::size_t>(expected_, 1));
    return false;
  }
  const std::chrono::microseconds poll(poll_interval);
  watches_ = taken.held_back && taken.next;
  held_by_rate_ = taken.held_by_rate;
  // A marker that has come since then may be of what was freed after the take.
  if (taken.held_back && again_at_ < sent_at) held_until_ = Clock::now() + std::min(taken.next.value_or(poll), poll);
  return true;
}

void Taker::leave_watch(RoundTrip& round_trip, const store::Moves& moves) {
  watches_ = false;
  static_cast<void>(moves.take_paced(round_trip.pipeline(), {}, lease_, consumer_));
}

void Taker::begin_take(const store::TakeLimits& limits) {
  answers_.begin();
  coming_ += limits.total;
  coming_retries_ += limits.retry_max;
  poison_guard_.sent(limits);
}

void Taker::end_take(const store::TakeLimits& limits) {
  answers_.end();
  coming_ = minus(coming_, limits.total);
  coming_retries_ = minus(coming_retries_, limits.retry_max);
  if (limits.retry_max > 0) poison_guard_.ended();
}

void Taker::take_due(RoundTrip& round_trip, const store::Moves& moves, const planning::Take& take, bool with_ids,
                     const store::Watcher& watcher) {
  const Clock::time_point sent_at = Clock::now();
  for (const store::TakeLimits& requested : limits_of(take)) {
    // A small take moves a whole batch, and the next takes find them in ready. A large one moves only what it takes, so
    // that nothing is moved twice.
    const std::size_t moved = requested.total < kLargeTake ? store::kBatch : requested.total;
    round_trip.expect(
        moves.pending2unack(round_trip.pipeline(), with_ids, watcher, {moved, requested.total}, lease_),
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
void Taker::read_taken(const store::TakeLimits& limits, Clock::time_point sent_at, const store::Taken& taken,
                       std::size_t more) {
  more_ready_ = more > 0;
  expected_ = more;
  full_ = taken.popped == limits.total;
  const bool late = answers_.measure(Clock::now() - sent_at);
  lists_empty_ = !more_ready_ && taken.retry_left == 0 && taken.popped <= std::exchange(promoted_, 0);
  retry_left_ = taken.retry_left;
  Taken result{{}, taken.now_us, sent_at, {}, taken.foreign, taken.foreign_id};
  result.deliveries.reserve(taken.messages.size());
  for (const auto& [id, attempt] : taken.messages) {
    auto delivery = std::make_shared<InFlightMessage>(
        InFlightMessage::Taken{id, queue_name_, attempt, retries_left_of(taken, id), taken.lease_us, queue_, lane_},
        sent_at + lease_);
    delivery->may_have_headers = taken.has_headers;
    delivery->may_have_key = taken.has_keys;
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

void Taker::count_share(const store::Taken& taken) {
  since_retry_ += taken.popped - taken.from_retry;
  since_retry_ = minus(since_retry_, (planning::kRetryShare - 1) * taken.from_retry);
  if (taken.from_retry > 0) handled_ = 0;
  if (!retry_waits()) since_retry_ = std::min(since_retry_, planning::kRetryShare - 1);
}

}  // namespace delayqueue
