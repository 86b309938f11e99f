#include "consumer/shared_capacity.h"

#include <algorithm>
#include <map>

namespace delayqueue {
namespace {

// A queue is behind another one by at most so many times the messages that all queues may hold. In normal operation it
// is behind by fewer. It may be behind by more while its server does not answer.
constexpr std::size_t kMostLag = 4;

// The least part of the places for a queue that has messages, so that only some of many queues take in a round trip. A
// call has a fixed cost, which few messages do not repay. Few places, which slow handlers leave, have kMostParts parts.
constexpr std::size_t kLeastPart = 50;
constexpr std::size_t kMostParts = 16;

// Of so many lanes, one that looks for messages gets at most this part of the places: it may find a single message, and
// other lanes look before its answer is here.
constexpr std::size_t kLookers = 4;

}  // namespace

void SharedCapacity::add_lane(std::size_t line) {
  members_.resize(turns_.size());
  members_[line].push_back(lines_.size());
  lines_.push_back(line);
  lanes_.emplace_back();
}

void SharedCapacity::set(const std::vector<run::WorkerLoad>& loads, const std::vector<LaneUse>& uses,
                         std::size_t servers) {
  prefetch_ = servers * prefetch_of_server_;
  loads_ = loads;
  all_ = Use();
  lanes_.assign(lines_.size(), {});
  queues_.assign(turns_.size(), {});
  std::vector<double> prefetch(turns_.size(), 0);
  for (std::size_t lane = 0; lane < lines_.size(); ++lane) {
    grow(lane, uses[lane]);
    prefetch[lines_[lane]] += uses[lane].prefetch;
  }
  for (std::size_t line = 0; line < turns_.size(); ++line) {
    const run::WorkerLoad& load = loads_[line];
    QueueUse& own = queues_[line];
    own.prefetch = std::min(static_cast<std::size_t>(prefetch[line]), prefetch_);
    all_.prefetch += own.prefetch;
    all_.held += load.running + load.waiting;
    all_.running += load.running;
    all_.idle = std::max(all_.idle, load.idle);
    all_.waiting += load.waiting;
    all_.claimed += load.waiting;
  }
  all_.prefetch = std::min(all_.prefetch, prefetch_);
}

void SharedCapacity::grow(std::size_t lane, const LaneUse& use) {
  LaneUse& own = lanes_[lane];
  QueueUse& queue = queues_[lines_[lane]];
  queue.held += use.held - own.held;
  queue.claimed += use.claimed - own.claimed;
  all_.held += use.held - own.held;
  all_.claimed += use.claimed - own.claimed;
  all_.redelivering += use.redelivers && !own.redelivers ? 1 : 0;
  own = use;
}

// How many messages all lanes together may hold. With a DeliveryHandler there may be fewer threads than running
// deliveries.
std::size_t SharedCapacity::budget() const { return std::min(concurrency_, all_.running + all_.idle) + all_.prefetch; }

std::size_t SharedCapacity::places() const { return minus(budget(), all_.held); }

std::size_t SharedCapacity::excess() const { return minus(all_.held, budget()); }

// Whether a queue may hold a message though all places are taken: with slow handlers the messages of other queues may
// fill them for long. A queue that holds none may hold one, and the turns of WorkerPool decide when that runs. The turns
// here count messages that were taken: most of them may still wait for a worker.
bool SharedCapacity::needs_place(std::size_t line) const {
  const run::WorkerLoad& load = loads_[line];
  const bool others_wait = all_.waiting > load.idle;  // not just until an idle worker has begun
  return others_wait && load.running + load.waiting + queues_[line].held == 0 && places() == 0;
}

WorkerShare SharedCapacity::share_of(std::size_t lane) const {
  const std::size_t line = lines_[lane];
  const QueueUse& queue = queues_[line];
  const LaneUse& own = lanes_[lane];
  WorkerShare share;
  share.load = loads_[line];
  share.prefetch = queue.prefetch;
  share.room = std::max<std::size_t>(places(), needs_place(line) ? 1 : 0);
  share.claimed = all_.claimed - queue.claimed - share.load.waiting;
  share.siblings = queue.held - own.held;
  share.siblings_claimed = queue.claimed - own.claimed;
  share.has_others = lines_.size() > 1;
  share.redelivers = all_.redelivering > (own.redelivers ? 1U : 0U);
  return share;
}

std::vector<std::size_t> SharedCapacity::divide(const std::vector<Wish>& wishes) const {
  std::vector<std::size_t> divided(lines_.size(), 0);
  const auto looks = [](const Wish& wish) { return !wish.has_more; };
  const auto lookers = static_cast<std::size_t>(std::count_if(wishes.begin(), wishes.end(), looks));
  const std::size_t reserved = std::min(lookers, places() / kMostParts);  // for one message each
  const std::size_t most_looked = lines_.size() < kLookers ? places() : (places() + kLookers - 1) / kLookers;
  std::size_t left = places() - reserved;
  run::Turns turns = turns_;
  for (const bool has_more : {true, false}) {
    if (!has_more) left += reserved;
    std::vector<std::size_t> wanted(turns.size(), 0), given(wanted), lanes(wanted), expected(wanted);
    for (const Wish& wish : wishes) {
      if (wish.has_more != has_more) continue;
      const std::size_t line = lines_[wish.lane];
      wanted[line] = std::max(wanted[line], wish.room);
      expected[line] += std::min(wish.room, std::max<std::size_t>(1, wish.expected));
      ++lanes[line];
    }
    for (std::size_t line = 0; line < turns.size(); ++line) wanted[line] = std::min(wanted[line], expected[line]);
    std::size_t weights = 0;
    for (std::size_t line = 0; line < turns.size(); ++line) {
      if (wanted[line] > 0) weights += turns.weight(line);
    }
    const std::size_t all = left;
    const std::size_t least = has_more ? std::clamp<std::size_t>(all / kMostParts, 1, kLeastPart) : 1;
    for (;;) {
      const std::size_t next = turns.next([&](std::size_t line) { return wanted[line] > 0; });
      if (left == 0 || next == turns.size()) break;
      // A quarter of its share at a time, so that a queue that has had less than the others before catches up.
      const std::size_t part = std::max(least, all * turns.weight(next) / weights / 4);
      const std::size_t some = std::min({strict_ ? left : part, wanted[next], left});
      given[next] += some;
      wanted[next] -= some;
      left -= some;
      turns.serve(next, some);
    }
    for (std::size_t line = 0; line < turns.size(); ++line) {
      if (given[line] == 0 && wanted[line] > 0 && needs_place(line)) given[line] = 1;
    }
    if (has_more) {
      std::vector<std::vector<Wish>> of_lines(turns.size());
      for (const Wish& wish : wishes) {
        if (wish.has_more && given[lines_[wish.lane]] > 0) of_lines[lines_[wish.lane]].push_back(wish);
      }
      for (std::size_t line = 0; line < turns.size(); ++line) {
        if (!of_lines[line].empty()) give_to_lanes(of_lines[line], given[line], divided);
      }
      continue;
    }
    for (const Wish& wish : wishes) {
      if (wish.has_more) continue;
      std::size_t& rest = given[lines_[wish.lane]];
      const std::size_t part = std::max<std::size_t>(1, rest / lanes[lines_[wish.lane]]--);
      divided[wish.lane] = std::min({part, rest, wish.room, std::max<std::size_t>(1, most_looked)});
      rest -= divided[wish.lane];
    }
  }
  return divided;
}

// The servers of the lanes that have messages, or get some now, hold equal parts: one that is slow to answer would
// otherwise keep all places, and the others would wait for it. The first lane of a server takes all that it can.
void SharedCapacity::give_to_lanes(const std::vector<Wish>& wishes, std::size_t places,
                                   std::vector<std::size_t>& divided) const {
  std::map<const void*, std::size_t> held;  // by server
  std::size_t all = places;
  for (const Wish& wish : wishes) held.try_emplace(lanes_[wish.lane].server, 0);
  for (const std::size_t lane : members_[lines_[wishes.front().lane]]) {
    if (lanes_[lane].held == 0) continue;
    held[lanes_[lane].server] += lanes_[lane].held;
    all += lanes_[lane].held;
  }
  const std::size_t part = (all + held.size() - 1) / held.size();
  for (const Wish& wish : wishes) {
    std::size_t& own = held[lanes_[wish.lane].server];
    const std::size_t expected = std::max<std::size_t>(1, wish.expected);
    const std::size_t some = std::min({minus(part, own), places, wish.room, expected});
    divided[wish.lane] = some;
    own += some;
    places -= some;
  }
}

void SharedCapacity::served(std::size_t line, std::size_t messages) {
  if (messages == 0) return;
  turns_.serve(line, messages);
  turns_.limit_lag(line, kMostLag * (concurrency_ + prefetch_));
}

void SharedCapacity::set_busy(const std::vector<bool>& busy) {
  for (std::size_t line = 0; line < busy.size(); ++line) turns_.set_busy(line, busy[line]);
}

}  // namespace delayqueue
