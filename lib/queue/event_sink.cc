#include "queue/event_sink.h"

#include <cstdio>
#include <memory>

namespace delayqueue {
namespace {

struct NoLog {
  void operator()(Severity, const std::string&) const {}
};

}  // namespace

EventSink::EventSink(std::string subject, const Logger& logger, EventCallback on_event, bool publishes,
                     std::string queue)
    : subject_(std::move(subject)),
      has_listener_(logger && logger.target<NoLog>() == nullptr),
      logger_(logger ? logger : default_log()),
      on_event_(std::move(on_event)),
      publishes_(publishes),
      queue_(std::move(queue)) {}

Logger no_log() { return NoLog{}; }

Logger stderr_log() {
  return [](Severity severity, const std::string& line) {
    if (severity < Severity::warning) return;
    const std::string text =
        (severity == Severity::error ? "delayqueue: error: " : "delayqueue: warning: ") + line + '\n';
    std::fputs(text.c_str(), stderr);
  };
}

// Never destroyed, because static objects of the program may log until the process ends.
Logger& default_log() {
  static Logger& log = *std::make_unique<Logger>(stderr_log()).release();
  return log;
}

}  // namespace delayqueue
