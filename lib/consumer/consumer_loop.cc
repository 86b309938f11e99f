#include "consumer/consumer_loop.h"

#include "consumer/subscription_options.h"
#include "os/interrupt.h"
#include "redis/escaped.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace delayqueue {
namespace {

using run::Loop;
using Clock = Lane::Clock;

constexpr std::chrono::hours kIdle{1};      // the longest pause
constexpr std::chrono::seconds kActive{1};  // a queue is active for so long after it had a message

}  // namespace

ConsumerLoop::ConsumerLoop(const Client& client, std::vector<Subscription> subscriptions, ConsumerOptions options,
                           Callbacks callbacks)
    : options_(validated(std::move(options), subscriptions)),
      id_(store::new_ids(1).front()),
      drained_(std::move(callbacks.drained)),
      handlers_(callbacks.scope, callbacks.wake, stopping_, options_.strict_priority, options_.middleware),
      calls_{callbacks.wake},
      fetches_{std::move(callbacks.wake)},
      wakeup_listeners_(queues_, options_, calls_),
      servers_(options_, stopping_, calls_),
      turns_(weights_of(subscriptions), options_.strict_priority) {
  for (Subscription& one : subscriptions) {
    const std::string name = named(one.queue.str());
    try {
      const ConsumerOptions own = options_of(one, options_);
      queues_.emplace_back(client, std::move(one), own, id_, handlers_);
    } catch (const std::invalid_argument& e) {
      if (subscriptions.size() == 1) throw;
      throw std::invalid_argument(name + ": " + e.what());
    }
  }
  if (queues_.size() > 1) own_reporter_.emplace(id_, options_);
  for (ServedQueue& queue : queues_) queue.reporter.share_failures(common_reporter());
  const store::ConsumerEntry profile = profile_of(options_, queues_);
  for (ServedQueue& queue : queues_) {
    queue.profile = profile;
    wakeup_listeners_.add(queue);
    add_lane(queue, 0);
  }
  common_reporter().sink().warn(queues_.front().endpoint.warning());
}

// For what concerns no single queue.
Reporter& ConsumerLoop::common_reporter() { return own_reporter_ ? *own_reporter_ : queues_.front().reporter; }

void ConsumerLoop::add_lane(ServedQueue& queue, unsigned partition) {
  const std::size_t looked_at = partition == 0 ? queues_.size() : kMostPolled;
  const Maintenance::Rules upkeep{stretched(2 * options_.tuning.poll_interval, looked_at), queue.options.dead_retention,
                                  queue.options.dead_limit, stretched(Maintenance::Rules().seldom, looked_at)};
  Lane& lane = lanes_.emplace_back(queue, partition, lanes_.size(), upkeep,
                                   registry_interval(options_.tuning.poll_interval, queues_.size()), handlers_,
                                   poison_runs_, fetches_);
  queue.lanes.push_back(&lane);
  unstarted_.emplace_back();
  servers_.add(lane, common_reporter());
}

// Adds the lanes of partitions that a layout tells of. They stay: messages may be in each of them for ever.
void ConsumerLoop::add_missing_lanes() {
  for (ServedQueue& queue : queues_) {
    if (!queue.layout.may_have_partitions()) continue;
    if (!stopping_) queue.layout.read_elsewhere(calls_, queues_.size());
    const std::size_t partitions = queue.layout.known().top;
    if (queue.lanes.size() >= partitions) continue;
    if (queue.endpoint.is_cluster()) wakeup_listeners_.connect_in_background();
    for (Lane* lane : queue.lanes) lane->read_layout_soon();  // and whether the queue is paused
    while (queue.lanes.size() < partitions) add_lane(queue, static_cast<unsigned>(queue.lanes.size()));
    queue.reporter.log(Severity::info, "serves " + std::to_string(partitions) + " partitions");
  }
}

// Nothing is held before the first connection, so a stop ends it.
void ConsumerLoop::connect_first() {
  const Interrupt::Scope until(stop_began_);
  servers_.connect_first();
}

Loop::Pause ConsumerLoop::on_failure(const redis::Failure& failure) {
  Clock::duration pause = kIdle;
  for (LaneServer& server : servers_) {
    if (needs_no_connection(server)) return Loop::Pause::zero();  // the stop has ended the first attempt
    server.fail(failure);
    pause = std::min(pause, server.connection().pause());
  }
  report_connected();
  report_if_drained();
  return pause;
}

void ConsumerLoop::disconnect() {
  for (LaneServer& server : servers_) server.disconnect();
  wakeup_listeners_.end();
  for (Lane& lane : lanes_) lane.end_lone_fetches();
  for (ServedQueue& queue : queues_) queue.layout.wait();
  report_connected();
}

// ---- A step ---------------------------------------------------------------------------------------------------------

Loop::Pause ConsumerLoop::step() {
  collect_done();
  add_missing_lanes();
  for (Lane& lane : lanes_) {
    lane.lose_overrunning();
    lane.advance_lone_fetches();
  }
  wakeup_listeners_.read();
  if (stopping_ && !has_begun_stop()) begin_stop();
  for_each_server([this](LaneServer& server) { prepare(server); });
  make_plan();
  for_each_server([this](LaneServer& server) { do_round_trips(server); });
  report_connected();
  report_if_drained();
  return plan_pause();
}

// The failure of one server does not keep the others from their part of a step.
template <class Act>
void ConsumerLoop::for_each_server(Act act) {
  for (LaneServer& server : servers_) {
    try {
      act(server);
    } catch (const std::exception&) {
      if (Interrupt::is_raised_here()) throw;
      if (!needs_no_connection(server)) server.fail(redis::current_failure());  // else the stop has ended the attempt
    }
  }
}

// Nothing here waits, except to connect to the only server.
void ConsumerLoop::prepare(LaneServer& server) {
  server.begin_step();
  if (server.lanes().empty()) return;
  // The pause after a failure. A handler that returns wakes the loop, but the next attempt is not made sooner.
  if (server.connection().pause().count() > 0) return;
  if (server.needs_connection() && !has_connection(server)) return;
  server.set_ready();
}

planning::Snapshot ConsumerLoop::read_snapshot() {
  const bool stopping = has_begun_stop();
  planning::Snapshot snapshot;
  snapshot.limits = {options_.concurrency, options_.tuning.prefetch, poison_runs_.may_add()};
  std::vector<run::WorkerLoad> loads;
  handlers_.read_loads(loads);
  const Clock::time_point active_since = Clock::now() - kActive;
  for (ServedQueue& queue : queues_) {
    snapshot.queues.push_back({queue.options.concurrency, loads[queue.number], std::exchange(queue.taken, 0),
                               queue.taken_at > active_since, queue.handled_since_retry});
  }
  snapshot.lanes.resize(lanes_.size());
  for (LaneServer& server : servers_) {
    for (Lane* lane : server.lanes()) {
      planning::LaneView& view = snapshot.lanes[lane->number()];
      view = lane->view(server.is_ready() && server.may_settle());
      view.server = server.number();
      view.may_take = view.may_take && !stopping;
      if (server.is_only()) view.came_late = 0;  // no other one got its places
    }
    snapshot.servers.push_back(server.view());
  }
  return snapshot;
}

void ConsumerLoop::make_plan() {
  planning::Result result = planning::plan(read_snapshot(), turns_);
  plan_ = std::move(result.plan);
  turns_ = std::move(result.turns);
  for (const ServedQueue& queue : queues_) handlers_.keep_one_free(plan_.keeps_one_free[queue.number], queue.number);
}

// Sends a round trip of each purpose that may be started and has requests, then finishes the oldest, if its answers
// have arrived. Nothing here waits: the pause ends when the answers arrive.
void ConsumerLoop::do_round_trips(LaneServer& server) {
  if (!server.is_ready()) return;
  if (!server.is_only()) {
    for (Lane* lane : server.lanes()) lane->release_late(plan_.releases_late[lane->number()]);
  }
  start_round_trips(server);
  server.finish_round_trip();
  if (!server.is_only()) servers_.part_from_moved(server);
  server.durability().advance();
}

// Connects, or goes on connecting.
bool ConsumerLoop::has_connection(LaneServer& server) {
  if (!holds_nothing(server)) return servers_.reconnect(server);
  if (needs_no_connection(server)) return false;
  const Interrupt::Scope until(stop_began_);
  return servers_.reconnect(server);
}

// Whether this server has no message that the consumer has to settle or release.
bool ConsumerLoop::holds_nothing(const LaneServer& server) const {
  const std::vector<Lane*>& lanes = server.lanes();
  return handlers_.empty() && server.is_idle() && std::all_of(lanes.begin(), lanes.end(), [this](const Lane* lane) {
           return lane->is_drained() && unstarted_[lane->number()].empty();
         });
}

// Whether the consumer stops without a connection, and nothing is held that needs one.
bool ConsumerLoop::needs_no_connection(const LaneServer& server) const {
  return stopping_ && !server.connection().is_open() && holds_nothing(server);
}

Loop::Pause ConsumerLoop::plan_pause() {
  Loop::Pause pause{std::chrono::nanoseconds(0), -1, true};
  Clock::time_point next = Clock::now() + kIdle;
  bool any_idle = false;
  for (LaneServer& server : servers_) {
    if (server.lanes().empty()) continue;
    if (server.has_finished()) return Loop::Pause::zero();  // its answers are in the next plan
    if (server.durability().is_waiting()) {
      next = std::min(next, Clock::time_point(server.durability().due()));
      pause.fds.push_back(server.durability().fd());
    }
    if (server.round_trips().empty()) {
      any_idle = true;
      pause.ignores_wakes = false;
      if (!plan_idle(server, next)) return Loop::Pause::zero();
      continue;
    }
    next = std::min(next, Clock::time_point(server.connection().get().due()));
    for (const Lane* lane : server.lanes()) {
      // Then its places are free for the lanes of other servers.
      if (const auto late = lane->answers().late_at(); late && !server.is_only()) next = std::min(next, *late);
    }
    pause.fds.push_back(server.connection().get().fd());
    pause.ignores_wakes = pause.ignores_wakes && !server.may_settle();
  }
  if (any_idle || lanes_.size() > 1) {
    if (!stopping_) {
      const Interrupt::Scope until(stop_began_);
      wakeup_listeners_.listen(plan_.listens);
    }
    wakeup_listeners_.add_fds(pause.fds);
  }
  pause.time = next - Clock::now();
  return pause;
}

// Without a round trip under way. Returns false if there is something to do at once. Otherwise it may begin to listen
// for wake-ups, and `next` is at most the time when there is something to do.
bool ConsumerLoop::plan_idle(LaneServer& server, Clock::time_point& next) {
  const bool stopping = stopping_;
  const Clock::time_point now = Clock::now();
  if (needs_no_connection(server)) return true;
  if (const auto pause = server.connection().pause(); pause.count() > 0) {
    next = std::min(next, now + pause);
    return true;
  }
  if (!server.connection().is_open() && server.is_waiting()) return true;
  for (const Lane* lane : server.lanes()) {
    if (const auto pause = lane->pause(); pause.count() > 0) {
      next = std::min(next, now + pause);
      continue;
    }
    if (!lane->has_joined() || lane->is_urgent(stopping)) return false;
    next = std::min(next, lane->next_due(stopping));
  }
  return stopping || !plan_.goes_on[server.number()];
}

// ---- Round trips ----------------------------------------------------------------------------------------------------

void ConsumerLoop::start_round_trips(LaneServer& server) {
  const bool stopping = has_begun_stop();
  if (!server.may_start()) return;
  if (stopping) release_unstarted(server);
  const bool takes = plan_.starts[server.number()];
  if (takes) {
    for (Lane* lane : server.lanes()) lane->read_wakeups(stopping || plan_.full[lane->number()]);
  }
  if (server.is_one_at_a_time()) return send(server, stopping ? kSettle : kSettleAndTake);
  if (server.may_settle()) send(server, kSettle);
  if (takes) send(server, kTake);
}

// Sends a round trip, or none if it has no requests. The order of the requests: renew before unack2retry; unack2retry
// and pending2ready before ready2unack.
void ConsumerLoop::send(LaneServer& server, Purpose purpose) {
  const bool stopping = has_begun_stop();
  RoundTrip& round_trip = server.start(purpose);
  std::vector<Lane*> settlers;
  std::vector<bool> may_take(lanes_.size(), false);
  for (Lane* lane : server.lanes()) {
    const Purpose own = lane->purpose_in(purpose, stopping);
    if (own.settle) settlers.push_back(lane);
    may_take[lane->number()] = own.take;
  }
  VerdictDurability::Verdicts verdicts;
  const std::string* stats = nullptr;
  for (Lane* lane : settlers) {
    round_trip.add_for(&lane->requests());
    const std::size_t settled_count = lane->add_settling(round_trip);
    if (settled_count == 0) continue;
    verdicts.emplace_back(&lane->queue().reporter.counters(), settled_count);
    stats = &lane->stats_key();
  }
  for (Lane* lane : server.lanes()) {
    if (!may_take[lane->number()]) continue;
    round_trip.add_for(&lane->requests());
    lane->add_fetch(round_trip);
  }
  for (const planning::Take& take : plan_.takes) {
    if (!may_take[take.lane]) continue;
    round_trip.add_for(&lanes_[take.lane].requests());
    lanes_[take.lane].add_take(round_trip, take);
  }
  for (Lane* lane : settlers) {
    round_trip.add_for(&lane->requests());
    lane->add_upkeep(round_trip, stopping);
  }
  server.send(round_trip, std::move(verdicts), stats);
}

// ---- Handlers and stop ----------------------------------------------------------------------------------------------

// In the first step of a stop; stopping_ may be true before it, since another thread sets that within a step. Tries
// again at once what waits after a failure: the server may work by now, and the stop may have little time. After that
// the pauses hold.
void ConsumerLoop::begin_stop() {
  // Before the round trips, or this consumer could receive the marker that it leaves for another one.
  wakeup_listeners_.leave();
  for (LaneServer& server : servers_) server.connection().retry_now();
  for (Lane& lane : lanes_) lane.retry_now();
}

void ConsumerLoop::collect_done() {
  const Handlers::Done done = handlers_.take_done();
  for (const Handlers::Warning& one : handlers_.warnings()) {
    queues_[one.queue].reporter.log(Severity::warning, one.text, {"", one.message_id});
  }
  const std::size_t handled = std::accumulate(done.returned.begin(), done.returned.end(), std::size_t{0});
  for (ServedQueue& queue : queues_) queue.handled_since_retry += handled;
  const auto returned = [&](std::size_t lane) { return lane < done.returned.size() ? done.returned[lane] : 0; };
  if (lanes_.size() == 1) return lanes_.front().accept_verdicts(done.deliveries, returned(0));
  std::vector<std::vector<InFlightPtr>> by_lane(lanes_.size());
  for (const InFlightPtr& delivery : done.deliveries) by_lane[delivery->lane].push_back(delivery);
  for (Lane& lane : lanes_) lane.accept_verdicts(by_lane[lane.number()], returned(lane.number()));
}

// Releases messages whose handler has not begun, of the lanes of this server: no take of theirs is under way.
void ConsumerLoop::release_unstarted(const LaneServer& server) {
  for (InFlightPtr& delivery : handlers_.dequeue_all()) unstarted_[delivery->lane].push_back(std::move(delivery));
  for (Lane* lane : server.lanes()) lane->release_unstarted(std::exchange(unstarted_[lane->number()], {}));
}

// A queue is connected while requests of all its lanes succeed.
void ConsumerLoop::report_connected() {
  for (ServedQueue& queue : queues_) {
    queue.reporter.counters().connected =
        std::all_of(queue.lanes.begin(), queue.lanes.end(), [](const Lane* lane) { return lane->works(); });
  }
}

void ConsumerLoop::report_if_drained() {
  const bool drained =
      has_begun_stop() && handlers_.empty() &&
      std::all_of(servers_.begin(), servers_.end(), [](const LaneServer& one) { return one.is_idle(); }) &&
      std::all_of(unstarted_.begin(), unstarted_.end(), [](const auto& some) { return some.empty(); }) &&
      std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.is_drained(); });
  if (drained) drained_();
}

void ConsumerLoop::on_started() {
  for (ServedQueue& queue : queues_) queue.reporter.counters().started();
  if (own_reporter_) own_reporter_->counters().started();
}

ConsumerMetrics ConsumerLoop::metrics() const {
  ConsumerMetrics metrics;
  if (own_reporter_) {
    std::vector<const Counters*> all;
    for (const ServedQueue& queue : queues_) all.push_back(&queue.reporter.counters());
    metrics.stats = sum_of(all, own_reporter_->counters());
  } else {
    metrics.stats = queues_.front().reporter.counters().stats();
  }
  for (const ServedQueue& queue : queues_) metrics.queues.push_back(queue.reporter.counters().metrics(queue.name));
  return metrics;
}

}  // namespace delayqueue
