#include "consumer/report.h"

#include "queue/server_risks.h"
#include "redis/escaped.h"
#include "store/pause.h"

namespace delayqueue {
namespace {

std::vector<std::string> ids_of(const std::vector<InFlightPtr>& deliveries) {
  std::vector<std::string> ids;
  ids.reserve(deliveries.size());
  for (const InFlightPtr& delivery : deliveries) ids.push_back(delivery->message.id());
  return ids;
}

}  // namespace

// ---- Reporter -------------------------------------------------------------------------------------------------------

Reporter::Reporter(const std::string& queue, const std::string& consumer, const ConsumerOptions& options,
                   const KeyOptions& keys)
    : sink_({queue, consumer}, options.logger, options.on_event, keys.go.report_events),
      has_own_prefix_(keys.prefix != "dp") {}

Reporter::Reporter(const std::string& consumer, const ConsumerOptions& options)
    : sink_({"", consumer}, options.logger, {}, false) {}

void Reporter::failed(FailureLog::Source source, const std::string& text, bool is_new, const LogFields& about) const {
  const bool warns = failures_->warns(source, text, is_new, FailureLog::Clock::now());
  log(warns ? Severity::warning : Severity::debug, text, about);
}

void Reporter::recovered(FailureLog::Source source, const std::string& text, const LogFields& about) const {
  const bool tells = failures_->tells_recovery(source, FailureLog::Clock::now());
  log(tells ? Severity::info : Severity::debug, text, about);
}

void Reporter::promoted(const store::Promoted& promoted) {
  sink_.count(EventKind::ready, promoted.moved);
  sink_.event(EventKind::ready, promoted.ids);
}

void Reporter::retried(const store::Reclaimed& reclaimed) {
  counters_.dead_lettered += reclaimed.dead_lettered.size();
  event(EventKind::retried, reclaimed.retried);
  event(EventKind::dead_lettered, reclaimed.dead_lettered);
}

void Reporter::taken(const Taker::Taken& taken) {
  counters_.prefetched += taken.deliveries.size();
  counters_.foreign += taken.removed;
  if (!taken.foreign_id.empty()) warn_foreign(taken.foreign_id);
  event(EventKind::delivered, taken.deliveries);
}

void Reporter::fetched(const BodyFetcher::Fetched& fetched) {
  counters_.prefetched -= fetched.expired.size() + fetched.skipped.size();
  counters_.delivered += fetched.first.size() + fetched.redelivered.size();
  if (!fetched.expired.empty()) warn_expired(fetched.expired.front()->message.id());
  if (!fetched.damaged_id.empty()) warn_damaged(fetched.damaged_id);
}

void Reporter::settled(const Settler::Outcome& outcome) {
  counters_.acked += outcome.acked.size();
  counters_.expired += outcome.expired.size();
  counters_.skipped += outcome.skipped.size();
  counters_.foreign += outcome.foreign.size();
  counters_.nacked += outcome.nacked.size();
  counters_.dead_lettered += outcome.dead_lettered.size();
  counters_.snoozed += outcome.snoozed.size();
  counters_.queue_pauses += outcome.pauses.size();
  if (outcome.paused_queue != nullptr) paused_queue(*outcome.paused_queue);
  counters_.stale += outcome.stale.size();
  event(EventKind::acked, outcome.acked);
  event(EventKind::nacked, outcome.nacked);
  event(EventKind::dead_lettered, outcome.dead_lettered);
}

// An outage, of Redis or of what handlers use, may cost thousands of leases, so not each of them is a warning.
void Reporter::warn_of_message(const std::string& kind, const std::string& id, const std::string& text) const {
  const bool warns = failures_->warns(&counters_, kind, true, FailureLog::Clock::now());
  log(warns ? Severity::warning : Severity::debug, text, {"", id});
}

// A delivery in doubt was most likely settled, and its message is gone because of that.
void Reporter::lost(const InFlightMessage& delivery) {
  if (delivery.may_be_settled()) return;
  ++counters_.leases_lost;
  const std::string& id = delivery.message.id();
  warn_of_message("lost", id, "lost the lease of " + redis::escaped(id) + ": another consumer may have it");
}

void Reporter::overrunning(const InFlightMessage& delivery, milliseconds processing_timeout) {
  ++counters_.leases_lost;
  const std::string& id = delivery.message.id();
  warn_of_message("overrunning", id,
                  "the delivery of " + redis::escaped(id) + " takes longer than processing_timeout (" +
                      std::to_string(processing_timeout.count()) + " ms): its lease may end");
}

void Reporter::hanging(const InFlightMessage& delivery, milliseconds processing_timeout) const {
  const std::string& id = delivery.message.id();
  warn_of_message("hanging", id,
                  "the handler of " + redis::escaped(id) + " runs longer than processing_timeout (" +
                      std::to_string(processing_timeout.count()) +
                      " ms), though its delivery is settled: another thread replaces its own");
}

void Reporter::trimmed(std::size_t dead_letters) const {
  log(Severity::info, "trimmed " + std::to_string(dead_letters) + " dead letters");
}

// The API behind the handlers may ask for many pauses in a row, so not each of them is shown.
void Reporter::paused_queue(const InFlightMessage& delivery) const {
  const Verdict& verdict = *delivery.verdict;
  const bool shows = failures_->warns(&counters_, "pause", true, FailureLog::Clock::now());
  log(shows ? Severity::info : Severity::debug,
      "paused the queue for " + std::to_string(verdict.after()->count()) +
          " ms: " + redis::escaped(store::held_off_text(verdict.reason())),
      {"", delivery.message.id()});
}

// After a TTL this is as wished; otherwise messages are being lost. Redis does not tell which it was. Once a minute is
// enough.
void Reporter::warn_expired(const std::string& id) {
  const std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
  if (now < expired_warning_due_) return;
  expired_warning_due_ = now + std::chrono::minutes(1);
  const bool other_options = has_own_prefix_ && counters_.delivered == 0;  // each message seems to have no body
  const bool evicted = !(sink_.has_listener() && is_eviction_excluded());
  log(evicted || other_options ? Severity::warning : Severity::info,
      "removed " + redis::escaped(id) + ", and perhaps more, whose bodies are gone: their TTL has ended" +
          (evicted ? ", or Redis evicted them" : "") +
          (other_options ? ", or producers use other key options (bodies_under_dp)" : ""),
      {"", id});
}

void Reporter::warn_foreign(const std::string& id) {
  if (std::exchange(foreign_warned_, true)) return;
  sink_.log(Severity::warning, "removed \"" + redis::escaped(id) +
                                   "\" before a handler saw it: no UUID in its form of 36 characters, in lower " +
                                   "case, so no message of this library or of the Go library; more of this kind " +
                                   "are counted only (ConsumerStats::foreign); check() finds what is left");
}

// Another program has written there, or a later version of this library in a form that this one does not have.
void Reporter::warn_damaged(const std::string& id) {
  const std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
  if (now < damaged_warning_due_) return;
  damaged_warning_due_ = now + std::chrono::minutes(1);
  sink_.log(Severity::warning, "delivered " + redis::escaped(id) +
                                   ", and perhaps more, without their headers: what is stored there is damaged, or " +
                                   "of a later version of this library; check() finds these messages");
}

void Reporter::event(EventKind kind, const std::vector<InFlightPtr>& deliveries) {
  sink_.count(kind, deliveries.size());
  if (sink_.wants_events()) sink_.event(kind, ids_of(deliveries));
}

void Reporter::event(EventKind kind, const std::vector<std::string>& ids) {
  sink_.count(kind, ids.size());
  sink_.event(kind, ids);
}

}  // namespace delayqueue
