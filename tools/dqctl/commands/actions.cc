// dqctl actions
#include <delayqueue/actions.h>

#include <algorithm>
#include <limits>

#include "commands.h"
#include "output/table.h"
#include "row_error.h"
#include "signals.h"

namespace dqctl {
namespace {

struct ActionsArgs {
  std::string queue{};
  std::uint64_t limit = 100;
};

struct ActionRow {
  std::string queue;
  delayqueue::Action action;
};

Object action_object(const ActionRow& row) {
  const delayqueue::Action& action = row.action;
  Object object;
  object.add("queue", row.queue).add("at", action.at);
  action.at ? object.add("who", action.who) : object.add_null("who");
  object.add("messages", action.messages);
  action.at ? object.add("outcome", action.outcome) : object.add_null("outcome");
  return object.add("what", action.what);
}

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

// The latest first; entries without a time are last.
void sort_by_time(std::vector<ActionRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const ActionRow& a, const ActionRow& b) {
    if (a.action.at && b.action.at) return *a.action.at > *b.action.at;
    return a.action.at.has_value() && !b.action.at.has_value();
  });
}

// The actions of all these queues.
std::vector<ActionRow> read_actions(Context& context, const std::vector<std::string>& queues, RowErrors& errors) {
  std::vector<ActionRow> rows;
  for (const std::string& queue : queues) {
    if (interrupted()) break;
    const auto error = read_row(context, [&] {
      for (delayqueue::Action& action : context.inspector(queue).actions()) rows.push_back({queue, std::move(action)});
    });
    errors.add(error);
    if (error) context.out().stderr_line(in_quotes(queue) + ": " + printable(error->text));
  }
  return rows;
}

Exit list_actions(Context& context, const ActionsArgs& args) {
  Output& out = context.out();
  RowErrors errors;
  std::vector<ActionRow> rows;
  if (args.queue.empty()) {
    rows = read_actions(context, context.inspector("actions").queues(), errors);
  } else {
    context.counts(args.queue);
    for (delayqueue::Action& action : context.inspector(args.queue).actions())
      rows.push_back({args.queue, std::move(action)});
  }
  sort_by_time(rows);
  if (rows.size() > args.limit) rows.resize(args.limit);
  Listing listing(out, {{"WHEN"}, {"QUEUE"}, {"WHO"}, {"MESSAGES", true}, {"OUTCOME"}, {"WHAT"}}, "actions");
  for (const ActionRow& row : rows) listing.add(action_cells(out, row), action_object(row));
  listing.end();
  if (rows.empty() && out.is_table()) {
    out.stderr_line("no action is recorded; dqctl --audit, or DQCTL_AUDIT=1, records what it changes");
  }
  if (interrupted()) return Exit::partly;
  return errors.code();
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
