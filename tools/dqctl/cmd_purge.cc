// dqctl purge
#include <algorithm>
#include <memory>

#include "acting.h"
#include "backup.h"
#include "commands.h"
#include "pages.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::Inspector;
using delayqueue::MessageInfo;
using delayqueue::State;

struct Args {
  std::string queue{};
  std::optional<State> state{};
  bool all = false;
  Filter filter{};
  std::optional<std::string> backup{};
  bool append = false;
  bool yes = false;
};

bool is_list(State state) { return state == State::ready || state == State::retry; }

// All alike need not be looked at.
bool is_plain(const Args& args) {
  const Filter& filter = args.filter;
  return !args.backup && !filter.match && !filter.reason && !(is_list(*args.state) && filter.older_than);
}

Steps purge_all(Output& out, Inspector& inspector, const Args& args, std::uint64_t total) {
  constexpr std::uint64_t kStep = 2000;
  std::uint64_t left = total;
  bool more = true;
  return in_steps(out, "purged", total, [&]() -> std::optional<std::uint64_t> {
    if (left == 0 || !more) return std::nullopt;
    delayqueue::PurgeOptions options;
    options.older_than = args.filter.older_than.value_or(milliseconds(0));
    options.limit = std::min(left, kStep);
    const std::uint64_t purged = inspector.purge(*args.state, options);
    more = is_list(*args.state) || purged == options.limit;  // ids left behind in a list are passed, and not counted
    left -= options.limit;
    return purged;
  });
}

Steps purge_some(Output& out, Inspector& inspector, const Args& args, const Counts& counts, Backup* backup,
                 std::uint64_t& kept, std::uint64_t& foreign) {
  Pages pages(inspector, *args.state, args.filter, counts,
              backup != nullptr ? Pages::Payload::whole : Pages::Payload::start);
  std::vector<MessageInfo> some;
  return in_steps(out, "purged", 0, [&]() -> std::optional<std::uint64_t> {
    const bool more = pages.next(some);
    foreign = pages.foreign();
    if (!more) return std::nullopt;
    if (some.empty()) return 0;
    if (backup != nullptr) {
      // A message without body cannot be brought back, nor delivered: it is no loss.
      std::vector<MessageInfo> whole;
      std::copy_if(some.begin(), some.end(), std::back_inserter(whole), [](const auto& m) { return m.size; });
      backup->write(whole);
    }
    std::vector<std::string> ids;
    for (const MessageInfo& message : some) ids.push_back(message.id);
    const delayqueue::Removed removed = inspector.purge(*args.state, ids);
    pages.freed(removed.places);
    kept += ids.size() - removed.messages;
    return removed.messages;
  });
}

Exit purge(Context& context, const Args& args) {
  if (*args.state == State::unack) {
    throw Usage(
        "--state: 'unack'; expected pending, ready, retry or dead. What is held or waits out a backoff goes by "
        "dqctl cancel, by its id");
  }
  if (!args.all && !args.filter.any()) {
    throw Usage("which: expected --all, --match, --reason or --older-than; see dqctl purge --help");
  }
  if (args.append && !args.backup) throw Usage("--append: expected --backup FILE with it");
  Output& out = context.out();
  const Counts counts = context.counts(args.queue);
  if (!args.yes) return dry_run(context, "purge", args.queue, *args.state, args.filter, counts);
  Inspector& inspector = context.inspector(args.queue);
  std::unique_ptr<Backup> backup;
  if (args.backup) backup = std::make_unique<Backup>(*args.backup, args.append);
  std::uint64_t kept = 0, foreign = 0;
  const Steps steps = is_plain(args) ? purge_all(out, inspector, args, count_of(counts, *args.state))
                                     : purge_some(out, inspector, args, counts, backup.get(), kept, foreign);
  if (out.is_table()) {
    out.line("purged " + count_text(steps.done) + ' ' + delayqueue::to_string(*args.state) + " messages of " +
             in_quotes(args.queue) + (args.backup ? "; they are in " + in_quotes(*args.backup) : ""));
    if (kept > 0) out.say(count_text(kept) + " went elsewhere in the meantime, and were left alone");
  } else {
    Object object;
    object.add("queue", args.queue).add("state", delayqueue::to_string(*args.state)).add("purged", steps.done);
    object.add("left_alone", kept).add("foreign", foreign).add("backup", args.backup);
    add_ending(object, steps);
    out.object(object);
  }
  say_foreign(out, args.queue, foreign);
  return foreign > 0 && steps.code() == Exit::done ? Exit::partly : steps.code();
}

}  // namespace

void add_purge(Cli& cli, Context& context) {
  const auto args = std::make_shared<Args>();
  Command& command = cli.add("purge", "Removes messages of a state for good; without --yes only says which",
                             {"purge orders --state dead --older-than 30d",
                              "purge orders --state dead --reason 'no such*' --backup dead.ndjson --yes"});
  command.argument("QUEUE", args->queue, "The queue")
      .state("--state", args->state, "pending, ready, retry or dead")
      .wanted()
      .flag("--all", args->all, "All that are in that state");
  add_filter(command, args->filter);
  command
      .optional_text("--backup", args->backup, "FILE",
                     "Before they are removed, they are written there, as lines that import takes")
      .flag("--append", args->append, "Add to the backup, if it exists")
      .flag("--yes", args->yes, "Do it")
      .run([&context, args] { return purge(context, *args); });
}

}  // namespace dqctl
