#include "consumer/plan.h"

#include "consumer/link.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace delayqueue::planning {
namespace {

using run::minus;
using store::kBatch;

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// Places that a lane with fast handlers has in its turn. If lanes took turns with each take, each partition would soon
// have no leases left, and a message would cost Redis more: it converts a sorted set that grows beyond 128 members.
constexpr std::size_t kTurn = 5 * kBatch;

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

class Planner {
 public:
  Planner(const Snapshot& snapshot, run::Turns turns)
      : limits_(snapshot.limits),
        queues_(snapshot.queues),
        servers_(snapshot.servers),
        lanes_(snapshot.lanes),
        turns_(std::move(turns)),
        queue_uses_(queues_.size()),
        lane_uses_(lanes_.size()) {}

  Result make() {
    count_taken();
    const auto expects = [](const LaneView& lane) { return lane.expects_poison; };
    const auto expecting = std::find_if(lanes_.begin(), lanes_.end(), expects);
    if (expecting != lanes_.end()) poison_lane_ = static_cast<std::size_t>(expecting - lanes_.begin());
    add_up();
    find_work();
    decide_starts();
    release_late();
    read_markers();
    take();
    add_up();  // with what these takes may return
    look_ahead();
    return {std::move(plan_), std::move(turns_)};
  }

 private:
  struct LaneUse {
    std::size_t held = 0;     // messages that wait for their bodies, or may come
    std::size_t claimed = 0;  // workers
    bool redelivers = false;  // a redelivered message is on its way to a free worker
  };

  // What the lanes of a queue use together.
  struct QueueUse {
    std::size_t held = 0;
    std::size_t claimed = 0;
    double asked_for = 0;      // messages that its handlers need in advance
    std::size_t prefetch = 0;  // messages that it may hold in addition to the running ones
    std::size_t lanes = 0;
    bool busy = false;      // it has messages, as far as is known
    bool can_take = false;  // some of them now
  };

  // What all queues use together.
  struct Use {
    std::size_t held = 0;
    std::size_t claimed = 0;
    std::size_t prefetch = 0;
    std::size_t running = 0;
    std::size_t waiting = 0;       // for a worker
    std::size_t idle = 0;          // workers
    std::size_t redelivering = 0;  // lanes
  };

  // A lane that may take.
  struct Wish {
    std::size_t lane = 0;
    std::size_t room = 0;      // most messages
    bool has_more = false;     // as far as is known, it has messages; if not, it looks for some
    std::size_t expected = 0;  // so many, as far as is known
  };

  void count_taken() {
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
      const std::size_t taken = queues_[queue].taken;
      if (taken == 0) continue;
      turns_.serve(queue, taken);
      turns_.limit_lag(queue, kMostLag * (limits_.concurrency + most_prefetched()));
    }
  }

  // ---- What is used

  // A lane whose answers are late keeps no places from others: its server may be frozen.
  LaneUse use_of(const LaneView& lane) const {
    if (lane.late) return {0, 0, lane.fetches_redelivered};
    return {lane.fetching + lane.coming, lane.fetching + lane.coming_retries,
            lane.coming_retries > 0 || lane.fetches_redelivered};
  }

  void add_up() {
    all_ = Use();
    for (QueueUse& use : queue_uses_) {
      use.held = use.claimed = use.lanes = 0;
      use.asked_for = 0;
    }
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const LaneView& lane = lanes_[i];
      const LaneUse use = lane_uses_[i] = use_of(lane);
      QueueUse& own = queue_uses_[lane.queue];
      own.held += use.held;
      own.claimed += use.claimed;
      ++own.lanes;
      own.asked_for += lane.prefetch;
      all_.redelivering += use.redelivers ? 1 : 0;
    }
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
      const run::WorkerLoad& load = queues_[queue].load;
      QueueUse& own = queue_uses_[queue];
      own.prefetch = std::min(static_cast<std::size_t>(own.asked_for), most_prefetched());
      all_.prefetch += own.prefetch;
      all_.held += own.held + load.running + load.waiting;
      all_.claimed += own.claimed + load.waiting;
      all_.running += load.running;
      all_.waiting += load.waiting;
      all_.idle = std::max(all_.idle, load.idle);
    }
    all_.prefetch = std::min(all_.prefetch, most_prefetched());
  }

  std::size_t used_servers() const {
    const auto is_usable = [](const ServerView& one) { return one.usable; };
    const auto count = std::count_if(servers_.begin(), servers_.end(), is_usable);
    return std::max<std::size_t>(1, static_cast<std::size_t>(count));
  }
  std::size_t most_prefetched() const { return used_servers() * limits_.prefetch; }

  // How many messages all lanes together may hold. With a handler of a Delivery there may be fewer threads than running
  // deliveries.
  std::size_t bound() const { return std::min(limits_.concurrency, all_.running + all_.idle) + all_.prefetch; }
  std::size_t places_left() const { return minus(bound(), all_.held); }

  // Whether a queue may hold a message though all places are taken: with slow handlers the messages of other queues may
  // fill them for long. A queue that holds none may hold one, and the turns of the WorkerPool decide when that runs.
  // The turns here count messages that were taken: most of them may still wait for a worker.
  bool needs_place(std::size_t queue) const {
    const run::WorkerLoad& load = queues_[queue].load;
    const bool others_wait = all_.waiting > load.idle;  // not just until an idle worker has begun
    return others_wait && load.running + load.waiting + queue_uses_[queue].held == 0 && places_left() == 0;
  }

  // Places that all lanes have left; divide() says how many of them are for each.
  std::size_t places_for(const LaneView& lane) const {
    return std::max<std::size_t>(places_left(), needs_place(lane.queue) ? 1 : 0);
  }

  // ---- What one lane may take. `places`: most of the messages

  bool may_take_poison(std::size_t i) const {
    return limits_.poison_allowed && (poison_lane_ == kNone || poison_lane_ == i);
  }

  // Whether retry has nothing to take, as far as is known: all in it may be poison, and one runs.
  bool blocks_retry(std::size_t i) const { return lanes_[i].resting && !may_take_poison(i); }
  bool retry_waits(std::size_t i) const { return lanes_[i].retry_left > 0 && !blocks_retry(i) && !lanes_[i].held_back; }

  // Whether one worker must be kept free for retry. Under load every worker that becomes free would go on with first
  // deliveries, of this queue or of others, and retry would never get its share. It is counted over the messages that
  // were taken, and over those that were handled: with slow handlers none may be taken for long.
  bool retry_is_due(std::size_t i) const {
    return std::max(lanes_[i].since_retry, queues_[lanes_[i].queue].handled) + 1 >= kRetryShare && retry_waits(i);
  }

  // Workers for redelivered messages, which are never held in advance: idle ones that no other message has a claim on.
  std::size_t free_workers(std::size_t i, std::size_t places) const {
    const QueueView& queue = queues_[lanes_[i].queue];
    const std::size_t siblings = queue_uses_[lanes_[i].queue].claimed - lane_uses_[i].claimed;
    const std::size_t others = all_.claimed - queue_uses_[lanes_[i].queue].claimed - queue.load.waiting;
    const std::size_t idle = std::min(minus(queue.load.idle, others + siblings), minus(queue.load.allowed, siblings));
    const std::size_t free = std::min(minus(idle, queue.load.waiting + lanes_[i].fetching), places);
    if (free > 0 || std::min(queue.load.idle, queue.load.allowed) == 0 || !retry_is_due(i)) return free;
    // The worker that is kept free for retry takes no first deliveries.
    const bool other_redelivers = all_.redelivering > (lane_uses_[i].redelivers ? 1U : 0U);
    return other_redelivers || lanes_[i].fetches_redelivered ? 0 : 1;
  }

  // How many more messages it may hold.
  std::size_t room(std::size_t i, std::size_t places) const {
    const QueueView& queue = queues_[lanes_[i].queue];
    const QueueUse& use = queue_uses_[lanes_[i].queue];
    const std::size_t siblings = use.held - lane_uses_[i].held;
    const std::size_t waiting = queue.load.waiting + lanes_[i].fetching + lanes_[i].coming + siblings;
    const std::size_t others = all_.claimed - use.claimed - queue.load.waiting;
    if (lanes_[i].paced) places = std::min(places, paced_room(i, waiting, others));
    return std::min({minus(queue.limit + use.prefetch, queue.load.running + waiting),
                     minus(queue.load.places, waiting + others), places});
  }

  // A message that waits for a worker has used a token or a place that another consumer could use. So messages of a
  // queue with limits are taken for free workers. One more may wait: for free workers alone the queue would get nothing
  // beside others that prefetch, since none would ever be free.
  std::size_t paced_room(std::size_t i, std::size_t waiting, std::size_t others) const {
    const run::WorkerLoad& load = queues_[lanes_[i].queue].load;
    return minus(std::min(minus(load.idle, others), load.allowed) + 1, waiting);
  }
  std::size_t room(std::size_t i) const { return room(i, places_for(lanes_[i])); }

  // Whether a take may return something, as far as is known; and while nothing keeps the lane from it.
  bool has_work(std::size_t i) const { return has_messages(i, places_for(lanes_[i])) || lanes_[i].more_due; }
  bool has_more(std::size_t i) const { return has_work(i) && !lanes_[i].too_many_verdicts; }
  bool has_messages(std::size_t i, std::size_t places) const {
    if (lanes_[i].held_back) return false;
    return lanes_[i].more_ready || (retry_waits(i) && free_workers(i, places) > 0);
  }

  // Its moves are due, after which a take may return something.
  bool moves_are_due(std::size_t i) const { return promotes(i) || lanes_[i].reclaim_due; }
  bool promotes(std::size_t i) const { return lanes_[i].more_due || lanes_[i].promote_due; }

  // It must not wait for places: by time its moves are due, or retry has to get its share.
  bool has_to_look(std::size_t i) const { return lanes_[i].promote_due || lanes_[i].reclaim_due || retry_is_due(i); }

  // Of its next take.
  store::TakeLimits limits_of(std::size_t i, std::size_t places) const {
    const LaneView& own = lanes_[i];
    store::TakeLimits take;
    // While a take is under way, a further one returns nothing from retry.
    take.retry_max = own.coming > 0 || blocks_retry(i) ? 0 : free_workers(i, places);
    take.total = std::min(std::max(room(i, places), take.retry_max), kBatch);
    take.retry_share = std::min((own.since_retry + take.total) / kRetryShare, take.retry_max);
    // While retry waits, its share also limits the number of first deliveries, however much room there is.
    const std::size_t most_new = minus((kRetryShare - 1) * (take.retry_share + 1), own.since_retry);
    if (retry_waits(i)) take.total = std::min(take.total, most_new + take.retry_share);
    take.since_retry = own.since_retry;
    take.poison_max = !own.scanning && may_take_poison(i) ? 1 : 0;
    if (own.scanning && take.retry_max > 0) {
      take.total = std::min(take.total, kBatch / 4);
      take.poison_skip = std::min(own.to_skip, kBatch - take.total);
    }
    return take;
  }
  bool can_take(std::size_t i) const { return limits_of(i, places_for(lanes_[i])).total > 0; }

  // Number of takes in a round trip: several if the last one was full, there is room for them, and no messages of retry
  // can be taken.
  std::size_t batches(std::size_t i, std::size_t places) const {
    if (!lanes_[i].full || retry_waits(i) || lanes_[i].paced) return 1;
    return std::clamp<std::size_t>((room(i, places) + kBatch - 1) / kBatch, 1, kMostBatches);
  }

  // ---- Which queues have messages, and which servers begin a round trip

  void find_work() {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      if (!lanes_[i].may_take || !has_work(i)) continue;
      QueueUse& queue = queue_uses_[lanes_[i].queue];
      queue.busy = true;  // also while it takes nothing, because verdicts wait to be sent: its turn comes after that
      queue.can_take = queue.can_take || can_take(i);
    }
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
      takers_ += queue_uses_[queue].can_take ? 1 : 0;
      active_ += queues_[queue].active ? 1 : 0;
    }
  }

  // Whether no other queue can take messages. Then a round trip takes one batch: further ones may overlap with it.
  bool is_alone(std::size_t queue) const { return takers_ == (queue_uses_[queue].can_take ? 1U : 0U); }

  // The most messages that a round trip takes for the only queue that can take any. A message of another queue waits
  // for the takes that are under way. So while others have had one lately, it is kLargeTake for each millisecond that a
  // round trip needs at least: fewer would cost Redis more for each message, and would not use a long link.
  std::size_t batch_of(std::size_t i) const {
    if (active_ == (queues_[lanes_[i].queue].active ? 1U : 0U)) return kBatch;
    const double batch = kLargeTake * lanes_[i].round_trip_ms;
    return static_cast<std::size_t>(std::clamp(batch, double(kLargeTake), double(kBatch)));
  }

  // Whether it may take although round trips that take are under way: the last answer was all that was asked for, there
  // is room, and nothing is known to wait in retry, which another take would leave alone.
  bool may_overlap(std::size_t i) const {
    if (!lanes_[i].may_take) return false;
    if (lanes_[i].coming == 0) return has_more(i) || moves_are_due(i);
    return has_more(i) && lanes_[i].full && !lanes_[i].late && !retry_waits(i) && room(i) >= batch_of(i);
  }

  void decide_starts() {
    plan_.starts.assign(servers_.size(), false);
    for (std::size_t server = 0; server < servers_.size(); ++server) {
      const ServerView& one = servers_[server];
      plan_.starts[server] =
          one.usable && one.may_start && one.takes < kMostTakes && (one.takes == 0 || wants_another(server));
    }
  }

  // Several queues that have messages take in the same round trip, or one would get more than its share.
  bool wants_another(std::size_t server) const {
    if (takers_ > 1) return false;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const bool wants = lanes_[i].has_to_fetch || lanes_[i].woken || may_overlap(i);
      if (lanes_[i].server == server && lanes_[i].may_take && wants) return true;
    }
    return false;
  }

  // A server that answers late may return more than all lanes together may hold, because others got its places.
  void release_late() {
    std::size_t excess = minus(all_.held, bound());
    for (const LaneView& lane : lanes_) {
      plan_.releases_late.push_back(std::min(excess, lane.came_late));
      excess -= plan_.releases_late.back();
    }
  }

  // In a round trip that takes, a marker that a lane has received means that there may be messages that are due.
  void read_markers() {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const bool reads = plan_.starts[lanes_[i].server];
      // Takes under way occupy places that they may not need.
      plan_.full.push_back(reads && servers_[lanes_[i].server].takes == 0 && room(i) == 0);
      if (reads && lanes_[i].woken) lanes_[i].promote_due = true;
      if (reads && lanes_[i].woken) lanes_[i].held_back = false;
      if (reads && lanes_[i].woken_for_ready) lanes_[i].lists_empty = false;
    }
  }

  // ---- Takes

  void take() {
    const std::vector<std::size_t> takers = find_takers();
    if (takers.empty()) return;
    const std::vector<std::size_t> divided = divide(wishes(takers));
    taking_.assign(servers_.size(), std::vector<bool>(queues_.size(), false));
    for (const LaneView& lane : lanes_) {
      if (lane.coming > 0) taking_[lane.server][lane.queue] = true;
    }
    for (const std::size_t i : takers) add_take(i, divided[i]);
  }

  // The lanes that may take, sorted by the turns of the queues, then of the lanes. Only the first one may take a
  // possible poison message, so the order also matters if there are places for all.
  std::vector<std::size_t> find_takers() {
    const auto may_send = [&](const LaneView& lane) {
      return lane.may_take && lane.may_send && (!lane.works || plan_.starts[lane.server]);
    };
    if (std::any_of(lanes_.begin(), lanes_.end(), may_send)) {
      for (std::size_t queue = 0; queue < queues_.size(); ++queue) turns_.set_busy(queue, queue_uses_[queue].busy);
    }
    std::vector<std::size_t> takers;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const bool overlaps = servers_[lanes_[i].server].takes > 0;
      if (may_send(lanes_[i]) && (!overlaps || may_overlap(i))) takers.push_back(i);
    }
    std::sort(takers.begin(), takers.end(), [this](std::size_t a, std::size_t b) {
      const std::size_t one = lanes_[a].queue, other = lanes_[b].queue;
      if (one == other) return std::pair(lanes_[a].turn, a) < std::pair(lanes_[b].turn, b);
      return turns_.precedes(one, other) || (!turns_.precedes(other, one) && one < other);
    });
    return takers;
  }

  std::vector<Wish> wishes(const std::vector<std::size_t>& takers) const {
    std::vector<Wish> all;
    for (const std::size_t i : takers) {
      const bool more = has_more(i);
      if ((!more && !moves_are_due(i)) || lanes_[i].held_back || !can_take(i)) continue;
      const std::size_t most = most_of_queue(i);
      // What one partition is not expected to have is for the others of the queue.
      const bool limits = more && queue_uses_[lanes_[i].queue].lanes > 1;
      all.push_back({i, std::min(room(i), most), more, limits ? expected(i) : most});
    }
    return all;
  }

  // Of all servers: the places of the queue are divided among them.
  std::size_t most_of_queue(std::size_t i) const {
    if (is_alone(lanes_[i].queue)) return used_servers() * batch_of(i);
    return batches(i, places_for(lanes_[i])) * kBatch;
  }

  std::size_t expected(std::size_t i) const { return lanes_[i].expected + lanes_[i].retry_left; }

  // Divides the free places by weight among the queues that have messages, then what is left among those that look for
  // some. If many look, one place each is kept for them.
  std::vector<std::size_t> divide(const std::vector<Wish>& wishes) const {
    std::vector<std::size_t> divided(lanes_.size(), 0);
    if (wishes.empty()) return divided;
    const auto looks = [](const Wish& wish) { return !wish.has_more; };
    const auto lookers = static_cast<std::size_t>(std::count_if(wishes.begin(), wishes.end(), looks));
    const std::size_t kept = std::min(lookers, places_left() / kMostParts);
    std::size_t left = places_left() - kept;
    run::Turns turns = turns_;
    std::vector<std::size_t> of_queues(queues_.size(), 0);
    for (const bool has_more : {true, false}) {
      std::vector<Wish> some;
      for (Wish wish : wishes) {
        if (wish.has_more != has_more) continue;
        wish.room = std::min(wish.room, minus(room(wish.lane), of_queues[lanes_[wish.lane].queue]));
        some.push_back(wish);
      }
      if (some.empty()) continue;
      if (!has_more) left += kept;
      std::vector<std::size_t> given = divide_among_queues(some, has_more, left, turns);
      of_queues = given;
      has_more ? give_to_servers(some, given, divided) : give_to_lookers(some, given, divided);
    }
    return divided;
  }

  // Returns the places of each queue. `left` and `turns` change.
  std::vector<std::size_t> divide_among_queues(const std::vector<Wish>& wishes, bool has_more, std::size_t& left,
                                               run::Turns& turns) const {
    std::vector<std::size_t> wanted(queues_.size(), 0), expected(wanted), given(wanted);
    for (const Wish& wish : wishes) {
      const std::size_t queue = lanes_[wish.lane].queue;
      wanted[queue] = std::max(wanted[queue], wish.room);
      expected[queue] += std::min(wish.room, std::max<std::size_t>(1, wish.expected));
    }
    std::size_t weights = 0;
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
      wanted[queue] = std::min(wanted[queue], expected[queue]);
      if (wanted[queue] > 0) weights += turns.weight(queue);
    }
    const std::size_t all = left;
    const std::size_t least = has_more ? std::clamp<std::size_t>(all / kMostParts, 1, kLeastPart) : 1;
    while (left > 0) {
      const std::size_t next = turns.next([&](std::size_t queue) { return wanted[queue] > 0; });
      if (next == queues_.size()) break;
      // A quarter of its share at a time, so that a queue that has had less than the others before catches up.
      const std::size_t part = turns.is_strict() ? left : std::max(least, all * turns.weight(next) / weights / 4);
      const std::size_t some = std::min({part, wanted[next], left});
      given[next] += some;
      wanted[next] -= some;
      left -= some;
      turns.serve(next, some);
    }
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
      if (given[queue] == 0 && wanted[queue] > 0 && needs_place(queue)) given[queue] = 1;
    }
    return given;
  }

  // The servers of the lanes that have messages, or get some now, hold equal parts: one that is slow to answer would
  // otherwise keep all places, and the others would wait for it. The first lane of a server takes all that it can.
  void give_to_servers(const std::vector<Wish>& wishes, std::vector<std::size_t>& given,
                       std::vector<std::size_t>& divided) const {
    std::vector<std::map<std::size_t, std::size_t>> held(queues_.size());  // of each queue, by server
    std::vector<std::size_t> all = given;
    for (const Wish& wish : wishes) held[lanes_[wish.lane].queue].try_emplace(lanes_[wish.lane].server, 0);
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      if (lane_uses_[i].held == 0) continue;
      held[lanes_[i].queue][lanes_[i].server] += lane_uses_[i].held;
      all[lanes_[i].queue] += lane_uses_[i].held;
    }
    for (const Wish& wish : wishes) {
      const std::size_t queue = lanes_[wish.lane].queue;
      const std::size_t servers = held[queue].size(), part = (all[queue] + servers - 1) / servers;
      std::size_t& own = held[queue][lanes_[wish.lane].server];
      const std::size_t expected = std::max<std::size_t>(1, wish.expected);
      const std::size_t some = std::min({minus(part, own), given[queue], wish.room, expected});
      divided[wish.lane] = some;
      own += some;
      given[queue] -= some;
    }
  }

  void give_to_lookers(const std::vector<Wish>& wishes, std::vector<std::size_t>& given,
                       std::vector<std::size_t>& divided) const {
    const std::size_t most = lanes_.size() < kLookers ? places_left() : (places_left() + kLookers - 1) / kLookers;
    std::vector<std::size_t> lanes(queues_.size(), 0);
    for (const Wish& wish : wishes) ++lanes[lanes_[wish.lane].queue];
    for (const Wish& wish : wishes) {
      const std::size_t queue = lanes_[wish.lane].queue;
      const std::size_t part = std::max<std::size_t>(1, given[queue] / lanes[queue]--);
      divided[wish.lane] = std::min({part, given[queue], wish.room, std::max<std::size_t>(1, most)});
      given[queue] -= divided[wish.lane];
    }
  }

  // pending2unack is the move and the take in one request; it takes nothing after an unack2retry that moved messages to
  // retry, so they do not share a round trip.
  void add_take(std::size_t i, std::size_t divided) {
    const LaneView& own = lanes_[i];
    const std::size_t batch = batch_of(i);
    const std::size_t part = is_alone(own.queue) ? std::min(divided, batch) : divided;
    const bool more = has_more(i), moves_promoted = promotes(i);
    if (more && servers_[own.server].takes > 0 && !is_worth(i, part, batch)) return;

    Take take;
    take.lane = i;
    const std::size_t places = std::min(places_for(own), part);
    if (more && part > 0) {
      take.places = part;
      // With slow handlers a take has fewer places. A possible poison message must not wait for thousands of others.
      take.ends_turn = part < kLargeTake || retry_waits(i) || own.used + part >= kTurn;
    }
    take.keeps_watch = room(i) > 0;
    take.reclaims = own.reclaim_due && own.renewed;
    take.due = moves_promoted && !take.reclaims && !own.too_many_verdicts && own.lists_empty && room(i, places) > 0;
    if (moves_promoted && !take.due) take.promotes = batches(i, places);
    const bool looks = take.reclaims || moves_promoted || has_messages(i, places);
    if (looks && own.too_many_verdicts) take.postpones = true;
    if (looks && !own.too_many_verdicts && !own.held_back) add_limits(take, places);
    take.asks_lengths =
        lanes_.size() > 1 && places == 0 && !own.held_back && !take.due && (take.reclaims || moves_promoted);
    if (!looks && take.places == 0) return;
    plan_.takes.push_back(take);
    expect(take);
  }

  // While a take of the same queue is under way, only a whole batch is worth a call, or all that a partition is
  // expected to have, or what must not wait.
  bool is_worth(std::size_t i, std::size_t part, std::size_t batch) const {
    const std::size_t all = queue_uses_[lanes_[i].queue].lanes > 1 ? std::min(batch, expected(i)) : batch;
    return part >= all || !taking_[lanes_[i].server][lanes_[i].queue] || has_to_look(i);
  }

  // Only the first take may return messages from retry.
  void add_limits(Take& take, std::size_t places) const {
    store::TakeLimits first = limits_of(take.lane, places);
    const std::size_t further = batches(take.lane, places) - 1;
    if (further > 0) {
      first.total = std::min(first.total, minus(room(take.lane, places), further * kBatch));
      first.retry_max = std::min(first.retry_max, first.total);
      first.retry_share = std::min(first.retry_share, first.total);
    }
    if (first.total == 0) return;
    take.first = first;
    take.further = further;
  }

  // From now on the lane is as it will be when it has sent this. The lanes behind it see the claims, but not what it
  // holds: the places were divided before.
  void expect(const Take& take) {
    LaneView& own = lanes_[take.lane];
    if (take.promotes > 0 || take.due) own.promote_due = false;
    if (take.reclaims) own.reclaim_due = false;
    if (take.postpones) own.more_ready = true;
    if (take.first.total == 0) return;
    own.coming += take.first.total + take.further * kBatch;
    own.coming_retries += take.first.retry_max;
    if (take.first.retry_max > 0 && take.first.poison_max > 0) poison_lane_ = take.lane;
    taking_[own.server][own.queue] = true;
    const LaneUse after = use_of(own);
    LaneUse& use = lane_uses_[take.lane];
    queue_uses_[own.queue].claimed += after.claimed - use.claimed;
    all_.claimed += after.claimed - use.claimed;
    all_.redelivering += after.redelivers && !use.redelivers ? 1 : 0;
    use.claimed = after.claimed;
    use.redelivers = after.redelivers;
  }

  // ---- After the takes

  void look_ahead() {
    plan_.goes_on.assign(servers_.size(), false);
    plan_.keeps_one_free.assign(queues_.size(), false);
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const LaneView& own = lanes_[i];
      const bool takes_anyway = lanes_.size() > 1 && own.more_ready && !own.held_back;
      plan_.listens.push_back(own.may_take && !takes_anyway && !moves_are_due(i) && room(i) > 0);
      if (own.may_take && could_go_on(i)) plan_.goes_on[own.server] = true;
      if (own.may_take && own.works && retry_is_due(i)) plan_.keeps_one_free[own.queue] = true;
    }
  }

  // The last take returned as much as it asked for, or was stopped by possible poison messages, and another may get
  // further.
  bool could_go_on(std::size_t i) const {
    if (lanes_[i].held_back) return false;
    if (lanes_[i].more_ready && can_take(i)) return true;
    const bool rescans = lanes_[i].scanning || (lanes_[i].owes_poison && may_take_poison(i));
    return rescans && retry_waits(i) && free_workers(i, places_for(lanes_[i])) > 0;
  }

  const Limits& limits_;
  const std::vector<QueueView>& queues_;
  const std::vector<ServerView>& servers_;
  std::vector<LaneView> lanes_;  // as they are after the takes that were planned
  run::Turns turns_;
  Plan plan_;
  std::vector<QueueUse> queue_uses_;
  std::vector<LaneUse> lane_uses_;
  Use all_;
  std::size_t poison_lane_ = kNone;        // a take of it that is under way may return a possible poison message
  std::size_t takers_ = 0;                 // queues that can take
  std::size_t active_ = 0;                 // queues
  std::vector<std::vector<bool>> taking_;  // of each server: the queues with a take under way
};

}  // namespace

Result plan(const Snapshot& snapshot, run::Turns turns) { return Planner(snapshot, std::move(turns)).make(); }

}  // namespace delayqueue::planning
