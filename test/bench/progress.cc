#include "bench/progress.h"

#include <unistd.h>

namespace bench {
namespace {

const bool kTerminal = ::isatty(STDERR_FILENO) == 1;
constexpr std::chrono::milliseconds kPause{100};  // least time between two updates of the line

double seconds(std::chrono::steady_clock::duration span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

void Progress::part(const std::string& name) {
  close_part();
  part_ = name;
  part_start_ = Clock::now();
  if (kTerminal) step("");
}

void Progress::stage(const std::string& name) {
  close_stage();
  stage_ = name;
  stage_start_ = Clock::now();
  if (kTerminal) step("");
}

void Progress::step(const std::string& what, std::size_t done, std::size_t of) {
  const auto now = Clock::now();
  if (!kTerminal || (now - shown_ < kPause && width_ > 0)) return;
  shown_ = now;
  std::string text = part_ + (stage_.empty() ? "" : ": " + stage_) + (what.empty() ? "" : ": " + what);
  if (of > 0) text += ' ' + std::to_string(done) + " of " + std::to_string(of);
  clear();
  std::fputs(text.c_str(), stderr);
  width_ = text.size();
}

void Progress::line(const std::string& text) {
  clear();
  std::fprintf(stderr, "%s\n", text.c_str());
}

void Progress::left_out(const std::string& figures, const std::string& reason) {
  line("  left out: " + figures + " (" + reason + ")");
}

void Progress::end() {
  close_part();
  std::fprintf(stderr, "%-14s %5.1f s\n", "all", seconds(Clock::now() - start_));
}

void Progress::clear() {
  if (width_ > 0) std::fprintf(stderr, "\r%*s\r", static_cast<int>(width_), "");
  width_ = 0;
}

void Progress::close_stage() {
  if (stage_.empty()) return;
  clear();
  std::fprintf(stderr, "  %-12s %5.1f s\n", stage_.c_str(), seconds(Clock::now() - stage_start_));
  stage_.clear();
}

void Progress::close_part() {
  close_stage();
  if (part_.empty()) return;
  clear();
  std::fprintf(stderr, "%-14s %5.1f s\n", part_.c_str(), seconds(Clock::now() - part_start_));
  part_.clear();
}

}  // namespace bench
