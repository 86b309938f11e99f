#include "work/work.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "exit.h"
#include "filter.h"

extern char** environ;

namespace dqctl {
namespace {

using delayqueue::Event;
using delayqueue::EventKind;
using delayqueue::Message;
using delayqueue::Severity;
using delayqueue::Verdict;

constexpr int kDataError = 65;         // EX_DATAERR of sysexits.h
constexpr int kTemporaryFailure = 75;  // EX_TEMPFAIL
constexpr int kNotExecutable = 126, kNotFound = 127;
constexpr milliseconds kDefaultTimeout{30 * 60'000};
constexpr milliseconds kDefaultLater{10'000};
constexpr milliseconds kShortly{1000};
constexpr std::size_t kUnsettledShown = 20;

// The environment of dqctl, without the URI and passwords of the queue: a command does not need them.
std::vector<std::string> environment_for(const std::string& queue, const Message& message) {
  // JSON has no zero byte, and makes at most six bytes of one: far less than the system allows for a variable.
  std::vector<std::string> out = {"DQ_ID=" + message.id(), "DQ_ATTEMPT=" + std::to_string(message.attempt()),
                                  "DQ_QUEUE=" + queue, "DQ_HEADERS=" + headers_json(message.headers())};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    bool passed = true;
    for (const char* name : {"DQ_ID=", "DQ_ATTEMPT=", "DQ_QUEUE=", "DQ_HEADERS=", "DELAYQUEUE_URI=",
                             "DELAYQUEUE_PASSWORD=", "DELAYQUEUE_SENTINEL_PASSWORD="}) {
      passed = passed && std::strncmp(*entry, name, std::strlen(name)) != 0;
    }
    if (passed) out.emplace_back(*entry);
  }
  return out;
}

std::string how_it_ended(const CommandResult& result, milliseconds timeout) {
  switch (result.cause) {
    case TerminationCause::timeout:
      return "timed out after " + span_text(timeout);
    case TerminationCause::lease_lost:
      return "its lease was lost";
    case TerminationCause::stop:
      return "stopped";
    case TerminationCause::none:
      break;
  }
  return result.signal != 0 ? "killed by signal " + std::to_string(result.signal)
                            : "exit code " + std::to_string(result.exit);
}

// The last line on stderr. If dqctl terminated the command, the cause stands before it.
std::string reason_of(const CommandResult& result, milliseconds timeout) {
  const std::string last_line = printable(result.last_error);
  if (last_line.empty() || result.cause == TerminationCause::none)
    return last_line.empty() ? how_it_ended(result, timeout) : last_line;
  return how_it_ended(result, timeout) + ": " + last_line;
}

Object object_of(const Message& message, const CommandResult& result, const WorkOutcome& outcome) {
  static constexpr const char* kCauses[] = {nullptr, "timeout", "lost", "stop"};
  const char* cause = kCauses[static_cast<std::size_t>(result.cause)];
  Object object;
  object.add("id", message.id()).add("attempt", message.attempt());
  object.add("exit", result.exit >= 0 ? std::optional(result.exit) : std::nullopt);
  object.add("signal", result.signal != 0 ? std::optional(result.signal) : std::nullopt);
  object.add("ended", cause != nullptr ? std::optional<std::string>(cause) : std::nullopt);
  object.add("ms", result.duration.count());
  object.add("verdict", delayqueue::to_string(outcome.verdict.kind()));
  return object.add("reason", outcome.reason);
}

}  // namespace

WorkOutcome outcome_of(const CommandResult& result, milliseconds timeout, milliseconds later) {
  // A terminated command may exit with 0, but its work is not done.
  if (result.cause == TerminationCause::stop) return {"put back", delayqueue::snooze(milliseconds(0))};
  const std::string reason = reason_of(result, timeout);
  if (result.cause != TerminationCause::none) return {"nacked", delayqueue::nack(reason)};
  if (result.exit == 0) return {"acked", delayqueue::ack()};
  if (result.exit == kDataError) return {"rejected", delayqueue::reject(reason)};
  if (result.exit != kTemporaryFailure) return {"nacked", delayqueue::nack(reason)};
  return {"put off", delayqueue::snooze(later), reason};
}

CommandRunner::CommandRunner(const WorkOptions& options, Output& output, const ProcessReaper& reaper)
    : options_(options),
      output_(output),
      reaper_(reaper),
      timeout_(options.timeout.value_or(kDefaultTimeout)),
      later_(options.later.value_or(kDefaultLater)),
      listing_(output, {}, "messages", Object().add("queue", options.queue)) {}

Verdict CommandRunner::handle(const Message& message) {
  if (terminating_ || should_stop_) return delayqueue::snooze(milliseconds(0));
  ++running_;
  WorkOutcome outcome{"put off", delayqueue::snooze(kShortly)};
  try {
    const CommandResult result = run(message);
    if (!is_unrunnable(result)) {
      outcome = outcome_of(result, timeout_, later_);
      report(message, result, outcome);
    }
  } catch (const Failure& failure) {  // no process or no pipe: not a fault of the message
    stderr_line(failure.what());
  }
  ++finished_;
  --running_;
  return outcome.verdict;
}

CommandResult CommandRunner::run(const Message& message) {
  Task task;
  task.command = options_.command;
  task.environment = environment_for(options_.queue, message);
  task.input = message.payload();
  task.timeout = timeout_;
  task.check = [&] {
    return terminating_           ? TerminationCause::stop
           : message.lease_lost() ? TerminationCause::lease_lost
                                  : TerminationCause::none;
  };
  task.out = [this](std::string_view lines) { forward_output(lines, !output_.is_table()); };
  task.err = [this](std::string_view lines) { forward_output(lines, true); };
  return run_command(task, reaper_);
}

// A mistyped command must not turn all messages into dead letters. Once one command was found, 126 and 127 are codes
// of the command.
bool CommandRunner::is_unrunnable(const CommandResult& result) {
  const bool missing =
      result.cause == TerminationCause::none && (result.exit == kNotFound || result.exit == kNotExecutable);
  if (!missing) can_run_ = true;
  if (can_run_) return false;
  stop_with(std::make_exception_ptr(Failure(Exit::failed, "--exec: the command cannot be run (exit code " +
                                                              std::to_string(result.exit) +
                                                              "); its messages were put back, no retry was spent")));
  return true;
}

void CommandRunner::forward_output(std::string_view lines, bool errors) {
  const std::lock_guard lock(mutex_);
  if (errors) {
    std::fwrite(lines.data(), 1, lines.size(), stderr);
    return;
  }
  try {
    if (should_stop_) return;
    output_.write(lines);
    output_.flush();
  } catch (...) {
    error_ = std::current_exception();
    should_stop_ = true;
  }
}

void CommandRunner::report(const Message& message, const CommandResult& result, const WorkOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  put_off_ids_.erase(message.id());
  if (outcome.verdict.kind() != Verdict::Kind::snooze && !message.lease_lost()) unsettled_ids_.insert(message.id());
  switch (outcome.verdict.kind()) {
    case Verdict::Kind::ack:
      ++acked_;
      break;
    case Verdict::Kind::nack:
      ++nacked_;
      break;
    case Verdict::Kind::reject:
      ++rejected_;
      break;
    case Verdict::Kind::snooze:
    case Verdict::Kind::pause_queue:
      ++put_off_;
      put_off_ids_.insert(message.id());
      break;
  }
  try {
    if (!output_.is_table() && !should_stop_) {
      listing_.add({}, object_of(message, result, outcome));
      listing_.flush();
    }
  } catch (...) {
    error_ = std::current_exception();
    should_stop_ = true;
  }
  if (!output_.is_table() || outcome.verdict.kind() == Verdict::Kind::ack) return;
  const std::string how = how_it_ended(result, timeout_);
  std::fprintf(stderr, "dqctl: %s %s: %s\n", id_text(message.id()).c_str(), outcome.word, how.c_str());
}

void CommandRunner::stop_with(std::exception_ptr why) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(why);
  should_stop_ = true;
}

void CommandRunner::stderr_line(const std::string& text) {
  const std::lock_guard lock(mutex_);
  std::fprintf(stderr, "dqctl: %s\n", printable(text).c_str());
}

void CommandRunner::log(const delayqueue::LogEntry& entry) {
  if (entry.severity != Severity::debug) stderr_line(entry.line);
}

void CommandRunner::on_event(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (event.kind == EventKind::dead_lettered) dead_ += event.count;
  if (event.kind != EventKind::acked && event.kind != EventKind::nacked) return;
  for (const std::string& id : event.ids) unsettled_ids_.erase(id);
}

void CommandRunner::finish(std::uint64_t stale) {
  const std::lock_guard lock(mutex_);
  std::string text = count_text(acked_) + " acked, " + count_text(nacked_) + " nacked, " + count_text(rejected_) +
                     " rejected, " + count_text(put_off_) + " put off";
  if (stale > 0) text += ", " + count_text(stale) + " of them too late";
  text += " in " + span_text(std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin_));
  if (dead_ > 0) text += "; " + counted(dead_, "dead letter");
  if (!error_ && !output_.is_table()) listing_.end();
  std::fprintf(stderr, "dqctl: %s\n", text.c_str());
  if (error_) std::rethrow_exception(error_);
}

std::size_t CommandRunner::report_unsettled(const std::string& last_error) {
  const std::lock_guard lock(mutex_);
  if (unsettled_ids_.empty()) return 0;
  std::string text = "Redis has not taken the " + counted(unsettled_ids_.size(), "verdict") +
                     " of finished commands; their messages are delivered again when their leases end:";
  std::size_t shown = 0;
  for (const std::string& id : unsettled_ids_) {
    if (shown++ == kUnsettledShown) break;
    text += ' ' + id_text(id);
  }
  if (unsettled_ids_.size() > kUnsettledShown) {
    text += " and " + std::to_string(unsettled_ids_.size() - kUnsettledShown) + " more";
  }
  if (!last_error.empty()) text += "; the last error: " + printable(last_error);
  std::fprintf(stderr, "dqctl: %s\n", text.c_str());
  return unsettled_ids_.size();
}

bool CommandRunner::left_messages() const {
  const std::lock_guard lock(mutex_);
  return dead_ > 0 || !put_off_ids_.empty();
}

}  // namespace dqctl
