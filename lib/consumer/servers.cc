#include "consumer/servers.h"

#include "store/keys.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::chrono::seconds kLongestIdle{10};
constexpr std::size_t kLargeAnswer = 64 * 1024;
using Clock = Lane::Clock;

constexpr milliseconds kFirstPatience{500};

// In a Cluster each queue needs a connection that waits for its wake-ups. Further queues are polled.
constexpr std::size_t kMostListeners = 16;

// The partition of a member of `wakes`; nullopt if another program wrote it.
std::optional<unsigned> partition_in(const WakeupListener::Marker& marker) {
  unsigned partition = 0;
  const char* const end = marker.member.data() + marker.member.size();
  const auto [read_to, error] = std::from_chars(marker.member.data(), end, partition);
  const bool is_one = error == std::errc() && read_to == end && partition > 0 && partition < store::kMostPartitions;
  return is_one ? std::optional(partition) : std::nullopt;
}

}  // namespace

// ---- VerdictDurability ----------------------------------------------------------------------------------------------

void VerdictDurability::add(const Verdicts& verdicts, const std::string& stats) {
  stats_ = stats;
  for (const auto& [counters, count] : verdicts) {
    const auto is_same = [wanted = counters](const auto& one) { return one.first == wanted; };
    const auto found = std::find_if(executed_.begin(), executed_.end(), is_same);
    if (found == executed_.end()) {
      executed_.emplace_back(counters, count);
    } else {
      found->second += count;
    }
  }
}

void VerdictDurability::use(std::unique_ptr<redis::Connection> connection) {
  connection_ = std::move(connection);
  idle_until_ = redis::Clock::now() + kLongestIdle;
}

void VerdictDurability::advance() {
  if (wait_ != nullptr) {
    if (!wait_->pipeline.receive_arrived()) return;
    const std::unique_ptr<Wait> done = std::move(wait_);
    if (!done->verdicts.empty()) {
      const auto missing = write_concern_.missing(done->asked);
      read(missing ? missing->text : "", done->verdicts);
    }
  }
  if (connection_ != nullptr && (!executed_.empty() || redis::Clock::now() >= idle_until_)) ask();
}

void VerdictDurability::ask() {
  wait_.reset(new Wait{redis::Pipeline(*connection_), std::exchange(executed_, {})});
  redis::Pipeline& pipeline = wait_->pipeline;
  if (wait_->verdicts.empty()) {
    pipeline.command("PING");
  } else {
    wait_->asked = write_concern_.ask_after_write(pipeline, stats_, below_);
  }
  idle_until_ = redis::Clock::now() + kLongestIdle;
  pipeline.send();
}

// The verdicts are valid. They are forgotten, and the messages delivered again, only if the master is lost now.
void VerdictDurability::read(const std::string& missing, const Verdicts& verdicts) {
  for (const auto& [counters, count] : verdicts) {
    if (!missing.empty()) counters->unconfirmed += count;
  }
  if (missing.empty() == !below_) return;
  below_ = !missing.empty();
  const LogFields about{connection_ == nullptr ? "" : connection_->where(), ""};
  if (below_) {
    reporter_.failed(this, "verdicts are not as durable as asked for: " + missing, false, about);
  } else {
    reporter_.recovered(this, "verdicts are as durable as asked for again", about);
  }
}

void VerdictDurability::close() {
  if (wait_ != nullptr) add(wait_->verdicts, stats_);
  wait_.reset();
  connection_.reset();
  if (const Verdicts lost = std::exchange(executed_, {}); !lost.empty()) {
    read("the connection that confirms them was lost", lost);
  }
}

// ---- ConsumerConnection ---------------------------------------------------------------------------------------------

ConsumerConnection::Made ConsumerConnection::make() {
  Made made;
  made.connection = endpoint_->connect_to_master();
  if (durability_.waits()) {
    made.confirming = endpoint_->connect_to_master();
    if (made.confirming->where() != made.connection->where()) {
      throw ConnectionError("the queue moved from " + made.connection->where() + " to " + made.confirming->where());
    }
    made.confirming->refuse_redirections();
    durability_.check(*made.confirming);
  }
  if (endpoint_->is_cluster() && endpoint_->registers()) endpoint_->register_once(*made.connection);
  if (reporter_.sink().has_listener()) made.risks = risk_watch_.find(*made.connection);
  return made;
}

void ConsumerConnection::use(Made made) {
  ++reporter_.counters().connects;
  clock_monitor_.new_connection();
  close();
  connection_ = std::move(made.connection);
  if (!works()) health_.join();
  durability_.use(std::move(made.confirming));
  if (made.risks) risk_watch_.log(*made.risks, connection_->where(), reporter_.sink());
}

void ConsumerConnection::close() {
  durability_.close();
  connection_.reset();
  reporter_.counters().connected = false;
}

void ConsumerConnection::succeeded() {
  const std::string& where = connection_->where();
  if (const auto text = health_.succeeded(where)) reporter_.recovered(this, *text, {where, ""});
}

void ConsumerConnection::failed(const redis::Failure& failure) {
  reporter_.counters().failed(failure.text);
  const auto since =
      connection_ == nullptr ? attempt_began_ : std::min(connection_->silent_since(), durability_.silent_since());
  const std::string text = health_.failed(failure.text, pauses_after(failure), since);
  reporter_.failed(this, text, health_.is_new_failure(), {connection_ == nullptr ? "" : connection_->where(), ""});
  durability_.close();
  connection_.reset();
}

void ConsumerConnection::close_if_stale() {
  if (connection_ == nullptr || !connection_->is_stale()) return;
  durability_.close();
  connection_.reset();
}

bool ConsumerConnection::observe_clock(const ClockSample& sample) {
  const auto jump = clock_monitor_.observe(sample);
  if (!jump) return false;
  reporter_.log(Severity::warning, to_text(*jump, connection_->where()), {connection_->where(), ""});
  return jump->by.count() > 0;
}

// ---- LaneServer -----------------------------------------------------------------------------------------------------

void LaneServer::remove(const Lane& lane) { lanes_.erase(std::find(lanes_.begin(), lanes_.end(), &lane)); }

void LaneServer::add_others(BackgroundCalls& calls) {
  opening_.emplace(calls);
  if (connection_.is_open()) connection_.get().refuse_redirections();
}

bool LaneServer::needs_connection() const {
  return !connection_.is_open() || (connection_.get().is_outdated() && round_trips_.empty());
}

void LaneServer::connect() {
  connection_.begin_attempt();
  use(connection_.make());
}

void LaneServer::begin_connecting() {
  connection_.lead_to(lanes_.front()->endpoint());  // the slot of its first lane may have moved
  connection_.begin_attempt();
  opening_->start([&connection = connection_] { return connection.make(); });
  redirected_ = false;  // make() reads the slot map
}

void LaneServer::finish_connecting() { use(opening_->finish()); }

void LaneServer::use(ConsumerConnection::Made made) {
  if (!is_only()) made.connection->refuse_redirections();
  connection_.use(std::move(made));
}

std::optional<redis::Failure> LaneServer::join_first() {
  std::vector<Lane*> lanes;
  {
    RoundTrip round_trip(connection_.get(), kSettle);
    for (Lane* lane : lanes_) {
      if (lane->has_joined()) continue;
      lanes.push_back(lane);
      round_trip.add_for(&lane->requests());
      lane->add_join(round_trip, true);
    }
    round_trip.add_for(nullptr);
    round_trip.send();
    round_trip.receive();
    round_trip.finish();
  }
  std::optional<redis::Failure> refused;
  for (Lane* lane : lanes) {
    const std::optional<redis::Failure> error = lane->requests().refused;
    if (!error) continue;
    if (is_only() && lanes_.size() == 1) {  // start() reports it
      lane->leave();
      redis::raise(*error);
    }
    lane->read_results(connection_.get().where());
    refused = error;
  }
  return refused;
}

void LaneServer::leave() {
  for (Lane* lane : lanes_) lane->leave();
}

void LaneServer::fail(const redis::Failure& failure) {
  round_trips_.clear();
  leave();
  connection_.failed(failure);
}

void LaneServer::leave_registries() {
  if (!connection_.is_open() || !round_trips_.empty()) return;
  RoundTrip last(connection_.get(), kSettle);
  for (Lane* lane : lanes_) lane->add_removal(last);
  if (last.empty()) return;
  try {
    last.send();
  } catch (const Error&) {
  }
}

void LaneServer::disconnect() {
  leave_registries();
  round_trips_.clear();
  if (opening_) opening_->wait();
  leave();
  connection_.close();
}

bool LaneServer::is_one_at_a_time() const {
  return stopping_ || !connection_.works() || connection_.get().is_outdated();
}

planning::ServerView LaneServer::view() const {
  return {!lanes_.empty() && connection_.is_open(), ready_ && may_start(), round_trips_.count(&Purpose::take)};
}

void LaneServer::send(RoundTrip& round_trip, VerdictDurability::Verdicts verdicts, const std::string* stats) {
  round_trip.add_for(nullptr);
  if (!verdicts.empty() && durability_.waits()) {
    round_trip.then([this, stats, verdicts = std::move(verdicts)] { durability_.add(verdicts, *stats); });
  }
  round_trips_.send();
}

// A large answer must not take so long that leases end meanwhile.
void LaneServer::check_renewals() const {
  const std::size_t bytes = round_trips_.empty() ? 0 : connection_.get().arriving();
  const auto is_late = [](const Lane* lane) { return lane->renewal_is_late(); };
  if (bytes < kLargeAnswer || !std::any_of(lanes_.begin(), lanes_.end(), is_late)) return;
  throw ConnectionError("leases have to be renewed, but an answer of " + connection_.get().where() +
                        " takes too long: " + std::to_string(bytes) + " bytes so far; it is given up");
}

void LaneServer::finish_round_trip() {
  const RoundTrips::Finished finished = round_trips_.finish_arrived();
  if (!finished.one) check_renewals();
  finished_ = finished.one;
  bool refused = false, jumped = false;
  for (Lane* lane : lanes_) {
    if (finished.resent) lane->promote_now();  // the take may have run before the resent moves
    jumped = connection_.observe_clock(lane->last_clock_sample()) || jumped;
    refused = lane->read_results(connection_.get().where()) || refused;
  }
  if (jumped) std::for_each(lanes_.begin(), lanes_.end(), [](Lane* lane) { lane->clock_jumped(); });
  if (finished.one || round_trips_.empty()) connection_.succeeded();
  if (refused && round_trips_.empty()) connection_.close_if_stale();
}

// ---- LaneServers ----------------------------------------------------------------------------------------------------

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
  std::optional<redis::Failure> refused;
  const Clock::time_point patience = Clock::now() + kFirstPatience;
  for (LaneServer& server : servers_) {
    if (&server != &servers_.front() && Clock::now() >= patience) break;  // the loop connects to the others
    if (server.lanes().empty()) continue;
    try {
      server.leave();  // after a start() that threw
      server.connect();
      LaneServer* const other = merge(server);
      if (const auto error = (other != nullptr ? *other : server).join_first()) refused = error;
    } catch (const Error&) {
      const redis::Failure failure = redis::current_failure();
      if (servers_.size() == 1 || failure.kind == redis::Failure::Kind::setup) throw;
      if (failure.is_reply()) refused = failure;
      server.fail(failure);
    }
  }
  const auto has_joined = [](const Lane* lane) { return lane->has_joined(); };
  const bool joined = std::any_of(servers_.begin(), servers_.end(), [&](const LaneServer& server) {
    return std::any_of(server.lanes().begin(), server.lanes().end(), has_joined);
  });
  if (!joined && refused) redis::raise(*refused);
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
  return merge(server) == nullptr;  // if there is another one, that goes on
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

// ---- WakeupListeners ------------------------------------------------------------------------------------------------

void WakeupListeners::add(ServedQueue& queue) {
  const bool is_cluster = queue.endpoint.is_cluster();
  if (connections_.empty() || is_cluster) {
    const bool is_only = !is_cluster || queues_.size() == 1;
    connections_.emplace_back(queue.endpoint, queue.endpoint.command_timeout(), is_only ? nullptr : &calls_);
    connections_.back().enabled = connections_.size() <= kMostListeners;
  }
  connections_.back().queues.push_back(&queue);
}

void WakeupListeners::read() {
  for (Connection& one : connections_) {
    while (const auto marker = one.listener.read()) {
      for (ServedQueue* queue : one.queues) read(*queue, *marker);
    }
  }
}

// The members of `wakes` are numbers of partitions.
void WakeupListeners::read(ServedQueue& queue, const WakeupListener::Marker& marker) {
  Lane& home = *queue.lanes[0];
  if (marker.key == home.wake_key()) return home.wake(marker);
  if (marker.key != home.wakes_key()) return;
  const auto partition = partition_in(marker);
  if (!partition) {
    queue.clears_wakes = true;  // there may be a million more
  } else if (*partition < queue.lanes.size()) {
    WakeupListener::Marker own = marker;
    own.foreign = false;
    queue.lanes[*partition]->wake(own);
  } else {  // its sender has a later layout
    for (Lane* lane : queue.lanes) lane->read_layout_soon();
    queue.layout.read_elsewhere_soon();
  }
}

// Begins to wait for wake-ups.
void WakeupListeners::listen(const std::vector<bool>& listens) {
  const milliseconds interval = options_.tuning.poll_interval;
  for (Connection& one : connections_) {
    if (one.enabled && one.listener.may_begin(Clock::now())) {
      std::vector<std::string> keys, emptied;
      bool all = true;
      for (const ServedQueue* queue : one.queues) {
        const Lane& home = *queue->lanes[0];
        const auto is_quiet = [&](const Lane* lane) { return listens[lane->number()]; };
        if (is_quiet(&home)) keys.push_back(home.wake_key());
        // Also without partitions: a sender may know of them first.
        const bool any = std::any_of(queue->lanes.begin(), queue->lanes.end(), is_quiet);
        if (any && queue->layout.may_have_partitions()) {
          keys.push_back(home.wakes_key());
          emptied.push_back(home.wakes_key());
        }
        all = all && is_quiet(&home);  // then both keys are there
      }
      if (!keys.empty()) one.listener.begin(keys, all, emptied);
    }
    const bool works = one.enabled && one.listener.works();
    for (ServedQueue* queue : one.queues) {
      Lane& home = *queue->lanes[0];
      const bool wakes = works && !one.listener.leaves_out(home.wake_key());
      home.poll_every(wakes ? stretched(interval, queues_.size()) : interval);
      const bool wakes_others = works && !one.listener.leaves_out(home.wakes_key());
      for (std::size_t k = 1; k < queue->lanes.size(); ++k) {
        queue->lanes[k]->poll_every(wakes_others ? stretched(interval, kMostPolled) : interval);
      }
    }
  }
}

// Closes all connections at the same time. A marker that has arrived wakes another consumer. If an answer is missing,
// one may be lost: Redis drops what it has for a connection whose end it has read.
void WakeupListeners::leave() {
  if (std::exchange(left_, true)) return;
  const Clock::time_point until = Clock::now() + WakeupListener::kFarewell;
  for (Connection& one : connections_) one.listener.begin_leaving();
  for (Connection& one : connections_) {
    const WakeupListener::Left left = one.listener.leave(until);
    for (ServedQueue* queue : one.queues) {
      for (const WakeupListener::Marker& marker : left.markers) pass_on(*queue, marker);
      if (!left.may_be_lost) continue;
      for (Lane* lane : queue->lanes) lane->expect_lost_marker();
    }
  }
}

void WakeupListeners::pass_on(ServedQueue& queue, const WakeupListener::Marker& marker) {
  Lane& home = *queue.lanes[0];
  if (marker.key == home.wake_key()) home.wake_another();
  if (marker.key != home.wakes_key()) return;
  if (const auto partition = partition_in(marker)) queue.add_marker(*partition, marker.due);
}

void WakeupListeners::add_fds(std::vector<int>& fds) const {
  for (const Connection& one : connections_) {
    if (one.listener.fd() >= 0) fds.push_back(one.listener.fd());
  }
}

void WakeupListeners::end() {
  for (Connection& one : connections_) one.listener.end();
}

}  // namespace delayqueue
