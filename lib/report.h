// Tells the user what happened, by the logger and the event callback. Nothing that they throw gets out.
#pragma once

#include <delayqueue/options.h>

#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

class Report {
 public:
  explicit Report(Logger logger, EventCallback on_event = {})
      : logger_(std::move(logger)), on_event_(std::move(on_event)) {}

  bool wants_events() const { return static_cast<bool>(on_event_); }

  void log(Severity severity, const std::string& line) const {
    if (!logger_) return;
    try {
      logger_(severity, line);
    } catch (...) {  // there is nobody left to tell
    }
  }

  void event(EventKind kind, std::vector<std::string> ids) const {
    if (!on_event_ || ids.empty()) return;
    const std::size_t count = ids.size();
    try {
      on_event_({kind, std::chrono::system_clock::now(), count, std::move(ids)});
    } catch (const std::exception& e) {
      log(Severity::error, std::string("on_event threw: ") + e.what());
    } catch (...) {
      log(Severity::error, "on_event threw something that is no std::exception");
    }
  }

 private:
  const Logger logger_;
  const EventCallback on_event_;
};

}  // namespace delayqueue
