#include "report.h"

#include <cstdio>
#include <memory>

namespace delayqueue {

Logger no_log() {
  return [](Severity, const std::string&) {};
}

Logger stderr_log() {
  return [](Severity severity, const std::string& line) {
    if (severity < Severity::warning) return;
    const std::string text =
        (severity == Severity::error ? "delayqueue: error: " : "delayqueue: warning: ") + line + '\n';
    std::fputs(text.c_str(), stderr);
  };
}

// Never destroyed: objects of the host may use it until the very end.
Logger& default_log() {
  static Logger& log = *std::make_unique<Logger>(stderr_log()).release();
  return log;
}

}  // namespace delayqueue
