// dqctl pause, resume, drain
#include <chrono>
#include <memory>

#include "commands.h"
#include "pause_text.h"
#include "signals.h"
#include "stuck.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::Inspector;
using delayqueue::State;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kDrainReport{5};  // between two reports of how far drain is

struct PauseArgs {
  std::string queue{};
  std::optional<milliseconds> span{};
  std::string why{};
  bool replace = false;
};

// was: after a resume, whether the queue was paused before.
Exit show_pause(Context& context, const std::string& queue, std::optional<bool> was = {}) {
  Output& out = context.out();
  const auto pause = context.inspector(queue).paused();
  if (out.is_table()) {
    std::string line = in_quotes(queue) + (pause  ? " is paused"
                                           : !was ? " is not paused"
                                           : *was ? " is resumed"
                                                  : " was not paused");
    if (pause) line += pause->until ? " until " + out.time(*pause->until) : " until dqctl resume";
    if (pause && !pause->reason.empty()) line += ": " + printable(pause->reason);
    out.line(line);
    return Exit::done;
  }
  Object object;
  object.add("queue", queue).add("paused", pause.has_value());
  object.add("until", pause ? pause->until : std::nullopt)
      .add("why", pause ? std::optional(pause->reason) : std::nullopt);
  object.add("by", pause && !pause->who.empty() ? std::optional(pause->who) : std::nullopt);
  object.add("since", pause ? pause->since : std::nullopt);
  out.object(object);
  return Exit::done;
}

Exit pause(Context& context, const PauseArgs& args) {
  const Time now = context.counts(args.queue).now;
  const auto old = context.inspector(args.queue).paused();
  if (old && !args.replace) {
    const std::string by = pauser_text(*old, now);
    throw Failure(Exit::failed, in_quotes(args.queue) + " is paused already, " +
                                    (old->until ? "until " + context.out().time(*old->until) : "without an end") +
                                    (old->reason.empty() ? "" : ": " + printable(old->reason)) +
                                    "; --replace sets this pause instead" +
                                    (by.empty() ? "" : "; it was" + by.substr(1)));
  }
  delayqueue::PauseOptions options;
  options.duration = args.span;
  options.reason = args.why;
  options.who = operator_name();
  context.admin(args.queue).pause(options);
  context.note_change(args.queue, std::nullopt);
  context.out().stderr_line("consumers finish what is in flight; workers of the Go library do not pause");
  return show_pause(context, args.queue);
}

Exit resume(Context& context, const PauseArgs& args) {
  context.counts(args.queue);
  const bool was = context.inspector(args.queue).paused().has_value();
  context.admin(args.queue).resume();
  if (was) context.note_change(args.queue, std::nullopt);
  return show_pause(context, args.queue, was);
}

struct Remaining {
  std::uint64_t due, ready, unack, retry;
  bool paused;
  Counts counts;

  std::uint64_t all() const { return due + ready + unack + retry; }
};

// Lists may hold ids of messages that are gone. If no consumer removes these ids, only a read of the list shows that
// it has no messages.
std::uint64_t count_unless_empty(Inspector& inspector, State state, std::uint64_t count) {
  if (count == 0) return 0;
  delayqueue::ListOptions one;
  one.limit = 1;
  one.payload = 0;
  return inspector.list(state, one).empty() ? 0 : count;
}

Remaining read_remaining(Inspector& inspector) {
  const Counts counts = inspector.counts();
  return {counts.due,    count_unless_empty(inspector, State::ready, counts.ready),
          counts.unack,  count_unless_empty(inspector, State::retry, counts.retry),
          counts.paused, counts};
}

Exit drain(Context& context, const PauseArgs& args) {
  Output& out = context.out();
  context.counts(args.queue);
  Inspector& inspector = context.inspector(args.queue);
  const auto begin = Clock::now();
  const auto spent = [&] { return std::chrono::duration_cast<milliseconds>(Clock::now() - begin); };
  Remaining left = read_remaining(inspector);
  if (left.all() > 0 && left.paused) out.stderr_line("the queue is paused: nothing is taken until dqctl resume");
  FindingWatch watch;
  auto next = begin + kDrainReport;
  while (left.all() > 0 && !(args.span && spent() >= *args.span)) {
    watch.update(args.queue, {left.counts});
    if (Clock::now() >= next) {
      next += kDrainReport;
      const auto earlier = watch.a_minute_ago();
      const auto pace = earlier ? pace_between(*earlier, left.counts) : std::nullopt;
      out.stderr_line(counted(left.all(), "message", "is", "are") + " left" + (pace ? "; " + pace->text() : ""));
    }
    if (!sleep_for(milliseconds(200))) break;
    left = read_remaining(inspector);
  }
  const bool drained = left.all() == 0;
  if (out.is_table()) {
    out.line(drained ? in_quotes(args.queue) + " is drained"
                     : in_quotes(args.queue) + " is not drained: " + count_text(left.due + left.ready) + " ready, " +
                           count_text(left.unack) + " unack, " + count_text(left.retry) + " retry");
  } else {
    Object object;
    object.add("queue", args.queue).add("drained", drained).add("ms", spent().count()).add("due", left.due);
    object.add("ready", left.ready).add("unack", left.unack).add("retry", left.retry).add("paused", left.paused);
    out.object(object);
  }
  if (drained) return Exit::done;
  return interrupted() ? Exit::interrupted : Exit::threshold;
}

}  // namespace

void add_pause(Cli& cli, Context& context) {
  const auto args = std::make_shared<PauseArgs>();
  cli.add("pause", "Consumers take nothing any more, until resume",
          {"pause orders --for 10m --why 'database maintenance'"})
      .argument("QUEUE", args->queue, "The queue")
      .custom(
          "--for",
          [args](const std::string& value) {
            args->span = parse_duration("--for", value);
            if (args->span->count() == 0) throw Usage("--for: '" + value + "'; expected at least 1ms");
          },
          "D", "Only for this long")
      .text("--why", args->why, "TEXT", "The reason, shown by stats, stuck and pause")
      .flag("--replace", args->replace, "Replace the pause that is set already")
      .run([&context, args] { return pause(context, *args); });
}

void add_resume(Cli& cli, Context& context) {
  const auto args = std::make_shared<PauseArgs>();
  cli.add("resume", "Ends a pause", {"resume orders"})
      .argument("QUEUE", args->queue, "The queue")
      .run([&context, args] { return resume(context, *args); });
}

void add_drain(Cli& cli, Context& context) {
  const auto args = std::make_shared<PauseArgs>();
  Command& command = cli.add(
      "drain", "Waits until nothing is due, ready, in flight or to be tried again; exit code 5 if it takes too long",
      {"drain orders --timeout 5m && echo 'only what is pending is left'"});
  command.argument("QUEUE", args->queue, "The queue").duration("--timeout", args->span, "Wait no longer");
  add_partition(command, context);
  command.run([&context, args] { return drain(context, *args); });
}

}  // namespace dqctl
