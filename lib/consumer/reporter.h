// Reports what a consumer does: counters, events and log lines. Used by the consumer's thread only, except for stats()
// and the counters.
#pragma once

#include "consumer/counters.h"
#include "consumer/holdings.h"
#include "consumer/intake.h"
#include "queue/event_sink.h"
#include "queue/failure_log.h"
#include "store/moves.h"

#include <delayqueue/consumer.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace delayqueue {

class Reporter {
 public:
  // For one queue of a consumer. `consumer`: its id. Log lines name the queue and the end of the id.
  Reporter(const std::string& queue, const std::string& consumer, const ConsumerOptions& options);

  // For what concerns several queues of a consumer. Log lines name the end of the id only.
  Reporter(const std::string& consumer, const ConsumerOptions& options);

  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }
  EventSink& sink() { return sink_; }
  const EventSink& sink() const { return sink_; }
  void log(Severity severity, const std::string& text, const LogFields& about = {}) const {
    sink_.log(severity, text, about);
  }

  // Uses the FailureLog of another one, so that what concerns several queues floods no log.
  void share_failures(const Reporter& other) { failures_ = other.failures_; }

  // Logs a failure of a source: as a warning, or for debugging. `is_new`: see FailureLog.
  void failed(FailureLog::Source source, const std::string& text, bool is_new, const LogFields& about) const;
  // Logs that it is in order again, if its failure was a warning.
  void recovered(FailureLog::Source source, const std::string& text, const LogFields& about) const;

  // The steps of a message, in their order.
  void promoted(const store::Promoted& promoted);
  void retried(const store::Reclaimed& reclaimed);
  void taken(const Prefetcher::Taken& taken);
  void fetched(const BodyFetcher::Fetched& fetched);
  void returned(std::size_t unstarted) { counters_.prefetched -= unstarted; }
  void settled(const Settler::Outcome& outcome);

  // Warnings and notices.
  void lost(const InFlightMessage& delivery);
  void overrunning(const InFlightMessage& delivery, milliseconds processing_timeout);
  void hanging(const InFlightMessage& delivery, milliseconds processing_timeout) const;
  void trimmed(std::size_t dead_letters) const;

 private:
  void warn_expired(const std::string& id);
  void warn_foreign(const std::string& id);
  void warn_damaged(const std::string& id);
  void event(EventKind kind, const std::vector<std::string>& ids);
  void event(EventKind kind, const std::vector<InFlightPtr>& deliveries);

  EventSink sink_;
  std::shared_ptr<FailureLog> failures_ = std::make_shared<FailureLog>();
  const bool has_own_prefix_ = false;  // bodies_under_dp makes a difference
  Counters counters_;
  bool foreign_warned_ = false;
  std::chrono::steady_clock::time_point expired_warning_due_, damaged_warning_due_;
};

}  // namespace delayqueue
