// The plan of a step of a consumer: which lanes take messages, in which order, how many and from where; which servers
// begin a round trip for that; for which queues a worker is kept free; which lanes listen for wake-ups; and what is
// released, because it came late.
//
// plan() is a pure function of a snapshot and of the turns of the queues: it reads no clock, does no I/O, and calls
// nothing that its caller passes. Time is in the snapshot, as flags and numbers. The loop, the lanes and the workers
// carry the plan out, and decide nothing more.
//
// A place is for a message that the consumer holds: its handler runs, or it waits for its body or for a worker. A claim
// is on an idle worker: of a message that waits for its body, or of one that a take may return from retry.
#pragma once

#include "run/turns.h"
#include "run/worker_pool.h"
#include "store/moves.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace delayqueue::planning {

// The rules, which plan_test has as a table:
//   - Free places are divided by weight among the queues that have more messages for all that is known; within a queue
//     the lanes take turns. The rest goes to lanes that look for messages. One place is kept for each of these, at most
//     a sixteenth of all; one with other lanes in its queue is given at most a quarter.
//   - While slow handlers fill all places, a queue that holds no message may hold one, whichever has taken more: the
//     turns of WorkerPool decide when it runs.
//   - While only one queue can take, a take has at most 200 messages. If another queue has had one within a second, it
//     has 50 for each millisecond of the shortest round trip: a message of that queue waits for all takes under way.
//   - If many queues have messages, some of them take in a round trip, each at least 50 or a sixteenth of the places.
//   - Places that a take was promised are free for other lanes if its node does not answer in time. Messages that then
//     arrive beyond the bound return to their queue.

// One of so many messages taken is for retry.
inline constexpr std::size_t kRetryShare = 8;

// ---- The snapshot ---------------------------------------------------------------------------------------------------

struct Limits {
  std::size_t concurrency = 1;  // messages whose handlers run, or deliveries that are outstanding
  std::size_t prefetch = 0;     // messages held in addition, for each server
  bool poison_allowed = true;   // no possible poison message runs, or each has run for its lease
};

struct QueueView {
  std::size_t limit = 1;  // messages of the queue that run at the same time
  run::WorkerLoad load{};
  std::size_t taken = 0;    // messages, since the last plan
  bool active = false;      // it had a message within the last second
  std::size_t handled = 0;  // messages of all queues, since one of this queue was taken from retry
};

struct ServerView {
  bool usable = true;     // it has lanes and a connection
  bool may_start = true;  // another round trip may begin now
  std::size_t takes = 0;  // round trips that take, under way
};

// The lanes of a queue are in the order of their partitions.
struct LaneView {
  std::size_t queue = 0;
  std::size_t server = 0;
  bool may_take = true;  // it uses a connection, has no pause after a failure, and has seen whether its queue is paused
  bool works = true;     // its requests have succeeded since the last failure
  bool may_send = true;  // it may add to the next round trip that takes; if it does not work: that settles

  // Its turn among the lanes of its queue: the least is next. The places that it has used in it.
  std::uint64_t turn = 0;
  std::size_t used = 0;

  double prefetch = 0;               // messages that its handlers need in advance; adds up over lanes
  double round_trip_ms = 0;          // the shortest one
  bool late = false;                 // the answers under way are late
  std::size_t fetching = 0;          // messages that wait for their bodies
  bool fetches_redelivered = false;  // one of these is redelivered
  bool has_to_fetch = false;         // the bodies of some are not requested
  std::size_t coming = 0;            // most messages that takes under way return
  std::size_t coming_retries = 0;    // most of them from retry
  std::size_t came_late = 0;         // messages of late answers whose bodies are not requested
  bool too_many_verdicts = false;    // wait to be sent: it takes nothing before that
  bool woken = false;                // it has received a marker
  bool woken_for_ready = false;      // of a message that was due when it was sent

  bool paced = false;      // the queue has limits: it takes for free workers, and one message in advance
  bool held_back = false;  // by these limits: it takes nothing before a time or a marker

  // What the last take has shown, as far as it is known.
  bool more_ready = false;      // messages are left in ready
  std::size_t expected = 0;     // number of these
  bool lists_empty = false;     // ready and retry are
  bool full = false;            // it returned all that it asked for
  std::size_t retry_left = 0;   // messages left in retry
  std::size_t since_retry = 0;  // messages taken since retry had its share

  // The scan of retry for messages behind possible poison messages, see PoisonGuard.
  bool expects_poison = false;  // a take under way may return a possible poison message
  bool resting = false;         // it waits before the scan
  bool scanning = false;
  bool owes_poison = false;  // the last take met possible poison, and was to take none
  std::size_t to_skip = 0;   // possible poison messages to pass over

  // Moves.
  bool more_due = false;     // the last pending2ready moved a full batch
  bool promote_due = false;  // by time
  bool reclaim_due = false;  // by time
  bool renewed = true;       // no renewal of leases is due, which must be sent before unack2retry
};

struct Snapshot {
  Limits limits{};
  std::vector<QueueView> queues{};
  std::vector<ServerView> servers{};
  std::vector<LaneView> lanes{};
};

// ---- The result -----------------------------------------------------------------------------------------------------

// What one lane does in a round trip, in this order.
struct Take {
  std::size_t lane = 0;
  bool reclaims = false;                   // unack2retry
  std::size_t promotes = 0;                // calls of pending2ready
  bool keeps_watch = false;                // it can take what becomes due later
  bool due = false;                        // its takes are pending2unack, not ready2unack
  store::TakeLimits first{0, 0, 0, 0, 0};  // of the first take; without `total` there is none
  std::size_t further = 0;                 // takes of a whole batch each
  bool asks_lengths = false;               // without a place, only the lengths of its lists tell whether it needs one
  bool postpones = false;                  // it has to take when its verdicts were sent
  std::size_t places = 0;                  // that it uses of its turn
  bool ends_turn = false;                  // it goes behind the other lanes of its queue
};

struct Plan {
  std::vector<Take> takes{};                 // in the order in which they are sent
  std::vector<bool> starts{};                // of each server: a round trip that fetches and takes begins
  std::vector<bool> goes_on{};               // of each server: after these takes, lanes could take again at once
  std::vector<bool> full{};                  // of each lane: it has no room
  std::vector<bool> listens{};               // of each lane: it has room, and knows of nothing to take
  std::vector<std::size_t> releases_late{};  // of each lane: messages of late answers, before others are sent
  std::vector<bool> keeps_one_free{};        // of each queue: a worker is kept free for its retry
};

struct Result {
  Plan plan;
  run::Turns turns;
};

// `turns`: of the queues, by the messages that they have taken. Those of the result are for the next call.
Result plan(const Snapshot& snapshot, run::Turns turns);

}  // namespace delayqueue::planning
