// dqctl reasons
#include "reasons.h"

#include <limits>

#include "commands.h"
#include "filter.h"
#include "output/table.h"
#include "signals.h"

namespace dqctl {
namespace {

constexpr std::size_t kWidthForIds = 110;  // of a terminal; on a narrower one the ids would take the reasons' room

struct ReasonsArgs {
  std::string queue{};
  std::uint64_t limit = 20;
};

Cell reason_cell(const ReasonCount& one) {
  if (!one.reason) return {"(all other reasons)", Colour::dim};
  if (one.reason->empty()) return {"(no reason)", Colour::dim};
  return {printable(*one.reason), Colour::red};
}

std::vector<Cell> reason_row(const ReasonCount& one, Time now, bool with_id) {
  const auto since = [now](const std::optional<Time>& when) { return Cell{when ? since_text(*when, now) : "?"}; };
  std::vector<Cell> row = {{count_text(one.count)}, since(one.first), since(one.last)};
  if (with_id) row.push_back({id_text(one.example)});
  row.push_back(reason_cell(one));
  return row;
}

Exit list_reasons(Context& context, const ReasonsArgs& args) {
  Output& out = context.out();
  const delayqueue::Counts counts = context.counts(args.queue);
  ReasonCounts reasons;
  {
    Progress progress(out, "counted");
    Walk walk(context.inspector(args.queue), delayqueue::State::dead, {}, counts.now, 0);
    walk.read_newest_first();
    walk.leave_bodies_out();
    while (const auto message = walk.next()) {
      reasons.add(*message);
      progress.update(walk.examined(), counts.dead);
    }
  }
  if (interrupted() && reasons.messages() == 0) return Exit::interrupted;
  const std::vector<ReasonCount> all = reasons.sorted();
  const std::size_t shown = args.limit == 0 ? all.size() : std::min<std::size_t>(all.size(), args.limit);
  const bool with_ids = out.width() >= kWidthForIds;
  std::vector<Column> columns = {{"COUNT", true}, {"FIRST"}, {"LAST"}};
  if (with_ids) columns.push_back({"EXAMPLE"});
  columns.push_back({"REASON"});
  Listing listing(out, columns, "reasons", Object().add("queue", args.queue).add("dead", counts.dead));
  for (std::size_t i = 0; i < shown; ++i) {
    listing.add(reason_row(all[i], counts.now, with_ids), reason_object(all[i]));
  }
  listing.end(Object()
                  .add("counted", reasons.messages())
                  .add("distinct", reasons.distinct())
                  .add("interrupted", interrupted()));
  if (shown < all.size()) out.stderr_line("more: " + count_text(all.size() - shown) + "; --limit 0 shows all");
  if (interrupted()) {
    out.stderr_line("interrupted: counted the newest " + count_text(reasons.messages()) + " of " +
                    counted(counts.dead, "dead letter"));
    return Exit::partly;
  }
  if (all.empty() && out.is_table()) out.stderr_line(in_quotes(args.queue) + " has no dead letter");
  return Exit::done;
}

}  // namespace

void add_reasons(Cli& cli, Context& context) {
  const auto args = std::make_shared<ReasonsArgs>();
  Command& command = cli.add("reasons", "Counts dead letters by their reasons, the most frequent first",
                             {"reasons orders", "reasons orders --limit 0 -o ndjson"});
  command.argument("QUEUE", args->queue, "Its name")
      .number("--limit", args->limit, 0, std::numeric_limits<std::uint64_t>::max(),
              "Most reasons to show; 0: all of them (20)");
  add_partition(command, context);
  command.run([&context, args] { return list_reasons(context, *args); });
}

}  // namespace dqctl
