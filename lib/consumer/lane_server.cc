#include "consumer/lane_server.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kLargeAnswer = 64 * 1024;

}  // namespace

void LaneServer::remove(const Lane& lane) { lanes_.erase(std::find(lanes_.begin(), lanes_.end(), &lane)); }

// ---- The connection -------------------------------------------------------------------------------------------------

void LaneServer::add_others(BackgroundCalls& calls) {
  opening_.emplace(calls);
  if (connection_.is_open()) connection_.get().refuse_redirections();
}

bool LaneServer::needs_connection() const {
  return !connection_.is_open() || (connection_.get().has_moved() && round_trips_.empty());
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

std::exception_ptr LaneServer::join_first() {
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
  std::exception_ptr refused;
  for (Lane* lane : lanes) {
    const std::exception_ptr error = lane->requests().refused;
    if (error == nullptr) continue;
    if (is_only() && lanes_.size() == 1) {  // start() reports it
      lane->leave();
      std::rethrow_exception(error);
    }
    lane->read_results(connection_.get().where());
    refused = error;
  }
  return refused;
}

void LaneServer::leave() {
  for (Lane* lane : lanes_) lane->leave();
}

void LaneServer::fail(const std::exception& e) {
  round_trips_.clear();
  leave();
  connection_.failed(e);
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

// ---- Round trips ----------------------------------------------------------------------------------------------------

bool LaneServer::is_one_at_a_time() const { return stopping_ || !connection_.works() || connection_.get().has_moved(); }

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
  bool refused = false;
  for (Lane* lane : lanes_) {
    if (finished.resent) lane->promote_now();  // the take may have run before the resent moves
    connection_.observe_clock(lane->last_clock_sample());
    refused = lane->read_results(connection_.get().where()) || refused;
  }
  if (finished.one || round_trips_.empty()) connection_.succeeded();
  if (refused && round_trips_.empty()) connection_.close_if_stale();
}

}  // namespace delayqueue
