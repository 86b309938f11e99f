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
  durability_.use(std::move(made.confirming));
  if (made.risks) risk_watch_.log(*made.risks, connection_->where(), reporter_.sink());
}

void ConsumerConnection::close() {
  durability_.close();
  connection_.reset();
  reporter_.counters().connected = false;
}

void ConsumerConnection::succeeded() {
  if (reconnect_backoff_.is_failing()) {
    reporter_.recovered(this,
                        "Redis answers again at " + connection_->where() + "; it failed " +
                            reconnect_backoff_.duration_text(Clock::now()),
                        {connection_->where(), ""});
  }
  reconnect_backoff_.succeeded(Clock::now());
  works_ = true;
}

void ConsumerConnection::failed(const std::exception& e) {
  works_ = false;
  reporter_.counters().failed(e.what());
  const auto since = connection_ == nullptr ? attempt_began_ : connection_->silent_since();
  const std::string text = reconnect_backoff_.failed(e.what(), pauses_after(e, std::nullopt), Clock::now(), since);
  reporter_.failed(this, text, reconnect_backoff_.is_new(), {connection_ == nullptr ? "" : connection_->where(), ""});
  durability_.close();
  connection_.reset();
}

void ConsumerConnection::close_if_stale() {
  if (connection_ == nullptr || !connection_->is_stale()) return;
  durability_.close();
  connection_.reset();
}

void ConsumerConnection::observe_clock(const ClockSample& sample) {
  if (const auto jump = clock_monitor_.observe(sample)) {
    reporter_.log(Severity::warning, to_text(*jump, connection_->where()), {connection_->where(), ""});
  }
}

}  // namespace delayqueue
