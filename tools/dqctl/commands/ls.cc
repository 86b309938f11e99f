// dqctl ls
#include <algorithm>
#include <limits>

#include "commands.h"
#include "filter.h"
#include "output/table.h"
#include "pages.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::MessageInfo;
using delayqueue::State;

constexpr std::size_t kPayloadStart = 64;
constexpr std::size_t kReasonColumn = 40;

struct LsArgs {
  std::string queue{};
  std::optional<State> state{};
  Filter filter{};
  std::uint64_t limit = 20;
  std::string cursor{};
};

bool has_reasons(State state) { return state == State::unack || state == State::retry || state == State::dead; }

std::vector<Column> columns_of(State state) {
  const char* time = state == State::pending ? "DUE"
                     : state == State::unack ? "LEASE ENDS"
                     : state == State::dead  ? "DEAD SINCE"
                                             : "SENT";
  std::vector<Column> columns = {{"ID"}, {time}, {"TRIED", true}};
  if (state != State::dead) columns.push_back({"RETRIES LEFT", true});
  columns.push_back({"SIZE", true});
  if (has_reasons(state)) columns.push_back({"REASON"});
  columns.push_back({"PAYLOAD"});
  return columns;
}

std::string time_text(const MessageInfo& message, Time now) {
  const bool backoff = message.state == State::unack && !message.held;
  return when_text(message, now) + (backoff ? " (backoff)" : "");
}

std::vector<Cell> row_of(const MessageInfo& message, Time now) {
  const bool late = message.at && *message.at < now && message.state != State::dead;
  std::vector<Cell> row = {{id_text(message.id)}, {time_text(message, now), late ? Colour::yellow : Colour::plain}};
  row.push_back({message.deliveries == 0 ? "-" : std::to_string(message.deliveries)});
  if (message.state != State::dead) row.push_back({message.retries ? std::to_string(*message.retries) : "none"});
  row.push_back({message.size ? size_text(*message.size) : "missing", message.size ? Colour::plain : Colour::red});
  if (has_reasons(message.state)) row.push_back({cut(printable(message.reason), kReasonColumn)});
  row.push_back({message.size ? payload_text(message, kPayloadStart) : ""});
  return row;
}

Exit list(Context& context, const LsArgs& args) {
  Output& out = context.out();
  const delayqueue::Counts counts = context.counts(args.queue);
  const State state = *args.state;
  const std::uint64_t limit = args.limit == 0 ? std::numeric_limits<std::uint64_t>::max() : args.limit;
  const bool walks = args.filter.any();
  Walk walk(context.inspector(args.queue), state, args.filter, counts.now, kPayloadStart,
            walks ? 1000 : static_cast<std::size_t>(std::min<std::uint64_t>(limit, 1000)), args.cursor);
  Object head;
  head.add("queue", args.queue).add("state", delayqueue::to_string(state));
  Listing listing(out, columns_of(state), "messages", head);
  std::uint64_t shown = 0;
  {
    Progress progress(out, "examined");
    for (; shown < limit; ++shown) {
      const std::optional<MessageInfo> message = walk.next();
      if (!message) break;
      listing.add(row_of(*message, counts.now), message_object(*message, "payload_start"));
      progress.update(walk.examined(), count_of(counts, state));
    }
  }
  const std::string next = walk.cursor();
  Object tail;
  next.empty() ? tail.add_null("next") : tail.add("next", next);
  listing.end(tail);
  if (!next.empty()) out.stderr_line("more: --cursor " + next);
  if (shown == 0 && out.is_table()) {
    out.stderr_line(in_quotes(args.queue) + " has no message in " + delayqueue::to_string(state) +
                    (walks ? " that matches" : ""));
    if (const std::string advice = args.filter.advice(); !advice.empty()) out.stderr_line(advice);
  }
  if (!interrupted()) return Exit::done;
  return shown == 0 ? Exit::interrupted : Exit::partly;
}

}  // namespace

void add_ls(Cli& cli, Context& context) {
  const auto args = std::make_shared<LsArgs>();
  Command& command = cli.add("ls", "Lists messages of one state, the oldest first",
                             {"ls orders --state dead", "ls orders --state dead --reason '*timeout*' --older-than 1h",
                              "ls orders --state pending --match '*\"user\":42,*' -o ndjson"});
  command.argument("QUEUE", args->queue, "Its name")
      .state("--state", args->state, "pending, ready, unack, retry or dead")
      .required();
  add_filter(command, args->filter);
  add_partition(command, context);
  command
      .number("--limit", args->limit, 0, std::numeric_limits<std::uint64_t>::max(),
              "Most messages to show; 0: all of them (20)")
      .text("--cursor", args->cursor, "CURSOR", "Continue where an earlier list of this state ended")
      .run([&context, args] { return list(context, *args); });
}

}  // namespace dqctl
