#include "consumer/lane_servers.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <chrono>
#include <exception>

namespace delayqueue {
namespace {

using Clock = Lane::Clock;

constexpr milliseconds kFirstPatience{500};

}  // namespace

void LaneServers::add(Lane& lane, Reporter& reporter) {
  const bool is_first = servers_.empty();
  if (is_first || lane.endpoint().is_cluster()) {
    if (servers_.size() == 1) servers_.front().add_others(calls_);
    servers_.emplace_back(servers_.size(), lane.endpoint(), options_, reporter, stopping_,
                          is_first ? nullptr : &calls_);
  }
  servers_.back().add(lane);
  of_lane_.push_back(&servers_.back());
}

void LaneServers::connect_first() {
  std::exception_ptr refused;
  const Clock::time_point patience = Clock::now() + kFirstPatience;
  for (LaneServer& server : servers_) {
    if (&server != &servers_.front() && Clock::now() >= patience) break;  // the loop connects to the others
    if (server.lanes().empty()) continue;
    try {
      server.leave();  // after a start() that threw
      server.connect();
      LaneServer* const other = merge(server);
      if (const auto error = (other != nullptr ? *other : server).join_first()) refused = error;
    } catch (const Error& e) {
      if (servers_.size() == 1 || dynamic_cast<const SetupError*>(&e) != nullptr) throw;
      if (dynamic_cast<const ReplyError*>(&e) != nullptr) refused = std::current_exception();
      server.fail(e);
    }
  }
  const auto has_joined = [](const Lane* lane) { return lane->has_joined(); };
  const bool joined = std::any_of(servers_.begin(), servers_.end(), [&](const LaneServer& server) {
    return std::any_of(server.lanes().begin(), server.lanes().end(), has_joined);
  });
  if (!joined && refused != nullptr) std::rethrow_exception(refused);
}

bool LaneServers::reconnect(LaneServer& server) {
  const bool wanted = std::any_of(server.lanes().begin(), server.lanes().end(),
                                  [](const Lane* lane) { return lane->pause().count() <= 0; });
  if (!wanted) return false;
  if (!server.is_only() && (server.connection().pause().count() > 0 || server.is_waiting())) return false;
  if (!server.is_opening()) {
    server.leave();
    server.connection().close();
  }
  if (server.is_only()) {
    server.connect();
    return true;
  }
  if (!server.is_opening()) {
    if (!server.is_redirected() && join_known(server)) return false;
    server.begin_connecting();
    return false;
  }
  server.finish_connecting();
  return merge(server) == nullptr;  // if there is another one, its tick goes on
}

// In a Cluster the connections for two queues may lead to the same node: then one of them is enough. Moves the lanes to
// the server that has one already, and closes the new one. Returns null if there is none.
LaneServer* LaneServers::merge(LaneServer& server) {
  const auto is_same = [&](const LaneServer& other) {
    return &other != &server && !other.lanes().empty() && other.connection().is_open() &&
           other.connection().get().where() == server.connection().get().where() &&
           !other.connection().get().has_moved();
  };
  const auto other = std::find_if(servers_.begin(), servers_.end(), is_same);
  if (other == servers_.end()) return nullptr;
  server.connection().succeeded();
  server.connection().close();
  move_all(server, *other);
  return &*other;
}

// The same before a connection is made, if the slot map of the lane's queue shows that it is not needed. If the map is
// outdated, the node redirects the lane, which then makes a connection, because each queue has its own map.
bool LaneServers::join_known(LaneServer& server) {
  for (LaneServer& other : servers_) {
    if (&other == &server || other.lanes().empty() || !other.connection().is_open()) continue;
    if (!server.lanes().front()->endpoint().reaches(other.connection().get())) continue;
    move_all(server, other);
    return true;
  }
  return false;
}

void LaneServers::move(Lane& lane, LaneServer& from, LaneServer& to) {
  from.remove(lane);
  to.add(lane);
  of_lane_[lane.number()] = &to;
}

void LaneServers::move_all(LaneServer& from, LaneServer& to) {
  while (!from.lanes().empty()) move(*from.lanes().front(), from, to);
}

void LaneServers::part_from_moved(LaneServer& server) {
  for (std::size_t i = server.lanes().size(); i-- > 0;) {
    Lane& lane = *server.lanes()[i];
    if (!lane.requests().moved || lane.requests().under_way > 0) continue;
    lane.leave();
    if (server.lanes().size() == 1) {
      server.set_redirected();
      return server.connection().close();
    }
    // There are as many servers as lanes.
    LaneServer& unused =
        *std::find_if(servers_.begin(), servers_.end(), [](const LaneServer& one) { return one.lanes().empty(); });
    unused.set_redirected();
    move(lane, server, unused);
  }
}

}  // namespace delayqueue
