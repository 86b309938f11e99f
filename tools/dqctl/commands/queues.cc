// dqctl queues
#include <delayqueue/error.h>

#include <algorithm>
#include <array>

#include "commands.h"
#include "limits_text.h"
#include "output/table.h"
#include "row_error.h"
#include "signals.h"
#include "top/queue_table.h"

namespace dqctl {
namespace {

using delayqueue::Counts;

// The columns of the table, as dqctl top sorts them.
constexpr std::array<Sort, 6> kSortable = {Sort::name,  Sort::pending, Sort::ready,
                                           Sort::unack, Sort::retry,   Sort::dead};

struct QueuesArgs {
  bool names = false;
  Sort sort = Sort::name;
  std::optional<milliseconds> watch{};
  std::uint64_t count = 0;
};

Object object_of(const std::string& queue, const Counts& counts) {
  Object object;
  object.add("queue", queue)
      .add("pending", counts.pending)
      .add("ready", counts.ready)
      .add("unack", counts.unack)
      .add("retry", counts.retry)
      .add("dead", counts.dead)
      .add("due", counts.due)
      .add("overdue", counts.overdue)
      .add("paused", counts.paused)
      .add_null("error");
  return object;
}

Object object_of(const std::string& queue, const std::string& error) {
  Object object;
  object.add("queue", queue);
  for (const char* name : {"pending", "ready", "unack", "retry", "dead", "due", "overdue", "paused"}) {
    object.add_null(name);
  }
  return object.add("error", printable(error));
}

Exit list_names(Context& context) {
  std::uint64_t left_out = 0;
  for (const std::string& name : context.inspector("queues").queues()) {
    is_plain_name(name) ? context.out().line(name) : void(++left_out);
  }
  if (left_out > 0) {
    context.out().stderr_line(
        counted(left_out, "name", "was", "were") +
        " left out, with - as the first character or with control characters; dqctl queues shows every "
        "name, and dqctl stats -- NAME takes it");
  }
  return Exit::done;
}

// The counts of all queues, or why one could not be read. A signal ends the list early.
std::vector<QueueSnapshot> read_all_queues(Context& context, RowErrors& errors) {
  std::vector<QueueSnapshot> queues;
  for (const std::string& name : context.inspector("queues").queues()) {
    if (interrupted()) break;
    QueueSnapshot& queue = queues.emplace_back();
    queue.name = name;
    const auto error = read_row(context, [&] { queue.counts = context.inspector(name).counts(); });
    if (error) queue.error = error->text;
    errors.add(error);
  }
  return queues;
}

void write_queues(Output& out, const std::vector<QueueSnapshot>& queues) {
  Listing listing(
      out, {{"QUEUE"}, {"PENDING", true}, {"READY", true}, {"UNACK", true}, {"RETRY", true}, {"DEAD", true}, {""}},
      "queues");
  const auto number = [](std::uint64_t count) {
    return Cell{count_text(count), count == 0 ? Colour::dim : Colour::plain};
  };
  for (const QueueSnapshot& queue : queues) {
    const Counts& counts = queue.counts;
    const Cell name{printable(queue.name), Colour::bold};
    if (!queue.error.empty()) {
      listing.add({name, {}, {}, {}, {}, {}, {printable(queue.error), Colour::red}},
                  object_of(queue.name, queue.error));
      continue;
    }
    listing.add({name,
                 number(counts.pending),
                 number(counts.ready),
                 number(counts.unack),
                 number(counts.retry),
                 {count_text(counts.dead), counts.dead == 0 ? Colour::dim : Colour::red},
                 {counts.paused ? "paused" : held_back_text(counts), Colour::yellow}},
                object_of(queue.name, counts));
  }
  listing.end();
}

// Reads and writes all queues once.
Exit list_queues(Context& context, const QueuesArgs& args) {
  Output& out = context.out();
  RowErrors errors;
  std::vector<QueueSnapshot> queues = read_all_queues(context, errors);
  if (interrupted() && args.watch) return Exit::done;  // this reading is incomplete
  put_in_order(queues, args.sort, false);
  if (args.watch && out.is_table() && out.is_terminal()) out.write("\033[H\033[2J");
  write_queues(out, queues);
  if (queues.empty() && !interrupted()) {
    out.stderr_line("no queue is at " + context.shown_uri() + " (prefix " + in_quotes(context.options.prefix) + ")");
  }
  if (interrupted()) return args.watch ? Exit::done : Exit::partly;
  return errors.code();
}

Exit watch_queues(Context& context, const QueuesArgs& args) {
  for (std::uint64_t done = 1;; ++done) {
    Exit code = Exit::failed;
    context.use_short_timeouts(false);
    try {
      code = list_queues(context, args);
    } catch (const delayqueue::ConnectionError& error) {  // a watch continues until the server is back
      if (done == 1) throw;
      context.out().stderr_line("dqctl: " + printable(error.what()));
    }
    if (done == args.count || !sleep_for(*args.watch)) return code;
    if (context.out().is_table() && !context.out().is_terminal()) context.out().line("");
  }
}

Exit queues(Context& context, const QueuesArgs& args) {
  if (args.count > 0 && !args.watch)
    throw Usage("--count: the number of readings of --watch; expected --watch 2s or the like, too");
  if (args.watch && args.watch->count() == 0) throw Usage("--watch: '0s'; expected at least 1ms");
  if (args.names && (args.watch || args.sort != Sort::name))
    throw Usage("--names: reads no counts; expected neither --sort nor --watch with it");
  if (args.names) return list_names(context);
  return args.watch ? watch_queues(context, args) : list_queues(context, args);
}

}  // namespace

void add_queues(Cli& cli, Context& context) {
  const auto args = std::make_shared<QueuesArgs>();
  const auto take_sort = [args](const std::string& value) {
    const auto found =
        std::find_if(kSortable.begin(), kSortable.end(), [&](Sort sort) { return name_of(sort) == value; });
    if (found == kSortable.end()) {
      throw Usage("--sort: " + in_quotes(value) + "; expected one of name, pending, ready, unack, retry, dead");
    }
    args->sort = *found;
  };
  std::vector<std::string> columns;
  columns.reserve(kSortable.size());
  for (const Sort sort : kSortable) columns.emplace_back(name_of(sort));
  cli.add("queues", "Lists all known queues with their counts",
          {"queues", "queues --sort dead --watch 2s", "queues -u unix:///run/redis.sock -o json"})
      .flag("--names", args->names, "Only their names, one a line: quick, for scripts")
      .custom("--sort", take_sort, "COLUMN", "By name (default), or by a count, the largest first", columns)
      .duration("--watch", args->watch, "Repeat at this interval, until Ctrl-C")
      .number("--count", args->count, 1, 1'000'000'000, "End after this many readings")
      .run([&context, args] { return queues(context, *args); });
}

}  // namespace dqctl
