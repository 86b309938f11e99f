#include "consumer/take_planner.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

namespace delayqueue {
namespace {

// A message of another queue waits for the takes that are under way. So while others have had one within kActive, the
// only queue that can take any takes fewer than a batch in a round trip: kLargeTake for each millisecond that a round
// trip needs at least. Fewer would cost Redis more for each message, and would not use a long link.
constexpr std::chrono::seconds kActive{1};

// The lanes of a queue, the one whose turn it is first.
std::vector<Lane*> in_turn(const ServedQueue& queue) {
  std::vector<Lane*> lanes = queue.lanes;
  std::sort(lanes.begin(), lanes.end(), [](const Lane* a, const Lane* b) { return a->precedes(*b); });
  return lanes;
}

}  // namespace

void TakePlanner::read() {
  count_taken();
  handlers_.read_loads(loads_);
  uses_.clear();
  for (const Lane& lane : lanes_) uses_.push_back(use_of(lane));
  const auto is_used = [](const LaneServer& one) { return !one.lanes().empty() && one.connection().is_open(); };
  server_count_ =
      std::max<std::size_t>(1, static_cast<std::size_t>(std::count_if(servers_.begin(), servers_.end(), is_used)));
  capacity_.set(loads_, uses_, server_count_);
  busy_.assign(queues_.size(), false);
  can_take_.clear(queues_.size());
  for (const Lane& lane : lanes_) {
    const WorkerShare share = share_of(lane);
    if (!lane.may_take() || !lane.has_work(share)) continue;
    // Also while verdicts of the lane wait to be sent, and it takes nothing: its turn comes after that.
    busy_[lane.queue().line] = true;
    if (lane.can_take(share)) can_take_.add(lane.queue().line);
  }
}

SharedCapacity::LaneUse TakePlanner::use_of(const Lane& lane) const {
  const Prefetcher& prefetcher = lane.prefetcher();
  SharedCapacity::LaneUse use;
  use.held = prefetcher.fetching() + prefetcher.coming();
  use.claimed = prefetcher.fetching() + prefetcher.coming_retries();
  use.prefetch = lane.prefetch();
  use.server = &servers_.of(lane);
  // Of interest to other lanes only.
  use.redelivers = lanes_.size() > 1 && (prefetcher.coming_retries() > 0 || lane.bodies().has_redelivered());
  return use;
}

bool TakePlanner::is_quiet(const Lane& lane) const {
  const bool looks_anyway = lanes_.size() > 1 && lane.more_ready();
  return lane.may_take() && !looks_anyway && lane.room(share_of(lane)) > 0 && lane.next_due(false) > Lane::Clock::now();
}

bool TakePlanner::wants_another(const LaneServer& server) const {
  // Several queues that have messages take in the same round trip, or one would get more than its share.
  if (can_take_.size() > 1) return false;
  return std::any_of(server.lanes().begin(), server.lanes().end(), [this](const Lane* lane) {
    return lane->may_take() && (lane->bodies().has_to_fetch() || lane->is_woken() || may_overlap(*lane));
  });
}

// Whether a lane may take although round trips that take are under way.
bool TakePlanner::may_overlap(const Lane& lane) const {
  if (!lane.may_take()) return false;
  const WorkerShare share = share_of(lane);
  if (lane.prefetcher().is_taking()) {
    return lane.has_more(share) && lane.prefetcher().may_overlap(share, batch_of(lane));
  }
  return lane.has_more(share) || lane.moves_are_due();
}

// Whether no other queue can take messages. Then a round trip takes one batch: further ones may overlap with it.
bool TakePlanner::is_alone(const Lane& lane) const { return !can_take_.has_others(lane.queue().line); }

// Counts the messages that were taken since the last call.
void TakePlanner::count_taken() {
  const Lane::Clock::time_point now = Lane::Clock::now();
  taken_at_.resize(queues_.size());
  for (Lane& lane : lanes_) {
    const std::size_t taken = lane.exchange_taken();
    if (taken == 0) continue;
    capacity_.served(lane.queue().line, taken);
    taken_at_[lane.queue().line] = now;
  }
  active_.clear(queues_.size());
  for (std::size_t line = 0; line < taken_at_.size(); ++line) {
    if (taken_at_[line] && now - *taken_at_[line] < kActive) active_.add(line);
  }
}

// The most messages of a lane that a round trip takes if no other queue can take any.
std::size_t TakePlanner::batch_of(const Lane& lane) const {
  if (!active_.has_others(lane.queue().line)) return store::kBatch;
  const double round_trip_ms = 1000 * lane.answers().shortest().count();
  return static_cast<std::size_t>(std::clamp(kLargeTake * round_trip_ms, double(kLargeTake), double(store::kBatch)));
}

void TakePlanner::add(RoundTrip& round_trip, const LaneServer& server, std::vector<Lane*> takers, bool overlapping) {
  if (lanes_.size() == 1) {
    Lane& lane = *takers.front();
    round_trip.add_for(&lane.requests());
    lane.add_fetch(round_trip);
    if (!overlapping || may_overlap(lane)) lane.add_take(round_trip, share_of(lane), store::kBatch);
    return;
  }
  capacity_.set_busy(busy_);
  sort_by_turns(takers);
  std::vector<bool> takes(lanes_.size(), false);
  for (const Lane* lane : takers) takes[lane->number()] = !overlapping || may_overlap(*lane);
  QueueSet taking;  // those with a take under way on this server
  taking.clear(queues_.size());
  for (const Lane* lane : server.lanes()) {
    if (lane->prefetcher().is_taking()) taking.add(lane->queue().line);
  }
  const std::vector<std::size_t> divided = capacity_.divide(wishes(server, takes));
  std::vector<SharedCapacity::LaneUse> after;
  for (Lane* lane : takers) {
    round_trip.add_for(&lane->requests());
    lane->add_fetch(round_trip);
    if (takes[lane->number()]) add_take(round_trip, *lane, divided[lane->number()], overlapping, taking);
    SharedCapacity::LaneUse use = use_of(*lane);  // a take only adds to it
    after.push_back(use);
    use.held = uses_[lane->number()].held;  // until all have taken: the places were divided before
    capacity_.grow(lane->number(), use);
  }
  for (std::size_t i = 0; i < takers.size(); ++i) capacity_.grow(takers[i]->number(), after[i]);
}

// Sorts the lanes by whose turn it is. Only the first may take a possible poison message, so lanes of one queue take
// turns here, too.
void TakePlanner::sort_by_turns(std::vector<Lane*>& takers) const {
  std::sort(takers.begin(), takers.end(), [this](const Lane* a, const Lane* b) {
    const std::size_t one = a->queue().line, other = b->queue().line;
    if (one == other) return a->precedes(*b);
    return capacity_.precedes(one, other) || (!capacity_.precedes(other, one) && one < other);
  });
}

// `taking`: the queues with a take under way on this server. Adds the queue of the lane to them if it takes.
void TakePlanner::add_take(RoundTrip& round_trip, Lane& lane, std::size_t places, bool overlapping,
                           QueueSet& taking) const {
  const std::size_t line = lane.queue().line;
  const WorkerShare share = share_of(lane);
  const std::size_t batch = batch_of(lane);
  const std::size_t own = is_alone(lane) ? std::min(places, batch) : places;
  const bool has_more = lane.has_more(share);
  // While a take of the same queue is under way, only a whole batch is worth a call, or all that a partition is
  // expected to have, or what must not wait.
  const std::size_t expected = lane.queue().lanes.size() > 1 ? lane.expected() : batch;
  const bool worth = own >= std::min(batch, expected) || !taking.has(line) || lane.has_to_look();
  if (overlapping && has_more && !worth) return;
  if (own > 0 && has_more) lane.use_turn(own);
  lane.add_take(round_trip, share, own);
  if (lane.prefetcher().is_taking()) taking.add(line);
}

// Whether a lane of another server can take messages in this step, too.
bool TakePlanner::takes_elsewhere(const Lane& lane, const LaneServer& server) const {
  const LaneServer& own = servers_.of(lane);
  return &own != &server && lane.may_take() && lane.purpose_in(kTake, false).take && own.may_take() &&
         lane.should_go_on(share_of(lane));
}

// The lanes that may take messages now: those that take in this round trip, if they have more or their moves are due;
// and lanes of other servers that have more, for which places are reserved.
std::vector<SharedCapacity::Wish> TakePlanner::wishes(const LaneServer& server, const std::vector<bool>& takes) const {
  std::vector<SharedCapacity::Wish> all;
  for (const ServedQueue& queue : queues_) {
    for (const Lane* lane : in_turn(queue)) {
      const WorkerShare share = share_of(*lane);
      const bool is_taker = takes[lane->number()];
      const bool has_more = is_taker ? lane->has_more(share) : takes_elsewhere(*lane, server);
      const bool may = is_taker ? lane->may_take() && (has_more || lane->moves_are_due()) : has_more;
      if (may && lane->can_take(share)) {
        // Of all servers: the places of the queue are divided among them.
        const std::size_t most = is_alone(*lane) ? server_count_ * batch_of(*lane) : lane->most_taken(share);
        // What one partition is not expected to have is for the others of the queue.
        const bool limits = has_more && queue.lanes.size() > 1;
        all.push_back({lane->number(), std::min(lane->room(share), most), has_more, limits ? lane->expected() : most});
      }
    }
  }
  return all;
}

}  // namespace delayqueue
