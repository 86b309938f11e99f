// dqctl limit
#include <memory>

#include "commands.h"
#include "limits_text.h"
#include "parse.h"

namespace dqctl {
namespace {

using delayqueue::QueueLimits;

struct LimitArgs {
  std::string queue{};
  std::optional<delayqueue::Rate> rate{};
  std::optional<std::uint64_t> burst{}, running{}, length{};
  bool none = false;
};

// "100/s", "10/m", "5/h", "3/2s"
delayqueue::Rate rate_in(const std::string& value) {
  const std::size_t slash = value.find('/');
  if (slash == std::string::npos) throw Usage("--rate: '" + value + "'; expected such as 100/s, 10/m or 5/30s");
  delayqueue::Rate rate;
  rate.messages = parse_number("--rate", value.substr(0, slash), 1, 86'400'000'000);
  std::string per = value.substr(slash + 1);
  if (!per.empty() && (per.front() < '0' || per.front() > '9')) per.insert(per.begin(), '1');
  rate.per = parse_duration("--rate", per);
  return rate;
}

Exit show(Context& context, const std::string& queue) {
  const delayqueue::Counts counts = context.counts(queue);
  const QueueLimits limits = context.inspector(queue).limits();
  if (context.out().is_table()) {
    const std::string text = limits_with_burst(counts);
    context.out().line(in_quotes(queue) + (text.empty() ? " has no limits" : ": " + text));
    return Exit::done;
  }
  Object object;
  object.add("queue", queue);
  add_limits(object, limits);
  object.add("in_flight", counts.in_flight).add("next_delivery_us", counts.next_delivery.count());
  context.out().object(object);
  return Exit::done;
}

Exit limit(Context& context, const LimitArgs& args) {
  const bool sets = args.rate || args.burst || args.running || args.length;
  if (sets && args.none) throw Usage("--none: removes all limits; expected without the options that set some");
  if (!sets && !args.none) return show(context, args.queue);
  context.counts(args.queue);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const QueueLimits old = context.inspector(args.queue).limits();
    QueueLimits wanted;
    wanted.generation = old.generation;
    if (!args.none) {
      wanted.rate = args.rate ? args.rate : old.rate;
      wanted.running = args.running ? args.running : old.running;
      wanted.length = args.length ? args.length : old.length;
      if (args.burst && !wanted.rate)
        throw Usage("--burst: of a rate, which the queue does not have; expected --rate, too");
      if (args.burst) wanted.rate->burst = *args.burst;
    }
    if (!context.admin(args.queue).set_limits(wanted)) continue;  // another operator has set others meanwhile
    context.note_change(args.queue, std::nullopt);
    if (!args.none) {
      context.out().stderr_line("workers of the Go library do not keep limits");
      for (const std::string& one : consumers_without_limits(context.inspector(args.queue))) {
        context.out().stderr_line(one + ", does not keep limits: update it");
      }
    }
    return show(context, args.queue);
  }
  throw Failure(Exit::failed, "another operator goes on changing the limits of " + in_quotes(args.queue) +
                                  "; look at them with dqctl limit, and try again");
}

}  // namespace

void add_limit(Cli& cli, Context& context) {
  const auto args = std::make_shared<LimitArgs>();
  cli.add("limit",
          "Limits how fast and how many at a time messages are delivered, and how many wait; without options it shows "
          "the limits",
          {"limit orders --rate 100/s --burst 20", "limit orders --running 50", "limit orders --length 1000000",
           "limit orders --none", "limit orders"})
      .argument("QUEUE", args->queue, "The queue")
      .custom(
          "--rate", [args](const std::string& value) { args->rate = rate_in(value); }, "N/TIME",
          "At most so many deliveries in this time, such as 100/s, 10/m or 5/30s")
      .custom(
          "--burst", [args](const std::string& value) { args->burst = parse_number("--burst", value, 1, 1'000'000); },
          "N", "At most so many at once; without it, as many as in 100 ms")
      .custom(
          "--running",
          [args](const std::string& value) { args->running = parse_number("--running", value, 1, 1'000'000'000); }, "N",
          "At most so many in flight, with all consumers together")
      .custom(
          "--length",
          [args](const std::string& value) { args->length = parse_number("--length", value, 1, 1'000'000'000); }, "N",
          "Refuse sends beyond so many messages that are not dead letters")
      .flag("--none", args->none, "Remove all limits")
      .run([&context, args] { return limit(context, *args); });
}

}  // namespace dqctl
