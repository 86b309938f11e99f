// dqctl queues
#include "commands.h"
#include "table.h"

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
      .add("paused", counts.paused);
  return object;
}

// One a line; names that are no text or hold a newline are left out.
Exit list_names(Context& context) {
  for (const std::string& name : context.inspector("queues").queues()) {
    if (printable(name) == name) context.out().line(name);
  }
  return Exit::done;
}

Exit list_queues(Context& context) {
  Output& out = context.out();
  Listing listing(
      out, {{"QUEUE"}, {"PENDING", true}, {"READY", true}, {"UNACK", true}, {"RETRY", true}, {"DEAD", true}, {""}},
      "queues");
  const std::vector<std::string> names = context.inspector("queues").queues();
  for (const std::string& name : names) {
    const Counts counts = context.inspector(name).counts();
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
    out.say("no queue is at " + context.shown_uri() + " (prefix " + in_quotes(context.options.prefix) + ")");
  return Exit::done;
}

}  // namespace

void add_queues(Cli& cli, Context& context) {
  const auto names = std::make_shared<bool>(false);
  cli.add("queues", "Lists all known queues with their counts", {"queues", "queues -u unix:///run/redis.sock -o json"})
      .flag("--names", *names, "Only their names, one a line: quick, for scripts")
      .run([&context, names] { return *names ? list_names(context) : list_queues(context); });
}

}  // namespace dqctl
