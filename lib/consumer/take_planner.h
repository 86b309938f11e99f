// Decides which lanes of a consumer take messages in a round trip, in which order, and how many. Used by the consumer's
// thread only.
#pragma once

#include "consumer/handler_runner.h"
#include "consumer/lane.h"
#include "consumer/lane_server.h"
#include "consumer/lane_servers.h"
#include "consumer/round_trip.h"
#include "consumer/served_queue.h"
#include "consumer/shared_capacity.h"
#include "consumer/worker_share.h"
#include "run/worker_pool.h"

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace delayqueue {

// Reads what the lanes use and want, and lets SharedCapacity divide the places.
class TakePlanner {
 public:
  // `capacity`: without lanes. The other arguments are those of the consumer.
  TakePlanner(SharedCapacity capacity, const std::deque<ServedQueue>& queues, std::deque<Lane>& lanes,
              const HandlerRunner& handlers, const LaneServers& servers)
      : queues_(queues), lanes_(lanes), handlers_(handlers), servers_(servers), capacity_(std::move(capacity)) {}

  // The lane with the next number was added.
  void add_lane(const Lane& lane) { capacity_.add_lane(lane.queue().line); }

  // Reads which lane uses how much of the workers and places, and which queues have messages. The functions below use
  // what was read last.
  void read();

  // What a lane may use. Its `room` is what all lanes together have left, of which add() gives each a part.
  WorkerShare share_of(const Lane& lane) const { return capacity_.share_of(lane.number()); }

  // Whether a lane has room and knows of nothing to take, so that it has to listen for a wake-up.
  bool is_quiet(const Lane& lane) const;

  // How many messages all lanes hold beyond their bound.
  std::size_t excess() const { return capacity_.excess(); }

  // Whether to start a round trip that takes although others of this server are under way: bodies are to be fetched, a
  // lane was woken, or the take of a lane may overlap with those.
  bool wants_another(const LaneServer& server) const;

  // Adds fetches and takes for these lanes of a server, in their turns. Lanes of other servers get their part of the
  // places. `overlapping`: other round trips of this server that take are under way.
  void add(RoundTrip& round_trip, const LaneServer& server, std::vector<Lane*> takers, bool overlapping);

 private:
  // Some of the queues, by their lines.
  class QueueSet {
   public:
    void clear(std::size_t queues) {
      has_.assign(queues, false);
      size_ = 0;
    }
    void add(std::size_t line) {
      if (!has_[line]) ++size_;
      has_[line] = true;
    }
    std::size_t size() const { return size_; }
    bool has(std::size_t line) const { return has_[line]; }
    bool has_others(std::size_t line) const { return size_ > (has_[line] ? 1 : 0); }

   private:
    std::vector<bool> has_;
    std::size_t size_ = 0;
  };

  SharedCapacity::LaneUse use_of(const Lane& lane) const;
  bool may_overlap(const Lane& lane) const;
  bool is_alone(const Lane& lane) const;
  void count_taken();
  std::size_t batch_of(const Lane& lane) const;
  void sort_by_turns(std::vector<Lane*>& takers) const;
  void add_take(RoundTrip& round_trip, Lane& lane, std::size_t places, bool overlapping, QueueSet& taking) const;
  bool takes_elsewhere(const Lane& lane, const LaneServer& server) const;
  std::vector<SharedCapacity::Wish> wishes(const LaneServer& server, const std::vector<bool>& takes) const;

  const std::deque<ServedQueue>& queues_;
  std::deque<Lane>& lanes_;
  const HandlerRunner& handlers_;
  const LaneServers& servers_;
  SharedCapacity capacity_;
  std::vector<run::WorkerLoad> loads_;                            // of each queue, as read() found them
  std::vector<SharedCapacity::LaneUse> uses_;                     // of each lane
  std::vector<bool> busy_;                                        // whether each queue has messages, as far as is known
  QueueSet can_take_;                                             // those that have, and can take some of them
  std::vector<std::optional<Lane::Clock::time_point>> taken_at_;  // when each queue last had a message
  QueueSet active_;                                               // those that had one lately
  std::size_t server_count_ = 1;                                  // that have lanes and a connection
};

}  // namespace delayqueue
