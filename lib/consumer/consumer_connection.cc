#include "consumer/consumer_connection.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <utility>

namespace delayqueue {
namespace {

constexpr ReconnectBackoff::Pauses kUnreachable{milliseconds(50), milliseconds(1000)};  // it may be back any moment
constexpr ReconnectBackoff::Pauses kRefused{milliseconds(500), milliseconds(5000)};     // until a person does something

}  // namespace

// A password, an ACL rule or a setting of this machine is changed by a person, so attempts may be rare; but not so rare
// that leases end that can still be renewed.
ReconnectBackoff::Pauses pauses_after(const std::exception& e, std::optional<milliseconds> lease) {
  const bool forbidden =
      dynamic_cast<const AccessDenied*>(&e) != nullptr || dynamic_cast<const SetupError*>(&e) != nullptr;
  if (!forbidden) return kUnreachable;
  if (!lease) return kRefused;
  return {kRefused.shortest, std::clamp(*lease / 3, kUnreachable.longest, kRefused.longest)};
}

void ConsumerConnection::open(const std::function<void(redis::Connection&)>& prepare) {
  connection_.reset();
  auto connection = endpoint_.connect();
  durability_.check(*connection);
  ++reporter_.counters().connects;
  prepare(*connection);
  clock_monitor_.new_connection();
  if (reporter_.sink().has_listener()) {
    if (const auto risks = risk_watch_.find(*connection)) {
      risk_watch_.log(*risks, connection->where(), reporter_.sink());
    }
  }
  connection_ = std::move(connection);
}

void ConsumerConnection::close() {
  connection_.reset();
  reporter_.counters().connected = false;
}

void ConsumerConnection::succeeded() {
  if (reconnect_backoff_.is_failing()) {
    reporter_.log(Severity::info, "Redis answers again at " + connection_->where() + "; it failed " +
                                      reconnect_backoff_.duration_text(Clock::now()));
  }
  reconnect_backoff_.succeeded();
  reporter_.counters().connected = true;
}

void ConsumerConnection::failed(const std::exception& e, bool holds_leases) {
  reporter_.counters().failed(e.what());
  const auto lease = connection_ != nullptr && holds_leases ? std::optional(lease_) : std::nullopt;
  const auto line = reconnect_backoff_.failed(e.what(), pauses_after(e, lease), Clock::now());
  reporter_.log(line.severity, line.text);
  const bool broken = dynamic_cast<const ConnectionError*>(&e) != nullptr;
  if (connection_ != nullptr && (broken || connection_->is_stale())) connection_.reset();
}

void ConsumerConnection::observe_clock(const ClockSample& sample) {
  if (const auto jump = clock_monitor_.observe(sample)) {
    reporter_.log(Severity::warning, to_text(*jump, connection_->where()));
  }
}

}  // namespace delayqueue
