// SendReporter: what a Producer counts, logs and sends as events. Any number of threads may use it.
#pragma once

#include "producer/router.h"
#include "queue/event_sink.h"
#include "queue/failure_reporter.h"
#include "queue/histogram_recorder.h"

#include <delayqueue/metrics.h>
#include <delayqueue/producer.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace delayqueue {

class SendReporter {
 public:
  SendReporter(const std::string& queue, const ProducerOptions& options, const KeyOptions& keys)
      : sink_({queue, ""}, options.logger, options.on_event, false), publishes_(keys.go.report_events) {}

  const EventSink& sink() const { return sink_; }
  FailureReporter& failures() { return failures_; }
  ProducerMetrics metrics(Router& router) const;

  // Counts the messages of these requests, whose send has ended, and the time since it began.
  void count(const std::vector<SendRequest>& requests, std::chrono::steady_clock::time_point began);

  // Reports the messages of these requests that were created. Called after the user has their results, except in calls
  // that return them.
  void sent(Router& router, const std::vector<SendRequest>& requests);

  // A call of the user has succeeded. Logs the risks of the server that has this message, at most once.
  void log_risks(Router& router, const std::string& id);

 private:
  void publish(SharedConnection& connection, std::size_t created);

  const EventSink sink_;
  const bool publishes_;
  FailureReporter failures_{sink_};
  std::atomic<bool> risks_logged_{false};
  std::atomic<std::uint64_t> sent_{0}, failed_{0};  // messages
  HistogramRecorder send_time_;
};

}  // namespace delayqueue
