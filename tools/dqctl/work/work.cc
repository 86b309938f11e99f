#include "work/work.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "exit.h"

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

// Ours, without what opens the queue: a command need not hold the password of the server.
std::vector<std::string> environment_for(const std::string& queue, const Message& message) {
  std::vector<std::string> out = {"DQ_ID=" + message.id, "DQ_ATTEMPT=" + std::to_string(message.attempt),
                                  "DQ_QUEUE=" + queue};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    bool passed = true;
    for (const char* name : {"DQ_ID=", "DQ_ATTEMPT=", "DQ_QUEUE=", "DELAYQUEUE_URI=", "DELAYQUEUE_PASSWORD=",
                             "DELAYQUEUE_SENTINEL_PASSWORD="}) {
      passed = passed && std::strncmp(*entry, name, std::strlen(name)) != 0;
    }
    if (passed) out.emplace_back(*entry);
  }
  return out;
}

std::string how_it_ended(const Ending& ending, milliseconds timeout) {
  switch (ending.cut) {
    case Cut::timeout:
      return "timed out after " + span_text(timeout);
    case Cut::lost:
      return "its lease was lost";
    case Cut::stop:
      return "stopped";
    case Cut::none:
      break;
  }
  return ending.signal != 0 ? "killed by signal " + std::to_string(ending.signal)
                            : "exit code " + std::to_string(ending.exit);
}

// What it said itself; how it ended, too, where that is not the command's own doing.
std::string reason_of(const Ending& ending, milliseconds timeout) {
  const std::string said = printable(ending.last_error);
  if (said.empty() || ending.cut == Cut::none) return said.empty() ? how_it_ended(ending, timeout) : said;
  return how_it_ended(ending, timeout) + ": " + said;
}

Object object_of(const Message& message, const Ending& ending, const Outcome& outcome) {
  static constexpr const char* kKinds[] = {"ack", "nack", "reject", "snooze"};
  static constexpr const char* kCuts[] = {nullptr, "timeout", "lost", "stop"};
  const char* cut = kCuts[static_cast<std::size_t>(ending.cut)];
  Object object;
  object.add("id", message.id).add("attempt", message.attempt);
  object.add("exit", ending.exit >= 0 ? std::optional(ending.exit) : std::nullopt);
  object.add("signal", ending.signal != 0 ? std::optional(ending.signal) : std::nullopt);
  object.add("ended", cut != nullptr ? std::optional<std::string>(cut) : std::nullopt);
  object.add("ms", ending.took.count());
  object.add("verdict", kKinds[static_cast<std::size_t>(outcome.verdict.kind)]);
  return object.add("reason", outcome.verdict.reason);
}

}  // namespace

Outcome outcome_of(const Ending& ending, milliseconds timeout, milliseconds later) {
  // A command that is told to end may well end with 0; done it is not.
  if (ending.cut == Cut::stop) return {"put back", delayqueue::snooze(milliseconds(0))};
  const std::string reason = reason_of(ending, timeout);
  if (ending.cut != Cut::none) return {"nacked", delayqueue::nack(reason)};
  if (ending.exit == 0) return {"acked", delayqueue::ack()};
  if (ending.exit == kDataError) return {"rejected", delayqueue::reject(reason)};
  if (ending.exit != kTemporaryFailure) return {"nacked", delayqueue::nack(reason)};
  Verdict verdict = delayqueue::snooze(later);
  verdict.reason = reason;
  return {"put off", verdict};
}

Work::Work(const WorkOptions& options, Output& output, const Keeper& keeper)
    : options_(options),
      output_(output),
      keeper_(keeper),
      timeout_(options.timeout.value_or(kDefaultTimeout)),
      later_(options.later.value_or(kDefaultLater)),
      listing_(output, {}, "messages", Object().add("queue", options.queue)) {}

Verdict Work::handle(const Message& message) {
  if (ends_ || should_stop_) return delayqueue::snooze(milliseconds(0));
  ++running_;
  Outcome outcome{"put off", delayqueue::snooze(kShortly)};
  try {
    const Ending ending = run(message);
    if (!is_no_command(ending)) {
      outcome = outcome_of(ending, timeout_, later_);
      tell(message, ending, outcome);
    }
  } catch (const Failure& failure) {  // no process, no pipe: that is not the message's fault
    say(failure.what());
  }
  ++finished_;
  --running_;
  return outcome.verdict;
}

Ending Work::run(const Message& message) {
  Task task;
  task.command = options_.command;
  task.environment = environment_for(options_.queue, message);
  task.input = message.payload;
  task.timeout = timeout_;
  task.cut = [&] { return ends_ ? Cut::stop : message.lost() ? Cut::lost : Cut::none; };
  task.out = [this](std::string_view lines) { pass(lines, !output_.is_table()); };
  task.err = [this](std::string_view lines) { pass(lines, true); };
  return run_command(task, keeper_);
}

// A mistyped command must not bury the whole queue. Once one was found the code is the command's own.
bool Work::is_no_command(const Ending& ending) {
  const bool missing = ending.cut == Cut::none && (ending.exit == kNotFound || ending.exit == kNotExecutable);
  if (!missing) can_run_ = true;
  if (can_run_) return false;
  stop_with(std::make_exception_ptr(Failure(Exit::failed, "--exec: the command cannot be run (exit code " +
                                                              std::to_string(ending.exit) +
                                                              "); its messages were put back, no retry was spent")));
  return true;
}

void Work::pass(std::string_view lines, bool errors) {
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
    why_ = std::current_exception();
    should_stop_ = true;
  }
}

void Work::tell(const Message& message, const Ending& ending, const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  waiting_.erase(message.id);
  switch (outcome.verdict.kind) {
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
      ++put_off_;
      waiting_.insert(message.id);
      break;
  }
  try {
    if (!output_.is_table() && !should_stop_) {
      listing_.add({}, object_of(message, ending, outcome));
      listing_.flush();
    }
  } catch (...) {
    why_ = std::current_exception();
    should_stop_ = true;
  }
  if (!output_.is_table() || outcome.verdict.kind == Verdict::Kind::ack) return;
  const std::string how = how_it_ended(ending, timeout_);
  std::fprintf(stderr, "dqctl: %s %s: %s\n", id_text(message.id).c_str(), outcome.word, how.c_str());
}

void Work::stop_with(std::exception_ptr why) {
  const std::lock_guard lock(mutex_);
  if (!why_) why_ = std::move(why);
  should_stop_ = true;
}

void Work::say(const std::string& text) {
  const std::lock_guard lock(mutex_);
  std::fprintf(stderr, "dqctl: %s\n", printable(text).c_str());
}

void Work::log(Severity severity, const std::string& line) {
  if (severity != Severity::debug) say(line);
}

void Work::saw(const Event& event) {
  if (event.kind != EventKind::gave_up) return;
  const std::lock_guard lock(mutex_);
  dead_ += event.count;
}

void Work::finish(std::uint64_t stale) {
  const std::lock_guard lock(mutex_);
  std::string text = count_text(acked_) + " acked, " + count_text(nacked_) + " nacked, " + count_text(rejected_) +
                     " rejected, " + count_text(put_off_) + " put off";
  if (stale > 0) text += ", " + count_text(stale) + " of them too late";
  text += " in " + span_text(std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin_));
  if (dead_ > 0) text += "; " + counted(dead_, "dead letter");
  if (!why_ && !output_.is_table()) listing_.end();
  std::fprintf(stderr, "dqctl: %s\n", text.c_str());
  if (why_) std::rethrow_exception(why_);
}

bool Work::left_some() const {
  const std::lock_guard lock(mutex_);
  return dead_ > 0 || !waiting_.empty();
}

}  // namespace dqctl
