#include "consumer/body_fetcher.h"

#include "store/headers.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <iterator>

namespace delayqueue {
namespace {

// Limits of one fetch: the number of bodies, and their bytes, estimated from the latest sizes.
constexpr std::size_t kMostFetched = kMostBatches * store::kBatch;
constexpr double kBodyBytes = 256 * 1024;

// A body is large if it has more bytes, and slow if it takes longer.
constexpr std::size_t kLarge = 64 * 1024;
constexpr milliseconds kSlow{500};

// Limits of the bodies whose sizes are read first: sizes in one round trip, and lone fetches of a lane.
constexpr std::size_t kMostSizes = store::kBatch;
constexpr std::size_t kMostLone = 2;
constexpr std::size_t kMoreTogether = 1024;  // bytes, after a success; after a failure a quarter is left
constexpr milliseconds kLonePause{1000};     // after a lone fetch that could not begin

std::vector<InFlightPtr>& group_of(const InFlightMessage& delivery, BodyFetcher::Fetched& fetched) {
  if (delivery.content == InFlightMessage::Content::expired) return fetched.expired;
  return delivery.message.attempt() > 1 ? fetched.redelivered : fetched.first;
}

}  // namespace

void BodyFetcher::add(const std::vector<InFlightPtr>& taken, bool late) {
  const auto is_redelivered = [](const InFlightPtr& delivery) { return delivery->message.attempt() > 1; };
  may_have_redelivered_ = may_have_redelivered_ || std::any_of(taken.begin(), taken.end(), is_redelivered);
  if (large_.are_slow()) {
    single_.insert(single_.end(), taken.begin(), taken.end());
    return;
  }
  waiting_.insert(waiting_.end(), taken.begin(), taken.end());
  if (late) came_late_ += taken.size();
}

void BodyFetcher::describe(planning::LaneView& view) {
  view.fetching = waiting_.size() + single_.size();
  view.fetches_redelivered = may_have_redelivered_ && has_redelivered();
  may_have_redelivered_ = view.fetches_redelivered || (may_have_redelivered_ && !lone_.empty());  // these may come back
  view.has_to_fetch = has_to_fetch();
  view.came_late = came_late_ == 0 ? 0 : std::min(came_late_, unrequested_last());
}

bool BodyFetcher::has_redelivered() const {
  const auto is_redelivered = [](const InFlightPtr& delivery) { return delivery->message.attempt() > 1; };
  return std::any_of(waiting_.begin(), waiting_.end(), is_redelivered) ||
         std::any_of(single_.begin(), single_.end(), is_redelivered);
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
  if (!single_.empty()) {
    request_sizes(round_trip);
    request_small(round_trip);
  }
  const std::size_t first = first_to_fetch();
  if (first == waiting_.size()) return;
  const auto fit = std::max<std::size_t>(1, static_cast<std::size_t>(kBodyBytes / body_size_));
  const std::size_t end = std::min(waiting_.size(), first + std::min(fit, kMostFetched));
  std::vector<std::string> ids;
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
  const auto headers = with_headers ? std::optional<Stored>(store_.headers(round_trip.pipeline(), ids)) : std::nullopt;
  round_trip.expect(
      store_.bodies(round_trip.pipeline(), ids),
      [this, headers, fetch, &pipeline = round_trip.pipeline()](const auto& bodies) {
        const std::size_t begin = end_fetch(fetch);
        Bodies found = bodies.get();
        if (pipeline.slowest_answer() >= kSlow) note_slow(found, pipeline.slowest_answer());
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
  for (auto delivery = begin; delivery != end; ++delivery) (*delivery)->unanswered = sized && count == 1 ? 2 : 1;
  single_.insert(single_.begin(), std::make_move_iterator(begin), std::make_move_iterator(end));
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
    if (!body) {
      delivery->content = InFlightMessage::Content::expired;
      continue;
    }
    const bool has_headers = i < headers.size() && headers[i];
    const std::size_t size = body->size() + (has_headers ? headers[i]->size() : 0);
    body_size_ = 0.9 * body_size_ + 0.1 * static_cast<double>(std::max<std::size_t>(size, 64));
    set_contents(*delivery, std::move(*body), has_headers ? &headers[i] : nullptr, fetched);
  }
  // Nothing throws from here on until the listener has them. If memory ran out above, they are fetched again.
  for (auto delivery = begin; delivery != end; ++delivery)
    group_of(**delivery, fetched).push_back(std::move(*delivery));
  waiting_.erase(begin, end);
  listener_.fetched(std::move(fetched));
}

// `headers`: packed; null: it has none.
void BodyFetcher::set_contents(InFlightMessage& delivery, std::string body, const std::optional<std::string>* headers,
                               Fetched& fetched) {
  MessageContents::set_payload(delivery.message, std::move(body));
  if (headers == nullptr) return;
  auto unpacked = store::unpacked(**headers);
  if (!unpacked) fetched.damaged_id = delivery.message.id();
  MessageContents::set_headers(delivery.message, std::move(unpacked).value_or(Headers()));
}

std::vector<InFlightPtr> BodyFetcher::abandon_late(std::size_t most) {
  const std::size_t count = std::min({most, std::exchange(came_late_, 0), unrequested_last()});
  const auto first = waiting_.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<InFlightPtr> late(std::make_move_iterator(first), std::make_move_iterator(waiting_.end()));
  waiting_.erase(first, waiting_.end());
  return late;
}

std::vector<InFlightPtr> BodyFetcher::abandon() {
  std::vector<InFlightPtr> all = std::exchange(waiting_, {});
  all.insert(all.end(), single_.begin(), single_.end());
  single_.clear();
  for (LoneFetch& fetch : lone_) {
    fetch.cancel();
    all.push_back(fetch.delivery());
  }
  abandoned_.splice(abandoned_.end(), lone_);
  return all;
}

// ---- Those whose size is read first ---------------------------------------------------------------------------------

// Whether it is fetched together with others. Not if it could not be fetched with a request for it only.
bool BodyFetcher::is_small(const InFlightMessage& delivery) const {
  return delivery.size && *delivery.size <= kLarge && delivery.unanswered < 2;
}

bool BodyFetcher::has_single_to_fetch() const {
  return std::any_of(single_.begin(), single_.end(), [this](const InFlightPtr& one) {
    return !one->requested && (is_small(*one) || (!one->size && one->unanswered < 2));
  });
}

void BodyFetcher::request_sizes(RoundTrip& round_trip) {
  std::size_t requested = 0;
  for (const InFlightPtr& one : single_) {
    if (one->size || one->requested || one->unanswered >= 2) continue;
    if (requested++ == kMostSizes) return;
    one->requested = true;
    round_trip.expect(
        store_.body_size(round_trip.pipeline(), one->message.id()),
        [this, one](const auto& size) {
          one->requested = false;
          try {
            one->size = size.get();
          } catch (const ReplyError& e) {
            one->unanswered = 2;  // it is fetched alone
            const bool denied = dynamic_cast<const AccessDenied*>(&e) != nullptr;
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
  single_.erase(std::remove_if(single_.begin(), single_.end(), fits), single_.end());
  if (!ids.empty()) request(round_trip, first, ids, with_headers);
}

void BodyFetcher::advance_lone(bool works) {
  abandoned_.remove_if([](const LoneFetch& one) { return one.has_ended(); });
  if (lone_.empty() && single_.empty()) return;
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
    return !one->requested && !is_small(*one) && (one->size || one->unanswered >= 2);
  };
  if (!works) {
    for (const InFlightPtr& one : single_) one->lone_since.reset();  // an outage spends no retry
  }
  while (works && lone_.size() < kMostLone && Clock::now() >= lone_paused_until_) {
    const auto next = std::find_if(single_.begin(), single_.end(), is_next);
    if (next == single_.end() || calls_.running >= BackgroundCalls::kMost) return;
    if (!(*next)->lone_since) (*next)->lone_since = Clock::now();
    try {
      lone_.emplace_back(*next, endpoint_, store_, calls_);
    } catch (const SetupError& e) {
      return pause_lone(e.what());
    }
    single_.erase(next);
  }
}

BodyFetcher::Clock::time_point BodyFetcher::lone_due() const {
  Clock::time_point due = Clock::time_point::max();
  const Clock::time_point now = Clock::now();
  for (const LoneFetch& one : lone_) {
    const Clock::time_point end = *one.delivery()->lone_since + longest_;
    if (end > now) due = std::min(due, end);
  }
  if (!single_.empty() && now < lone_paused_until_) due = std::min(due, lone_paused_until_);
  return due;
}

void BodyFetcher::pause_lone(const std::string& failure) {
  lone_paused_until_ = Clock::now() + kLonePause;
  if (large_.warns()) listener_.log(Severity::warning, "cannot fetch a large payload alone: " + failure);
}

void BodyFetcher::end_lone() {
  lone_.clear();
  abandoned_.clear();
}

void BodyFetcher::read_lone(LoneFetch& fetch) {
  const InFlightPtr& delivery = fetch.delivery();
  LoneFetch::Result result = fetch.finish();
  if (result.failure.empty()) {
    if (result.took >= kSlow) large_.were_slow();
    Fetched fetched;
    if (!result.body) {
      delivery->content = InFlightMessage::Content::expired;
    } else {
      set_contents(*delivery, std::move(*result.body), result.headers ? &result.headers : nullptr, fetched);
    }
    group_of(*delivery, fetched).push_back(delivery);
    return listener_.fetched(std::move(fetched));
  }
  const bool too_long = Clock::now() - *delivery->lone_since > longest_;
  if (!result.counts && !too_long) {  // no connection, or Redis refuses it
    single_.insert(single_.begin(), delivery);
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

}  // namespace delayqueue
