// FailureReporter: logs failures and recoveries within the limits of FailureLog. Any number of threads may use it.
#pragma once

#include "queue/event_sink.h"
#include "queue/failure_log.h"

#include <mutex>
#include <string>

namespace delayqueue {

class FailureReporter {
 public:
  using Source = FailureLog::Source;

  // The sink must outlive this object.
  explicit FailureReporter(const EventSink& sink) : sink_(sink) {}

  // See FailureLog::warns(). A failure that is no warning is logged for debugging.
  void failed(Source source, const std::string& text, bool is_new, const LogFields& about = {}) {
    std::unique_lock lock(mutex_);
    const bool warns = log_.warns(source, text, is_new, FailureLog::Clock::now());
    lock.unlock();
    sink_.log(warns ? Severity::warning : Severity::debug, text, about);
  }

  // See FailureLog::tells_recovery().
  void recovered(Source source, const std::string& text, const LogFields& about = {}) {
    std::unique_lock lock(mutex_);
    const bool tells = log_.tells_recovery(source, FailureLog::Clock::now());
    lock.unlock();
    sink_.log(tells ? Severity::info : Severity::debug, text, about);
  }

 private:
  const EventSink& sink_;
  std::mutex mutex_;  // guards the next
  FailureLog log_;
};

}  // namespace delayqueue
