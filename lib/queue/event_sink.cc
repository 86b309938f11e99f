#include "queue/event_sink.h"

#include "redis/escaped.h"

#include <cstdio>
#include <memory>

namespace delayqueue {
namespace {

struct NoLog {
  void operator()(const LogEntry&) const {}
};

// "queue orders, consumer 1a2b3c4d".
std::string subject_of(const LogSource& source) {
  std::string queue = source.queue.empty() ? "" : "queue " + redis::escaped(source.queue);
  if (source.consumer.empty()) return queue;
  return queue + (queue.empty() ? "" : ", ") + "consumer " + source.consumer.substr(source.consumer.size() - 8);
}

}  // namespace

EventSink::EventSink(LogSource source, const Logger& logger, EventCallback on_event, bool publishes)
    : source_(std::move(source)),
      subject_(subject_of(source_)),
      has_listener_(logger && logger.target<NoLog>() == nullptr),
      logger_(logger ? logger : default_log()),
      on_event_(std::move(on_event)),
      publishes_(publishes) {}

void EventSink::log(Severity severity, const std::string& text, const LogFields& about) const {
  try {
    logger_({severity, subject_ + ": " + text, text, source_.queue, source_.consumer, about.server,
             redis::escaped(about.message_id)});
  } catch (...) {  // a failure of the logger cannot be logged
  }
}

Logger DELAYQUEUE_ABI::no_log() { return NoLog{}; }

Logger stderr_log() {
  return [](const LogEntry& entry) {
    if (entry.severity < Severity::warning) return;
    const std::string printed =
        (entry.severity == Severity::error ? "delayqueue: error: " : "delayqueue: warning: ") + entry.line + '\n';
    std::fputs(printed.c_str(), stderr);
  };
}

// Never destroyed, because static objects of the program may log until the process ends.
Logger& default_log() {
  static Logger& log = *std::make_unique<Logger>(stderr_log()).release();
  return log;
}

}  // namespace delayqueue
