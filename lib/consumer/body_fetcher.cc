#include "consumer/body_fetcher.h"

#include "store/headers.h"

#include <algorithm>
#include <iterator>

namespace delayqueue {
namespace {

// Limits of one fetch: the number of bodies, and their bytes, estimated from the latest sizes.
constexpr std::size_t kMostFetched = kMostBatches * store::kBatch;
constexpr double kBodyBytes = 256 * 1024;

}  // namespace

void BodyFetcher::add(const std::vector<InFlightPtr>& taken, bool late) {
  waiting_.insert(waiting_.end(), taken.begin(), taken.end());
  if (late) came_late_ += taken.size();
}

bool BodyFetcher::has_redelivered() const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [](const InFlightPtr& delivery) { return delivery->message.attempt() > 1; });
}

// Takes and fetches overlap, so deliveries that wait for a request may follow others whose bodies are requested.
std::size_t BodyFetcher::first_to_fetch() const {
  const auto waits = [](const InFlightPtr& delivery) { return !delivery->requested; };
  return static_cast<std::size_t>(std::find_if(waiting_.begin(), waiting_.end(), waits) - waiting_.begin());
}

void BodyFetcher::fetch(RoundTrip& round_trip, const store::Store& store) {
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
  const Fetch fetch{waiting_[first].get(), ids.size()};
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
  for (std::size_t i = 0; i < fetch.count; ++i) waiting_[first + i]->requested = true;
  answers_.begin();
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
  // Nothing throws from here on until `fetched_` has them. If memory ran out above, they are fetched again.
  for (auto delivery = begin; delivery != end; ++delivery) {
    auto& group = (*delivery)->expired                 ? fetched.expired
                  : (*delivery)->message.attempt() > 1 ? fetched.redelivered
                                                       : fetched.first;
    group.push_back(std::move(*delivery));
  }
  waiting_.erase(begin, end);
  fetched_(std::move(fetched));
}

std::vector<InFlightPtr> BodyFetcher::abandon_late(std::size_t most) {
  const auto is_requested = [](const InFlightPtr& delivery) { return delivery->requested; };
  const auto unrequested = std::find_if(waiting_.rbegin(), waiting_.rend(), is_requested) - waiting_.rbegin();
  const std::size_t count = std::min({most, std::exchange(came_late_, 0), static_cast<std::size_t>(unrequested)});
  const auto first = waiting_.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<InFlightPtr> late(std::make_move_iterator(first), std::make_move_iterator(waiting_.end()));
  waiting_.erase(first, waiting_.end());
  return late;
}

}  // namespace delayqueue
