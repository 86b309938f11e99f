// dqctl work
#include <delayqueue/metrics.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "commands.h"
#include "signals.h"
#include "work/init_process.h"
#include "work/work.h"

namespace dqctl {
namespace {

using Clock = std::chrono::steady_clock;
using delayqueue::Consumer;
using delayqueue::ConsumerOptions;
using delayqueue::Counts;

constexpr milliseconds kForever{100LL * 365 * 24 * 3'600'000};
constexpr milliseconds kPollPause{50};
constexpr milliseconds kPatience{5000};
constexpr milliseconds kDefaultStopTimeout{30'000};

// The first signal stops the worker, the second terminates the commands, the third ends dqctl by its default action.
std::atomic<int> signals_came{0};

void count_signal(int number) {
  if (++signals_came < 3) return;
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void count_signals() {
  signals_came = interrupted() ? 1 : 0;
  handle_signals(count_signal, 0);
}

void pause_a_step() {
  const timespec step{0, std::chrono::nanoseconds(kPollPause).count()};
  ::nanosleep(&step, nullptr);  // ends early on a signal
}

// Checks whether the queue is empty, for --until-empty. Only while no command runs, and less often while nothing
// changes.
class EmptyDetector {
 public:
  EmptyDetector(Context& context, const WorkOptions& options, CommandRunner& runner)
      : inspector_(context.inspector(options.queue)), queue_(options.queue), runner_(runner) {}

  bool reached();

 private:
  void explain(const Counts& counts);

  delayqueue::Inspector& inspector_;
  const std::string& queue_;
  CommandRunner& runner_;
  milliseconds pause_ = kPollPause;
  Clock::time_point next_ = Clock::now();
  Clock::time_point since_ = Clock::now();
  std::uint64_t finished_ = 0;
  bool explained_ = false;
};

bool EmptyDetector::reached() {
  const auto now = Clock::now();
  if (runner_.finished() != finished_ || runner_.running() > 0) {
    finished_ = runner_.finished();
    pause_ = kPollPause;
    since_ = now;
    next_ = std::min(next_, now + pause_);
  }
  if (now < next_ || runner_.running() > 0) return false;
  next_ = now + pause_;
  pause_ = std::min(2 * pause_, milliseconds(1000));
  try {
    const Counts counts = inspector_.counts();
    if (counts.due + counts.ready + counts.unack + counts.retry == 0) return true;
    if (now - since_ >= std::chrono::seconds(2)) explain(counts);
  } catch (const delayqueue::Error&) {  // the consumer reports it
  }
  return false;
}

void EmptyDetector::explain(const Counts& counts) {
  if (std::exchange(explained_, true)) return;
  if (counts.paused) {
    runner_.stderr_line("the queue is paused; waiting for: " + command_text("resume", {queue_}));
  } else if (counts.unack > 0) {
    runner_.stderr_line("waiting for " + counted(counts.unack, "message") + " in flight elsewhere or in a backoff");
  } else {
    explained_ = false;  // about to be delivered to this worker
  }
}

ConsumerOptions options_for(const WorkOptions& given, CommandRunner& runner) {
  ConsumerOptions options;
  options.concurrency = given.concurrency;
  if (given.lease) options.lease = *given.lease;
  // Longer than --timeout, which must end the command first.
  const milliseconds timeout = given.timeout.value_or(options.processing_timeout);
  options.processing_timeout = timeout.count() == 0 ? kForever : std::min(kForever, timeout + 4 * kGrace);
  options.dead_retention = given.dead_retention.value_or(kForever);
  options.logger = [&runner](const delayqueue::LogEntry& entry) { runner.log(entry); };
  options.on_event = [&runner](const delayqueue::Event& event) { runner.on_event(event); };
  return options;
}

enum class Stopped { by_itself, commands_terminated, unsettled };

// Stops the consumer. A second signal or the end of the stop timeout terminates the commands. Unsettled: Redis has not
// taken the last verdicts after that.
Stopped stop(Consumer& consumer, CommandRunner& runner, milliseconds timeout) {
  const auto begin = Clock::now();
  const auto stopped = std::make_shared<std::atomic<bool>>(false);
  std::thread stopper([&consumer, stopped] { *stopped = consumer.stop(kForever); });
  std::optional<Clock::time_point> idle_since, ended_at;
  bool reported = false, terminated = false;
  while (!*stopped) {
    pause_a_step();
    const auto now = Clock::now();
    const bool late = timeout.count() > 0 && now - begin >= timeout;
    if ((signals_came >= 2 || late) && !ended_at) {
      if (late && runner.running() > 0) {
        runner.stderr_line("--stop-timeout: " + span_text(timeout) + " are over; the running commands are terminated");
      }
      terminated = runner.running() > 0 || signals_came >= 2;
      runner.terminate_commands();
      ended_at = late && runner.running() == 0 ? begin : now;
    }
    if (runner.running() > 0) continue;
    if (!idle_since) idle_since = now;
    if (now - *idle_since >= kPatience && !std::exchange(reported, true)) {
      runner.stderr_line(
          "waiting for Redis to take the last verdicts; another signal or --stop-timeout ends this, and their messages "
          "are delivered again");
    }
    if (ended_at && now - std::max(*idle_since, *ended_at) >= kPatience / 2) {
      stopper.detach();
      return Stopped::unsettled;
    }
  }
  stopper.join();
  return terminated ? Stopped::commands_terminated : Stopped::by_itself;
}

// Exits without destroying the consumer, which would wait for Redis.
[[noreturn]] void leave(const Consumer& consumer, CommandRunner& runner) {
  Exit code = Exit::interrupted;
  try {
    const auto stats = consumer.metrics().stats;
    if (runner.report_unsettled(stats.last_error) > 0) code = Exit::unsettled;
    runner.finish(stats.stale);
  } catch (const std::exception& error) {
    runner.stderr_line(error.what());
  } catch (const ClosedOutput&) {
  }
  std::_Exit(static_cast<int>(code));
}

Exit work_on(Context& context, const WorkOptions& options) {
  if (options.command.empty()) throw Usage("--exec: ''; expected a command of the shell");
  if (!context.out().is_table()) context.out().require_open();
  leave_process_1();
  count_signals();
  const ProcessReaper reaper;
  if (options.until_empty) {
    context.counts(options.queue);
  } else {
    // An unreachable server is an error now; later the consumer waits for it.
    static_cast<void>(context.inspector(options.queue).counts());
  }
  CommandRunner runner(options, context.out(), reaper);
  Consumer consumer(
      context.client(), options.queue, [&runner](const delayqueue::Message& message) { return runner.handle(message); },
      options_for(options, runner));
  consumer.start();
  EmptyDetector detector(context, options, runner);
  bool empty = false;
  while (signals_came == 0 && !runner.should_stop() && !empty) {
    pause_a_step();
    empty = options.until_empty && detector.reached();
  }
  const Stopped stopped = stop(consumer, runner, options.stop_timeout.value_or(kDefaultStopTimeout));
  if (stopped == Stopped::unsettled) leave(consumer, runner);
  runner.finish(consumer.metrics().stats.stale);
  const bool cut_short =
      signals_came >= 2 || stopped == Stopped::commands_terminated || (options.until_empty && !empty);
  if (cut_short) return Exit::interrupted;
  return options.until_empty && runner.left_messages() ? Exit::partly : Exit::done;
}

}  // namespace

void add_work(Cli& cli, Context& context) {
  auto options = std::make_shared<WorkOptions>();
  cli.add("work", "Runs a command of the shell for each message",
          {"work orders --exec './handle.sh'", "work mails --exec 'sendmail -t' --concurrency 4 --until-empty"})
      .argument("QUEUE", options->queue, "The queue")
      .text("--exec", options->command, "CMD",
            "Run by /bin/sh -c; payload on stdin; DQ_ID, DQ_ATTEMPT, DQ_QUEUE and\n"
            "DQ_HEADERS (JSON) in the environment. Its exit code: 0 done; 75 later again,\n"
            "spends no retry; 65 rejected, a dead letter; else (or killed by a signal)\n"
            "nacked, the last line on stderr is the reason")
      .required()
      .number("--concurrency", options->concurrency, 1, 1000, "Commands at a time (1)")
      .flag("--until-empty", options->until_empty,
            "Ends when nothing is due, held or waiting out a backoff; leaves what is due\n"
            "later. Exit code 4: dead letters were made, or messages put off")
      .duration("--lease", options->lease, "How long until messages of a killed dqctl are delivered again (30s)")
      .duration("--timeout", options->timeout, "Of a command (30m; 0s: none): SIGTERM, SIGKILL 5s later, and a nack")
      .duration("--later", options->later, "How long exit code 75 puts a message off (10s)")
      .duration("--stop-timeout", options->stop_timeout,
                "After SIGTERM: for running commands and their verdicts (30s; 0s: none);\n"
                "then it terminates the commands. Exit code 6: verdicts were not taken by Redis")
      .duration("--dead-retention", options->dead_retention, "Deletes older dead letters (none)")
      .silent()
      .run([&context, options] { return work_on(context, *options); });
}

}  // namespace dqctl
