#include "consumer/consumer_connection.h"

#include <delayqueue/error.h>

#include <utility>

namespace delayqueue {

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
  const std::string where = connection_->where();
  if (const auto text = health_.succeeded(where)) reporter_.recovered(this, *text, {where, ""});
}

void ConsumerConnection::failed(const std::exception& e) {
  reporter_.counters().failed(e.what());
  const auto since = connection_ == nullptr ? attempt_began_ : connection_->silent_since();
  const std::string text = health_.failed(e.what(), pauses_after(e), since);
  reporter_.failed(this, text, health_.is_new_failure(), {connection_ == nullptr ? "" : connection_->where(), ""});
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
