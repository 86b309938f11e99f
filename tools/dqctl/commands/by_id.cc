// dqctl cancel, reschedule, release, bury, extend
#include <memory>
#include <utility>

#include "acting.h"
#include "commands.h"
#include "id_outcomes.h"

namespace dqctl {
namespace {

using delayqueue::HeldMessages;
using delayqueue::Outcome;

struct ByIdArgs {
  std::string queue{};
  std::vector<std::string> ids{};
  std::optional<std::string> key{};
  std::string verb{};
  bool force = false;
  bool yes = false;
  std::string why = "buried with dqctl";
  std::optional<milliseconds> span{};
  std::optional<When> when{};
};

using Act = IdOutcomes (*)(Context&, const std::vector<std::string>&, const ByIdArgs&);

HeldMessages held_option(const ByIdArgs& args) { return args.force ? HeldMessages::force : HeldMessages::skip; }

IdOutcomes cancel(Context& context, const Ids& ids, const ByIdArgs& args) {
  return cancel_ids(context.admin(args.queue), ids);
}

IdOutcomes reschedule(Context& context, const Ids& ids, const ByIdArgs& args) {
  return reschedule_ids(context.admin(args.queue), ids, *args.when);
}

IdOutcomes release(Context& context, const Ids& ids, const ByIdArgs& args) {
  return release_ids(context.admin(args.queue), context.inspector(args.queue), ids, held_option(args));
}

IdOutcomes bury(Context& context, const std::vector<std::string>& ids, const ByIdArgs& args) {
  delayqueue::BuryOptions options;
  options.reason = args.why;
  options.held = held_option(args);
  return outcomes_of(context.admin(args.queue).bury(ids, options), [](Outcome outcome) {
    return outcome == Outcome::done      ? IdOutcome{"buried", Grade::good}
           : outcome == Outcome::already ? IdOutcome{"was dead already", Grade::already}
           : outcome == Outcome::held    ? IdOutcome{"held: a consumer has it; --force takes it away", Grade::refused}
                                         : IdOutcome{"unknown", Grade::unknown};
  });
}

IdOutcomes extend(Context& context, const std::vector<std::string>& ids, const ByIdArgs& args) {
  return outcomes_of(context.admin(args.queue).extend(ids, *args.span, held_option(args)), [](Outcome outcome) {
    return outcome == Outcome::done   ? IdOutcome{"extended", Grade::good}
           : outcome == Outcome::held ? IdOutcome{"held: its consumer renews it; --force takes it away", Grade::refused}
                                      : IdOutcome{"neither held nor backing off", Grade::unknown};
  });
}

Exit act_on(Context& context, const ByIdArgs& args, Act act) {
  IdReader ids(context.out(), ids_named(context, args.queue, args.ids, args.key));
  context.counts(args.queue);
  if (const auto code = dry_run(context.out(), args.verb, args.queue, ids, args.yes)) return *code;
  OutcomeReport report(context.out(), args.queue);
  const Exit code = report.run(ids, [&](const std::vector<std::string>& some) {
    const IdOutcomes outcomes = act(context, some, args);
    for (std::size_t i = 0; i < some.size(); ++i) report.add(some[i], outcomes[i].text, outcomes[i].grade);
  });
  context.note_change(args.queue, report.done(), report.unconfirmed());
  return code;
}

const std::string example_id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";

Command& add_by_id(Cli& cli, Context& context, const std::string& name, const std::string& what,
                   const std::vector<std::string>& examples, const std::shared_ptr<ByIdArgs>& args, Act act) {
  args->verb = name;
  Command& command = cli.add(name, what, examples);
  command.argument("QUEUE", args->queue, "The queue")
      .arguments("ID...", args->ids, "Ids; - reads them from stdin, one a line, plain or as ls -o ndjson", false)
      .text("--key", args->key, "KEY", "In place of ids: the message that has this unique key")
      .flag("--yes", args->yes, "Do it, though more than 20 ids come from stdin");
  add_partition(command, context);
  command.run([&context, args, act] { return act_on(context, *args, act); });
  return command;
}

}  // namespace

void add_cancel(Cli& cli, Context& context) {
  add_by_id(cli, context, "cancel", "Cancels messages, in any state",
            {"cancel orders " + example_id, "ls orders --state dead --limit 0 -o ndjson | dqctl cancel orders - --yes"},
            std::make_shared<ByIdArgs>(), cancel);
}

void add_reschedule(Cli& cli, Context& context) {
  const auto args = std::make_shared<ByIdArgs>();
  const auto take = [args](const char* name) {
    return [args, name](const std::string& value) {
      if (args->when) throw Usage("--in and --at: expected one of them");
      args->when =
          std::string(name) == "--at" ? parse_when(name, value) : When{std::nullopt, parse_duration(name, value)};
    };
  };
  add_by_id(cli, context, "reschedule", "Gives messages that are neither held nor dead another due time",
            {"reschedule orders " + example_id + " --in 30m", "reschedule orders - --at 2026-11-22T08:00:00Z < ids"},
            args, reschedule)
      .custom("--in", take("--in"), "D", "Due this long from now, by Redis' clock")
      .custom("--at", take("--at"), "TIME", "Due then")
      .run([&context, args] {
        if (!args->when) throw Usage("--in or --at: missing; expected when, such as --in 30m");
        return act_on(context, *args, reschedule);
      });
}

void add_release(Cli& cli, Context& context) {
  const auto args = std::make_shared<ByIdArgs>();
  add_by_id(cli, context, "release", "Delivers messages now that are pending or wait out a backoff",
            {"release orders " + example_id, "release orders " + example_id + " --force"}, args, release)
      .flag("--force", args->force,
            "Also messages that a consumer holds: if it lives, they are handled twice, and its verdict is stale");
}

void add_bury(Cli& cli, Context& context) {
  const auto args = std::make_shared<ByIdArgs>();
  add_by_id(cli, context, "bury", "Makes messages dead letters: they are kept until redriven or purged",
            {"bury orders " + example_id + " --why 'customer left'"}, args, bury)
      .text("--why", args->why, "TEXT", "The reason to keep (buried with dqctl); '' leaves the last failure's")
      .flag("--force", args->force,
            "Also messages that a consumer holds: its handler runs on, but loses the lease. If it still succeeds, the "
            "message leaves the dead");
}

void add_extend(Cli& cli, Context& context) {
  const auto args = std::make_shared<ByIdArgs>();
  add_by_id(cli, context, "extend", "Extends the backoff of messages, or the lease of a worker of the Go library",
            {"extend orders " + example_id + " --by 10m"}, args, extend)
      .duration("--by", args->span, "By how much: from the end, or from now if that is past")
      .required()
      .flag(
          "--force", args->force,
          "Also messages that a consumer of this library holds. A living consumer LOSES its lease by this: its verdict "
          "is stale, the message is delivered again. Only for messages that a dead consumer left");
}

}  // namespace dqctl
