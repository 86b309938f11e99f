// The servers of a consumer: their connections, their lanes, the round trips and durability of these, and the
// connections that wait for wake-ups. Used by the consumer's thread only.
#pragma once

#include "consumer/clock_monitor.h"
#include "consumer/lane.h"
#include "consumer/link.h"
#include "consumer/plan.h"
#include "consumer/report.h"
#include "consumer/served_queue.h"
#include "consumer/wakeups.h"
#include "queue/endpoint.h"
#include "queue/health.h"
#include "queue/server_risks.h"
#include "queue/write_concern.h"
#include "redis/connection.h"
#include "redis/pipeline.h"

#include <delayqueue/client.h>
#include <delayqueue/consumer.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

// Confirms that verdicts are as durable as the option `durability` requires.
//
// WAIT and WAITAOF block their connection until the writes are durable, so they have a separate one: the takes,
// verdicts and lease renewals of all queues go on meanwhile. Each follows a write on that connection, which Redis
// replicates after the verdicts that it has executed before: see WriteConcern.
class VerdictDurability {
 public:
  using Clock = std::chrono::steady_clock;

  VerdictDurability(const Durability& wanted, Reporter& reporter) : write_concern_(wanted), reporter_(reporter) {}

  // Whether anything has to be confirmed. If not, the functions below do nothing.
  bool waits() const { return write_concern_.waits(); }

  // Checks that this server can confirm writes. Throws ReplyError. Another thread may call it.
  void check(redis::Connection& connection) const { write_concern_.check(connection); }

  // The connection for advance(): to the server of the verdicts, and made before they are sent.
  void use(std::unique_ptr<redis::Connection> connection);

  // How many verdicts there are, for each queue that has some.
  using Verdicts = std::vector<std::pair<Counters*, std::size_t>>;

  // Redis has executed these verdicts. `stats`: the key of one of their queues, for the write before the wait.
  void add(const Verdicts& verdicts, const std::string& stats);

  // Reads the answer if it has arrived, and sends the next request if there are verdicts to confirm, or if the
  // connection has been idle so long that it might be closed. Does not wait. Throws ConnectionError.
  void advance();

  // Whether all verdicts are confirmed.
  bool is_idle() const { return executed_.empty() && (wait_ == nullptr || wait_->verdicts.empty()); }
  bool is_waiting() const { return wait_ != nullptr; }

  // For poll(), and the time by which the answer must arrive; only while it is waiting.
  int fd() const { return connection_->fd(); }
  redis::Deadline due() const { return connection_->due(); }

  // See redis::Connection::silent_since().
  Clock::time_point silent_since() const { return connection_ == nullptr ? Clock::now() : connection_->silent_since(); }

  // Closes the connection. The verdicts that are not confirmed are counted.
  void close();

 private:
  struct Wait {
    redis::Pipeline pipeline;
    Verdicts verdicts;
    WriteConcern::Asked asked{};
  };

  void ask();
  void read(const std::string& missing, const Verdicts& verdicts);

  const WriteConcern write_concern_;
  Reporter& reporter_;
  bool below_ = false;  // the last verdicts were not as durable as required
  Verdicts executed_;   // those that no request confirms yet
  std::string stats_;
  std::unique_ptr<redis::Connection> connection_;
  redis::Deadline idle_until_;
  std::unique_ptr<Wait> wait_;  // after connection_, which it refers to
};

// The connection of a consumer to a server: makes it, replaces it after failures, and decides how long to wait before
// the next attempt.
class ConsumerConnection {
 public:
  using Clock = std::chrono::steady_clock;

  // Connects to the server of this endpoint.
  ConsumerConnection(Endpoint& endpoint, VerdictDurability& durability, Reporter& reporter)
      : endpoint_(&endpoint), durability_(durability), reporter_(reporter) {}

  // From now on it connects to the server of this endpoint. Only while it is closed, and make() does not run.
  void lead_to(Endpoint& endpoint) { endpoint_ = &endpoint; }

  struct Made {
    std::unique_ptr<redis::Connection> connection;
    std::unique_ptr<redis::Connection> confirming;  // that of VerdictDurability, if it has one
    std::optional<std::vector<Risk>> risks{};
  };

  // make() is about to be called.
  void begin_attempt() { attempt_began_ = Clock::now(); }

  // Makes the connections for use(), and finds the risks of the server. Accesses no key of the queue. Throws what the
  // library's calls throw. Another thread may call it.
  Made make();

  // Replaces the connections, and logs the risks.
  void use(Made made);

  void close();

  bool is_open() const { return connection_ != nullptr; }

  // Only while it is open.
  redis::Connection& get() const { return *connection_; }

  // Whether requests have succeeded since the last failure.
  bool works() const { return health_.works(); }

  // The time until the next attempt; not positive: now.
  Clock::duration pause() const { return health_.pause(); }
  void retry_now() { health_.retry_now(); }

  // Requests on the connection succeeded.
  void succeeded();

  // Reports a failure, and closes the connection. No round trip may be under way.
  void failed(const redis::Failure& failure);

  // Closes the connection if it cannot be used again. No round trip may be under way.
  void close_if_stale();

  // Reports jumps of Redis' clock. Returns whether it has jumped forward.
  bool observe_clock(const ClockSample& sample);

 private:
  Endpoint* endpoint_;
  VerdictDurability& durability_;
  Reporter& reporter_;
  std::unique_ptr<redis::Connection> connection_;
  Clock::time_point attempt_began_{};
  HealthMonitor health_;
  RiskWatch risk_watch_;
  ClockMonitor clock_monitor_;
};

// A server, the lanes whose keys it has, and the connection and the round trips that they share.
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
  std::optional<redis::Failure> join_first();

  // Its lanes stop using the connection: it was lost, or is to be closed.
  void leave();
  // Reports the failure of a step.
  void fail(const redis::Failure& failure);
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

// The servers of a consumer: which lane uses the connection of which.
//
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

// ---- WakeupListeners ------------------------------------------------------------------------------------------------

// The connections that wait for the wake-ups of a consumer's queues: one for all of them; in a Cluster one for each.
// Decides for which keys each WakeupListener waits, passes the markers on to the lanes, and lets the queues without
// wake-ups be polled more often.
class WakeupListeners {
 public:
  // `queues`: all queues of the consumer, also those that are added later.
  WakeupListeners(const std::deque<ServedQueue>& queues, const ConsumerOptions& options, BackgroundCalls& calls)
      : queues_(queues), options_(options), calls_(calls) {}

  // Waits for the wake-ups of this queue, too. Call it when `queues` is complete.
  void add(ServedQueue& queue);

  // There are several servers: from now on no connection is made in this thread.
  void connect_in_background() { connections_.front().listener.connect_in_background(calls_); }

  // Passes on what was received since the last call.
  void read();

  // Begins to wait for the wake-ups of these lanes, by their numbers, and sets how often the lanes poll.
  void listen(const std::vector<bool>& listens);

  // Adds the file descriptors for poll() of those that wait.
  void add_fds(std::vector<int>& fds) const;

  // Ends the waiting for good. Further calls do nothing.
  void leave();
  bool has_left() const { return left_; }

  // Closes the connections, and waits for the threads that make one.
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    Connection(Endpoint& endpoint, milliseconds patience, BackgroundCalls* calls)
        : listener(endpoint, patience, calls) {}

    WakeupListener listener;
    std::vector<ServedQueue*> queues;  // all; in a Cluster one
    bool enabled = true;
  };

  static void read(ServedQueue& queue, const WakeupListener::Marker& marker);
  static void pass_on(ServedQueue& queue, const WakeupListener::Marker& marker);

  const std::deque<ServedQueue>& queues_;
  const ConsumerOptions& options_;
  BackgroundCalls& calls_;
  std::deque<Connection> connections_;
  bool left_ = false;
};

}  // namespace delayqueue
