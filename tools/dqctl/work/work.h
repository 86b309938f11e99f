// A message handler that runs a shell command.
#pragma once

#include <delayqueue/consumer.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "context.h"
#include "output/table.h"
#include "work/child.h"

namespace dqctl {

struct WorkOptions {
  std::string queue{};
  std::string command{};
  std::size_t concurrency = 1;
  bool until_empty = false;
  std::optional<milliseconds> lease{};           // default: 30 s
  std::optional<milliseconds> timeout{};         // default: 30 min; 0: none
  std::optional<milliseconds> later{};           // delay after exit code 75; default: 10 s
  std::optional<milliseconds> dead_retention{};  // unset: dead letters are kept
  std::optional<milliseconds> stop_timeout{};    // default: 30 s; 0: none
};

// The verdict for a message after its command has ended.
struct WorkOutcome {
  const char* word = "";  // acked, nacked, rejected, put off
  delayqueue::Verdict verdict;
  std::string reason = verdict.reason();
};

// Exit code 0 acks, 65 rejects, 75 snoozes. A command that dqctl stopped puts its message back. Anything else nacks.
WorkOutcome outcome_of(const CommandResult& result, milliseconds timeout, milliseconds later);

// Runs the commands and reports how they ended. Thread-safe.
class CommandRunner {
 public:
  CommandRunner(const WorkOptions& options, Output& output, const ProcessReaper& reaper);

  delayqueue::Verdict handle(const delayqueue::Message& message);
  void log(const delayqueue::LogEntry& entry);
  void on_event(const delayqueue::Event& event);

  // Terminates the running commands. Messages that are delivered later are put back.
  void terminate_commands() { terminating_ = true; }

  bool should_stop() const { return should_stop_; }  // an error makes going on pointless; finish() throws it
  int running() const { return running_; }
  std::uint64_t finished() const { return finished_; }

  void stderr_line(const std::string& text);

  // Writes the summary, after the last command has ended. Throws the error behind should_stop().
  void finish(std::uint64_t stale);

  // Reports the finished commands whose verdicts did not reach Redis, with its last error. Returns their number.
  std::size_t report_unsettled(const std::string& last_error);

  bool left_messages() const;  // dead letters were made, or messages put off and not handled since

 private:
  CommandResult run(const delayqueue::Message& message);
  void forward_output(std::string_view lines, bool errors);
  void report(const delayqueue::Message& message, const CommandResult& result, const WorkOutcome& outcome);
  bool is_unrunnable(const CommandResult& result);
  void stop_with(std::exception_ptr why);

  const WorkOptions& options_;
  Output& output_;
  const ProcessReaper& reaper_;
  const milliseconds timeout_, later_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<bool> terminating_{false}, should_stop_{false};
  std::atomic<bool> can_run_{false};  // some command ended with another code than 126 or 127
  std::atomic<int> running_{0};
  std::atomic<std::uint64_t> finished_{0};

  mutable std::mutex mutex_;  // guards all members below, and the output
  Listing listing_;
  std::uint64_t acked_ = 0, nacked_ = 0, rejected_ = 0, put_off_ = 0, dead_ = 0;
  std::set<std::string> put_off_ids_{};    // put off, and not handled since
  std::set<std::string> unsettled_ids_{};  // of commands that have finished, and whose verdicts Redis has not confirmed
  std::exception_ptr error_{};
};

}  // namespace dqctl
