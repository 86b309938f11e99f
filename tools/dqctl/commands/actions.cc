// dqctl actions
#include "commands.h"
#include "output/table.h"
#include "recorded_actions.h"
#include "signals.h"

namespace dqctl {
namespace {

struct ActionsArgs {
  std::string queue{};
  std::uint64_t limit = 100;
};

std::vector<Cell> action_cells(const Output& out, const ActionRow& row) {
  const delayqueue::Action& action = row.action;
  if (!action.at)
    return {{"?"}, {printable(row.queue), Colour::bold}, {"?"},
            {},    {"invalid", Colour::yellow},          {printable(action.what)}};
  return {{out.time(*action.at)},
          {printable(row.queue), Colour::bold},
          {printable(action.who)},
          {action.messages ? count_text(*action.messages) : "-"},
          {printable(action.outcome), action.outcome == "done" ? Colour::plain : Colour::yellow},
          {printable(action.what)}};
}

Exit list_actions(Context& context, const ActionsArgs& args) {
  Output& out = context.out();
  ActionReading reading;
  if (args.queue.empty()) {
    reading = read_actions(context, context.inspector("actions").queues());
    for (const std::string& line : reading.error_lines) out.stderr_line(line);
  } else {
    context.counts(args.queue);
    for (delayqueue::Action& action : context.inspector(args.queue).actions())
      reading.rows.push_back({args.queue, std::move(action)});
    sort_by_time(reading.rows);
  }
  std::vector<ActionRow>& rows = reading.rows;
  if (rows.size() > args.limit) rows.resize(args.limit);
  Listing listing(out, {{"WHEN"}, {"QUEUE"}, {"WHO"}, {"MESSAGES", true}, {"OUTCOME"}, {"WHAT"}}, "actions");
  for (const ActionRow& row : rows) listing.add(action_cells(out, row), action_object(row));
  listing.end();
  if (rows.empty() && out.is_table()) {
    out.stderr_line("no action is recorded; dqctl --audit, or DQCTL_AUDIT=1, records what it changes");
  }
  if (interrupted()) return Exit::partly;
  return reading.errors.code();
}

}  // namespace

void add_actions(Cli& cli, Context& context) {
  const auto args = std::make_shared<ActionsArgs>();
  cli.add("actions", "Shows what operators have changed, if they recorded it with --audit: the latest first",
          {"actions", "actions orders -o json", "redrive orders --all --yes --audit"})
      .argument("QUEUE", args->queue, "Its name; none: all queues there are", false)
      .number("--limit", args->limit, 1, 1'000'000, "Most actions to show (100); each queue keeps its latest 100")
      .run([&context, args] { return list_actions(context, *args); });
}

}  // namespace dqctl
