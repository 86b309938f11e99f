// dqctl purge
#include <delayqueue/error.h>

#include <algorithm>
#include <exception>
#include <memory>

#include "acting.h"
#include "backup.h"
#include "commands.h"
#include "operator_lock.h"
#include "pages.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::MessageInfo;
using delayqueue::QueueAdmin;
using delayqueue::State;

struct PurgeArgs {
  std::string queue{};
  std::optional<State> state{};
  bool all = false;
  Filter filter{};
  std::optional<std::string> backup{};
  bool append = false;
  bool yes = false;
};

// Whether the purge can skip reading the messages. It then also removes foreign ids.
bool is_plain(const PurgeArgs& args) {
  const Filter& filter = args.filter;
  return !args.backup && !filter.match && !filter.reason && !(is_list(*args.state) && filter.older_than);
}

Steps purge_all(Output& out, QueueAdmin& admin, const PurgeArgs& args, std::uint64_t total) {
  constexpr std::uint64_t kStep = 2000;
  std::uint64_t left = total;
  bool more = true;
  std::uint64_t unanswered = 0;
  const auto step = [&]() -> std::optional<std::uint64_t> {
    if (left == 0 || !more) return std::nullopt;
    delayqueue::PurgeOptions options;
    options.older_than = args.filter.older_than;
    options.limit = std::min(left, kStep);
    unanswered = options.limit;
    const std::uint64_t purged = admin.purge(*args.state, options);
    unanswered = 0;
    more = is_list(*args.state) || purged == options.limit;  // ids without a message are passed over, not counted
    left -= options.limit;
    return purged;
  };
  return in_steps(out, "purged", total, step, &unanswered);
}

// Removes messages page by page, and counts only those that this run removed: other processes may be faster.
class PurgePages {
 public:
  PurgePages(Context& context, const PurgeArgs& args, const Counts& counts, Backup* backup)
      : out_(context.out()),
        admin_(context.admin(args.queue)),
        state_(*args.state),
        backup_(backup),
        pages_(context.inspector(args.queue), state_, args.filter, counts,
               backup != nullptr ? Pages::Payload::whole : Pages::Payload::none, Pages::Use::remove) {}

  Steps run() {
    return in_steps(
        out_, "purged", 0, [this] { return step(); }, &unanswered_);
  }

  const Pages& pages() const { return pages_; }
  std::uint64_t kept() const { return kept_; }

 private:
  // Finishes a page that was begun, so that the backup matches what was removed. An error is thrown by the next step,
  // so that this step can count what was done before the error.
  std::optional<std::uint64_t> step() {
    if (error_ != nullptr) std::rethrow_exception(error_);
    std::optional<OperatorLock> lock;
    if (backup_ != nullptr) lock.emplace(out_, admin_);
    std::vector<MessageInfo> some;
    if (!pages_.next(some)) return std::nullopt;
    if (some.empty()) return 0;
    if (backup_ != nullptr) {
      // A message without a body cannot be delivered or restored: it needs no backup.
      std::vector<MessageInfo> whole;
      std::copy_if(some.begin(), some.end(), std::back_inserter(whole), [](const auto& m) { return m.size; });
      backup_->write(whole);
    }
    std::uint64_t done = 0;
    try {
      for (std::size_t next = 0; next < some.size(); next += kRoundTrip) done += remove(some, next);
    } catch (const delayqueue::Error&) {
      error_ = std::current_exception();
    }
    return done;
  }

  std::uint64_t remove(const std::vector<MessageInfo>& some, std::size_t begin) {
    std::vector<std::string> ids;
    for (std::size_t i = begin; i < some.size() && ids.size() < kRoundTrip; ++i) ids.push_back(some[i].id);
    unanswered_ = ids.size();
    const delayqueue::Purged purged = admin_.purge_ids(state_, ids);
    unanswered_ = 0;
    pages_.add_purged(purged);
    kept_ += ids.size() - purged.messages;
    return purged.messages;
  }

  Output& out_;
  QueueAdmin& admin_;
  const State state_;
  Backup* const backup_;
  Pages pages_;
  std::exception_ptr error_;
  std::uint64_t unanswered_ = 0, kept_ = 0;
};

Exit purge(Context& context, const PurgeArgs& args) {
  if (*args.state == State::unack) {
    throw Usage(
        "--state: 'unack'; expected pending, ready, retry or dead. To remove messages that are held or "
        "wait out a backoff, use dqctl cancel with their ids");
  }
  if (!args.all && !args.filter.any()) {
    throw Usage("which: expected --all, --match, --reason or --older-than; see dqctl purge --help");
  }
  if (args.append && !args.backup) throw Usage("--append: expected --backup FILE with it");
  Output& out = context.out();
  const Counts counts = context.counts(args.queue);
  if (!args.yes) return dry_run(context, "purge", args.queue, *args.state, args.filter, counts, is_plain(args));
  std::unique_ptr<Backup> backup;
  if (args.backup) backup = std::make_unique<Backup>(*args.backup, args.append);
  PurgePages pages(context, args, counts, backup.get());
  const Steps steps =
      is_plain(args) ? purge_all(out, context.admin(args.queue), args, count_of(counts, *args.state)) : pages.run();
  context.note_change(args.queue, steps.done, steps.unconfirmed);
  const std::uint64_t foreign = pages.pages().foreign();
  if (out.is_table()) {
    out.line("purged " + counted(steps.done, std::string(delayqueue::to_string(*args.state)) + " message") + " of " +
             in_quotes(args.queue) + (args.backup ? "; the backup is " + in_quotes(*args.backup) : ""));
    if (pages.kept() > 0) {
      out.stderr_line("left alone: " + counted(pages.kept(), "message") + " that left this state in the meantime" +
                      (args.backup ? "; the backup has them, too" : ""));
    }
  } else {
    Object object;
    object.add("queue", args.queue).add("state", delayqueue::to_string(*args.state)).add("purged", steps.done);
    object.add("left_alone", pages.kept()).add("foreign", foreign).add("unconfirmed", steps.unconfirmed);
    object.add("backup", args.backup);
    add_ending(object, steps);
    out.object(object);
  }
  report_foreign_ids(out, args.queue, foreign);
  report_unfinished(out, pages.pages());
  const bool left = foreign > 0 || pages.pages().unfinished();
  return left && steps.code() == Exit::done ? Exit::partly : steps.code();
}

}  // namespace

void add_purge(Cli& cli, Context& context) {
  const auto args = std::make_shared<PurgeArgs>();
  Command& command = cli.add("purge", "Removes messages of a state for good; without --yes only shows which",
                             {"purge orders --state dead --older-than 30d",
                              "purge orders --state dead --reason 'no such*' --backup dead.ndjson --yes"});
  command.argument("QUEUE", args->queue, "The queue")
      .state("--state", args->state, "pending, ready, retry or dead")
      .required()
      .flag("--all", args->all, "All that are in that state");
  add_filter(command, args->filter);
  add_partition(command, context);
  command
      .text("--backup", args->backup, "FILE",
            "Writes the messages there before they are removed, as lines that import reads")
      .flag("--append", args->append, "Add to the backup, if it exists")
      .flag("--yes", args->yes, "Do it")
      .run([&context, args] { return purge(context, *args); });
}

}  // namespace dqctl
