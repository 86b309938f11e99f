#include "consumer/take_planner.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace delayqueue {
namespace {

// The lanes of a queue, the one whose turn it is first.
std::vector<Lane*> in_turn(const ServedQueue& queue) {
  std::vector<Lane*> lanes = queue.lanes;
  std::sort(lanes.begin(), lanes.end(), [](const Lane* a, const Lane* b) { return a->precedes(*b); });
  return lanes;
}

}  // namespace

void TakePlanner::read() {
  handlers_.read_loads(loads_);
  uses_.clear();
  for (const Lane& lane : lanes_) uses_.push_back(use_of(lane));
  capacity_.set(loads_, uses_);
}

SharedCapacity::LaneUse TakePlanner::use_of(const Lane& lane) const {
  const Prefetcher& prefetcher = lane.prefetcher();
  SharedCapacity::LaneUse use;
  use.held = prefetcher.fetching() + prefetcher.coming();
  use.claimed = prefetcher.fetching() + prefetcher.coming_retries();
  use.prefetch = prefetcher.prefetch();
  use.server = &servers_.of(lane);
  // Of interest to other lanes only.
  use.redelivers = lanes_.size() > 1 && (prefetcher.coming_retries() > 0 || prefetcher.fetches_redelivered());
  return use;
}

bool TakePlanner::is_quiet(const Lane& lane) const {
  const bool looks_anyway = lanes_.size() > 1 && lane.more_ready();
  return lane.is_working() && !looks_anyway && lane.room(share_of(lane)) > 0 &&
         lane.next_due(false) > Lane::Clock::now();
}

void TakePlanner::add(RoundTrip& round_trip, const LaneServer& server, std::vector<Lane*> takers) {
  if (lanes_.size() == 1) {
    round_trip.add_for(&takers.front()->requests());
    return takers.front()->add_taking(round_trip, share_of(*takers.front()), capacity_.places());
  }
  std::vector<bool> busy(queues_.size(), false);
  for (Lane& lane : lanes_) {
    const std::size_t line = lane.queue().line;
    capacity_.served(line, lane.exchange_taken());
    // Also while verdicts of the lane wait to be sent, and it takes nothing: its turn comes after that.
    busy[line] = busy[line] || (lane.is_working() && lane.prefetcher().has_more(share_of(lane)));
  }
  capacity_.set_busy(busy);
  // Only the first of them may take a possible poison message, so lanes of one queue take turns here, too.
  std::sort(takers.begin(), takers.end(), [this](const Lane* a, const Lane* b) {
    const std::size_t one = a->queue().line, other = b->queue().line;
    if (one == other) return a->precedes(*b);
    return capacity_.precedes(one, other) || (!capacity_.precedes(other, one) && one < other);
  });
  const std::vector<std::size_t> divided = capacity_.divide(wishes(server, takers));
  std::vector<SharedCapacity::LaneUse> after;
  for (Lane* lane : takers) {
    const WorkerShare share = share_of(*lane);
    const std::size_t own = divided[lane->number()];
    if (own > 0 && lane->has_more(share)) lane->use_turn(own);
    round_trip.add_for(&lane->requests());
    lane->add_taking(round_trip, share, own);
    SharedCapacity::LaneUse use = use_of(*lane);  // a take only adds to it
    after.push_back(use);
    use.held = uses_[lane->number()].held;  // until all have taken: the places were divided before
    capacity_.grow(lane->number(), use);
  }
  for (std::size_t i = 0; i < takers.size(); ++i) capacity_.grow(takers[i]->number(), after[i]);
}

// Whether a lane of another server can take messages in this step, too.
bool TakePlanner::takes_elsewhere(const Lane& lane, const LaneServer& server) const {
  const LaneServer& own = servers_.of(lane);
  return &own != &server && lane.is_working() && own.may_start(&Purpose::take) && lane.should_go_on(share_of(lane));
}

// The lanes that may take messages now: those of `takers`, if they have more or their moves are due; and lanes of other
// servers that have more, for which places are reserved.
std::vector<SharedCapacity::Wish> TakePlanner::wishes(const LaneServer& server,
                                                      const std::vector<Lane*>& takers) const {
  std::vector<bool> takes(lanes_.size(), false);
  for (const Lane* lane : takers) takes[lane->number()] = true;
  std::vector<SharedCapacity::Wish> all;
  for (const ServedQueue& queue : queues_) {
    for (const Lane* lane : in_turn(queue)) {
      const WorkerShare share = share_of(*lane);
      const bool is_taker = takes[lane->number()];
      const bool has_more = is_taker ? lane->has_more(share) : takes_elsewhere(*lane, server);
      const bool may = is_taker ? lane->is_working() && (has_more || lane->moves_are_due()) : has_more;
      if (may && lane->can_take(share)) all.push_back({lane->number(), lane->most_taken(share), has_more});
    }
  }
  return all;
}

}  // namespace delayqueue
