// A server, the lanes whose keys it has, and the connection and the round trips that they share. Used by the consumer's
// thread only.
#pragma once

#include "consumer/background_call.h"
#include "consumer/consumer_connection.h"
#include "consumer/lane.h"
#include "consumer/plan.h"
#include "consumer/reporter.h"
#include "consumer/round_trip.h"
#include "consumer/verdict_durability.h"
#include "queue/endpoint.h"

#include <delayqueue/consumer.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

class LaneServer {
 public:
  // `number`: of the server, among those of the consumer. `calls`: to connect in other threads; null: the only server.
  // `stopping`: whether the consumer stops.
  LaneServer(std::size_t number, Endpoint& endpoint, const ConsumerOptions& options, Reporter& reporter,
             const std::atomic<bool>& stopping, BackgroundCalls* calls)
      : number_(number),
        stopping_(stopping),
        durability_(options.durability, reporter),
        connection_(endpoint, durability_, reporter) {
    if (calls != nullptr) opening_.emplace(*calls);
  }
  LaneServer(const LaneServer&) = delete;
  LaneServer& operator=(const LaneServer&) = delete;

  std::size_t number() const { return number_; }

  // ---- Its lanes.

  const std::vector<Lane*>& lanes() const { return lanes_; }
  void add(Lane& lane) { lanes_.push_back(&lane); }
  void remove(const Lane& lane);

  // ---- The connection.

  ConsumerConnection& connection() { return connection_; }
  const ConsumerConnection& connection() const { return connection_; }

  // Whether the consumer has no other server. With several, another thread makes the connection, because a server that
  // does not answer must not delay the others; and no pipeline connects to another node.
  bool is_only() const { return !opening_; }
  // From now on there are several.
  void add_others(BackgroundCalls& calls);

  // Whether there is no connection, or the one that is there has to be replaced now.
  bool needs_connection() const;

  // Whether another thread has to end first: the one that makes the connection; or any, if BackgroundCalls::kMost run.
  bool is_waiting() const { return opening_ && opening_->is_waiting(); }

  // Connects in this thread. Throws what the library's calls throw.
  void connect();

  // Connects in another thread, in two steps. is_opening(): the first one was done, and the second one was not.
  bool is_opening() const { return opening_ && opening_->is_started(); }
  void begin_connecting();
  void finish_connecting();

  // Whether a node has redirected its lane: the slot map that the lane uses is outdated.
  bool is_redirected() const { return redirected_; }
  void set_redirected() { redirected_ = true; }

  // Lets each lane that has not joined use the connection, and checks the types of its keys. Waits for the answers.
  // Returns the last error with which Redis refused a lane, if there is one; throws it if the consumer has one lane.
  std::exception_ptr join_first();

  // Its lanes stop using the connection: it was lost, or is to be closed.
  void leave();
  // Reports the failure of a step.
  void fail(const std::exception& e);
  // Closes the connection after the last step. Waits for the thread that makes one. Before that it removes the entries
  // of its lanes from the registries, but waits for no answer: the entries also end by their age.
  void disconnect();

  // ---- Round trips.

  const RoundTrips& round_trips() const { return round_trips_; }

  // Only one round trip at a time: after a failure, until one succeeds; before the connection is replaced; and when
  // stopping, so that all messages that were taken are known here when they are released.
  bool is_one_at_a_time() const;

  // Whether a round trip may be started; and one that settles.
  bool may_start() const { return round_trips_.may_start() && (round_trips_.empty() || !is_one_at_a_time()); }
  bool may_settle() const { return may_start() && round_trips_.count(&Purpose::settle) == 0; }

  // Begins a round trip, to which requests can then be added. send() sends it, or drops it if it has none. `verdicts`:
  // those in it; `stats`: the key of one of their queues.
  RoundTrip& start(Purpose purpose) { return round_trips_.start(connection_.get(), purpose); }
  void send(RoundTrip& round_trip, VerdictDurability::Verdicts verdicts, const std::string* stats);

  // Finishes the oldest round trip, if all its answers have arrived.
  void finish_round_trip();

  // ---- In one step.

  // What plan() has to know of it.
  planning::ServerView view() const;

  void begin_step() { ready_ = finished_ = false; }
  // It has lanes and a connection, and no pause after a failure.
  void set_ready() { ready_ = true; }
  bool is_ready() const { return ready_; }
  // Whether a round trip has finished.
  bool has_finished() const { return finished_; }

  VerdictDurability& durability() { return durability_; }

  // Whether no round trip is under way, and no verdict has to be confirmed as durable.
  bool is_idle() const { return round_trips_.empty() && durability_.is_idle(); }

 private:
  void use(ConsumerConnection::Made made);
  void check_renewals() const;
  void leave_registries();

  const std::size_t number_;
  const std::atomic<bool>& stopping_;
  VerdictDurability durability_;
  ConsumerConnection connection_;
  std::vector<Lane*> lanes_;
  std::optional<BackgroundCall<ConsumerConnection::Made>> opening_;  // makes the next connection
  bool ready_ = false;
  bool finished_ = false;
  bool redirected_ = false;
  RoundTrips round_trips_;  // last: what they drop goes to the lanes
};

}  // namespace delayqueue
