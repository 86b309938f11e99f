// The workers and places that all lanes of a consumer share. A place is for a message that the consumer holds: its
// handler runs, or it waits for its body or for a worker. Used by the consumer's thread only.
#pragma once

#include "consumer/worker_share.h"
#include "run/turns.h"
#include "run/worker_pool.h"

#include <cstddef>
#include <limits>
#include <vector>

namespace delayqueue {

// Divides the free places by weight among the queues that have messages, and within a queue among its lanes. The result
// depends on nothing but the calls.
class SharedCapacity {
 public:
  // The workers and places that one lane uses, beside those of its queue's line.
  struct LaneUse {
    std::size_t held = 0;          // messages that wait for their bodies, or may come
    std::size_t claimed = 0;       // workers that some of these wait for
    double prefetch = 0;           // how many messages it wants to hold in addition to the running ones
    bool redelivers = false;       // a redelivered message is on its way to a free worker
    const void* server = nullptr;  // that has its messages; only compared
  };

  // A lane that may take up to `room` messages.
  struct Wish {
    std::size_t lane = 0;
    std::size_t room = 0;
    bool has_more = false;  // as far as is known, it has messages; if not, it looks for some
    std::size_t expected = std::numeric_limits<std::size_t>::max();  // so many, as far as is known
  };

  // `weights`: of the queues. `prefetch`: for each server. See ConsumerOptions for the others.
  SharedCapacity(const std::vector<unsigned>& weights, std::size_t concurrency, std::size_t prefetch, bool strict)
      : concurrency_(concurrency),
        prefetch_of_server_(prefetch),
        prefetch_(prefetch),
        strict_(strict),
        turns_(weights, strict) {}

  // Adds the lane with the next number: 0, 1 ... `line`: of its queue.
  void add_lane(std::size_t line);

  // Sets what is used now: `loads` of each line, `uses` of each lane; and the number of servers that can be used.
  void set(const std::vector<run::WorkerLoad>& loads, const std::vector<LaneUse>& uses, std::size_t servers = 1);

  // Replaces what a lane uses. No number may be smaller than before.
  void grow(std::size_t lane, const LaneUse& use);

  // How many more messages all lanes together may hold, and how many they hold beyond the bound.
  std::size_t places() const;
  std::size_t excess() const;

  // What one lane may use. Its `room` is what all lanes together have left: divide() says how much of it is for each.
  WorkerShare share_of(std::size_t lane) const;

  // Divides the free places. Returns those of each lane, also of lanes without a wish. The wishes of one queue must be
  // in the order of its lanes' turns. Lanes that have more messages come first: the servers share the places of a
  // queue, and on each of them the lane whose turn it is comes first. The lanes that look for messages share the places
  // that are left, and some that are kept for them if there are many.
  std::vector<std::size_t> divide(const std::vector<Wish>& wishes) const;

  // The turns of the queues: a queue has taken so many messages; whether each queue has work; whose turn is earlier.
  void served(std::size_t line, std::size_t messages);
  void set_busy(const std::vector<bool>& busy);
  bool precedes(std::size_t line, std::size_t other) const { return turns_.precedes(line, other); }

 private:
  // What all lanes of a queue use.
  struct QueueUse {
    std::size_t held = 0;
    std::size_t claimed = 0;
    std::size_t prefetch = 0;
  };

  // What all queues use together, with their lines.
  struct Use {
    std::size_t held = 0;
    std::size_t prefetch = 0;
    std::size_t running = 0;  // messages that have a place
    std::size_t idle = 0;     // workers
    std::size_t waiting = 0;  // messages that wait for a worker
    std::size_t claimed = 0;
    std::size_t redelivering = 0;  // lanes
  };

  void give_to_lanes(const std::vector<Wish>& wishes, std::size_t places, std::vector<std::size_t>& divided) const;
  std::size_t budget() const;
  bool needs_place(std::size_t line) const;

  const std::size_t concurrency_;
  const std::size_t prefetch_of_server_;
  std::size_t prefetch_;  // of all servers
  const bool strict_;
  run::Turns turns_;
  std::vector<std::size_t> lines_;                 // of each lane
  std::vector<std::vector<std::size_t>> members_;  // the lanes of each line
  std::vector<run::WorkerLoad> loads_;
  std::vector<LaneUse> lanes_;
  std::vector<QueueUse> queues_;
  Use all_;
};

}  // namespace delayqueue
