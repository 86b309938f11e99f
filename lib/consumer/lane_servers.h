// The servers of a consumer: which lane uses the connection of which. Used by the consumer's thread only.
#pragma once

#include "consumer/background_call.h"
#include "consumer/lane.h"
#include "consumer/lane_server.h"
#include "consumer/reporter.h"

#include <delayqueue/consumer.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <vector>

namespace delayqueue {

// Outside a Cluster there is one server. In a Cluster there is one for each lane: all lanes of a node are with one of
// them, and the others are empty.
class LaneServers {
 public:
  // `stopping`: whether the consumer stops.
  LaneServers(const ConsumerOptions& options, const std::atomic<bool>& stopping, BackgroundCalls& calls)
      : options_(options), stopping_(stopping), calls_(calls) {}

  // Adds the lane with the next number. `reporter`: for what concerns its server.
  void add(Lane& lane, Reporter& reporter);

  std::deque<LaneServer>::iterator begin() { return servers_.begin(); }
  std::deque<LaneServer>::iterator end() { return servers_.end(); }
  std::deque<LaneServer>::const_iterator begin() const { return servers_.begin(); }
  std::deque<LaneServer>::const_iterator end() const { return servers_.end(); }
  // The server of a lane.
  const LaneServer& of(const Lane& lane) const { return *of_lane_[lane.number()]; }

  // Connects, and lets the lanes join. Throws what the library's calls throw; with several servers only SetupError, and
  // what Redis refused if no lane could join. The other failures are logged.
  void connect_first();

  // Makes a connection for this server, or replaces the one that it has, unless all its lanes pause. With several
  // servers another thread does that; its end wakes the loop. Returns whether the server has a connection, and lanes.
  bool reconnect(LaneServer& server);

  // Lanes whose slots have moved to another node get other connections, which lead there.
  void part_from_moved(LaneServer& server);

 private:
  LaneServer* merge(LaneServer& server);
  bool join_known(LaneServer& server);
  void move(Lane& lane, LaneServer& from, LaneServer& to);
  void move_all(LaneServer& from, LaneServer& to);

  const ConsumerOptions& options_;
  const std::atomic<bool>& stopping_;
  BackgroundCalls& calls_;
  std::vector<LaneServer*> of_lane_;
  std::deque<LaneServer> servers_;
};

}  // namespace delayqueue
