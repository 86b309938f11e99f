// EventSink: reports to the user by the logger, the event callback and the Go library's event channel. Exceptions from
// the callbacks do not leave it.
#pragma once

#include "queue/go_events.h"
#include "redis/pipeline.h"

#include <delayqueue/log.h>

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

// What reports. All its log lines begin with these names, as far as they are known.
struct LogSource {
  std::string queue{};     // empty: it has several
  std::string consumer{};  // its id; empty: it is no consumer
};

// What a log entry is about. The text names it, too.
struct LogFields {
  std::string server{};
  std::string message_id{};
};

class EventSink {
 public:
  EventSink(LogSource source, const Logger& logger, EventCallback on_event, bool publishes);

  // Whether a logger was given, other than no_log().
  bool has_listener() const { return has_listener_; }

  bool wants_events() const { return static_cast<bool>(on_event_); }

  void log(Severity severity, const std::string& text, const LogFields& about = {}) const;

  // Does nothing if the text is empty.
  void warn(const std::string& text) const {
    if (!text.empty()) log(Severity::warning, text);
  }

  void event(EventKind kind, std::vector<std::string> ids) const {
    if (!on_event_ || ids.empty()) return;
    const std::size_t count = ids.size();
    try {
      on_event_({kind, std::chrono::system_clock::now(), count, std::move(ids), source_.queue});
    } catch (...) {
      log(Severity::error, "on_event threw: " + current_exception_text());
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
  const LogSource source_;
  const std::string subject_;
  const bool has_listener_;
  const Logger logger_;
  const EventCallback on_event_;
  const bool publishes_;
  std::map<EventKind, std::size_t> counts_;
};

}  // namespace delayqueue
