// dqctl queues
#include "commands.h"
#include "output/table.h"
#include "row_error.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::Counts;

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

Object object_of(const std::string& queue, const RowError& error) {
  Object object;
  object.add("queue", queue);
  for (const char* name : {"pending", "ready", "unack", "retry", "dead", "due", "overdue", "paused"}) {
    object.add_null(name);
  }
  return object.add("error", printable(error.text));
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

Exit list_queues(Context& context) {
  Output& out = context.out();
  Listing listing(
      out, {{"QUEUE"}, {"PENDING", true}, {"READY", true}, {"UNACK", true}, {"RETRY", true}, {"DEAD", true}, {""}},
      "queues");
  const std::vector<std::string> names = context.inspector("queues").queues();
  RowErrors errors;
  for (const std::string& name : names) {
    if (interrupted()) break;
    Counts counts;
    const auto error = read_row(context, [&] { counts = context.inspector(name).counts(); });
    errors.add(error);
    if (error) {
      listing.add({{printable(name), Colour::bold}, {}, {}, {}, {}, {}, {printable(error->text), Colour::red}},
                  object_of(name, *error));
      continue;
    }
    const auto number = [](std::uint64_t count) {
      return Cell{count_text(count), count == 0 ? Colour::dim : Colour::plain};
    };
    listing.add({{printable(name), Colour::bold},
                 number(counts.pending),
                 number(counts.ready),
                 number(counts.unack),
                 number(counts.retry),
                 {count_text(counts.dead), counts.dead == 0 ? Colour::dim : Colour::red},
                 {counts.paused ? "paused" : "", Colour::yellow}},
                object_of(name, counts));
  }
  listing.end();
  if (names.empty())
    out.stderr_line("no queue is at " + context.shown_uri() + " (prefix " + in_quotes(context.options.prefix) + ")");
  if (interrupted()) return Exit::partly;
  return errors.code();
}

}  // namespace

void add_queues(Cli& cli, Context& context) {
  const auto names = std::make_shared<bool>(false);
  cli.add("queues", "Lists all known queues with their counts", {"queues", "queues -u unix:///run/redis.sock -o json"})
      .flag("--names", *names, "Only their names, one a line: quick, for scripts")
      .run([&context, names] { return *names ? list_names(context) : list_queues(context); });
}

}  // namespace dqctl
