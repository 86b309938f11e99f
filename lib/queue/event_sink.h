// EventSink: reports to the user by the logger, the event callback and the Go library's event channel. Exceptions from
// the callbacks do not leave it.
#pragma once

#include "queue/go_events.h"
#include "redis/pipeline.h"

#include <delayqueue/events.h>

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

// Writes warnings and errors to stderr.
Logger stderr_log();

// The logger of all objects that were created without one: stderr_log(). Tests replace it before they create objects.
Logger& default_log();

class EventSink {
 public:
  // `subject`: the name of the object that reports; every log line begins with it. `queue`: of its events.
  EventSink(std::string subject, const Logger& logger, EventCallback on_event, bool publishes, std::string queue = {});

  // Whether a logger was given, other than no_log().
  bool has_listener() const { return has_listener_; }

  bool wants_events() const { return static_cast<bool>(on_event_); }

  void log(Severity severity, const std::string& line) const {
    try {
      logger_(severity, subject_ + ": " + line);
    } catch (...) {  // a failure of the logger cannot be logged
    }
  }

  // Does nothing if the line is empty.
  void warn(const std::string& line) const {
    if (!line.empty()) log(Severity::warning, line);
  }

  void event(EventKind kind, std::vector<std::string> ids) const {
    if (!on_event_ || ids.empty()) return;
    const std::size_t count = ids.size();
    try {
      on_event_({kind, std::chrono::system_clock::now(), count, std::move(ids), queue_});
    } catch (const std::exception& e) {
      log(Severity::error, std::string("on_event threw: ") + e.what());
    } catch (...) {
      log(Severity::error, "on_event threw something that is no std::exception");
    }
  }

  // Events for the channel: count() adds to a counter, publish() adds the counters to a pipeline. For one thread only.
  void count(EventKind kind, std::size_t messages) {
    if (publishes_ && messages > 0) counts_[kind] += messages;
  }
  bool has_counts() const { return !counts_.empty(); }
  void publish(redis::Pipeline& pipeline, const std::string& channel) {
    for (const auto& [kind, messages] : counts_) publish_event(pipeline, channel, kind, messages);
    counts_.clear();
  }

 private:
  const std::string subject_;
  const bool has_listener_;
  const Logger logger_;
  const EventCallback on_event_;
  const bool publishes_;
  const std::string queue_;
  std::map<EventKind, std::size_t> counts_;
};

}  // namespace delayqueue
