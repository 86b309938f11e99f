// dqctl partitions
#include <delayqueue/inspector.h>
#include <delayqueue/server.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "commands.h"
#include "output/table.h"
#include "partition_object.h"
#include "row_error.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::PartitionInfo;
using delayqueue::Risk;
using delayqueue::RiskKind;
using delayqueue::ServerInfo;

struct PartitionsArgs {
  std::string queue{};
  std::optional<unsigned> wanted{};
  bool yes = false;
  bool create = false;
};

unsigned parse_partitions(const std::string& value) {
  const auto number = static_cast<unsigned>(parse_number("--set", value, 1, 256));
  if ((number & (number - 1)) != 0) throw Usage("--set: '" + value + "'; expected a power of two from 1 to 256");
  return number;
}

std::vector<Cell> row_of(const PartitionInfo& info) {
  std::vector<Cell> row = {{std::to_string(info.partition), Colour::bold},
                           {info.slot ? std::to_string(*info.slot) : ""},
                           {printable(info.server)}};
  if (!info.error.empty()) {
    row.insert(row.end(), 5, {});
    row.push_back({printable(info.error), Colour::red});
    return row;
  }
  const auto number = [](std::uint64_t count) {
    return Cell{count_text(count), count == 0 ? Colour::dim : Colour::plain};
  };
  const Counts& counts = info.counts;
  row.insert(row.end(), {number(counts.pending), number(counts.ready), number(counts.unack), number(counts.retry)});
  row.push_back({count_text(counts.dead), counts.dead == 0 ? Colour::dim : Colour::red});
  const std::string paused = counts.paused ? "paused" : "";
  const std::string unused = info.sent_to ? "" : "only served, not sent to";
  row.push_back({paused + (paused.empty() || unused.empty() ? "" : ", ") + unused, Colour::yellow});
  return row;
}

Exit show(Context& context, const std::string& queue) {
  const std::vector<PartitionInfo> all = context.inspector(queue).partitions();
  if (all.size() == 1) context.counts(queue);  // throws if the queue does not exist
  const auto used = std::count_if(all.begin(), all.end(), [](const PartitionInfo& one) { return one.sent_to; });
  Object head;
  head.add("queue", queue).add("count", used).add("top", all.size());
  Listing listing(context.out(),
                  {{"PARTITION", true},
                   {"SLOT", true},
                   {"MASTER"},
                   {"PENDING", true},
                   {"READY", true},
                   {"UNACK", true},
                   {"RETRY", true},
                   {"DEAD", true},
                   {""}},
                  "partitions", head);
  RowErrors errors;
  for (const PartitionInfo& one : all) {
    listing.add(row_of(one), partition_object(one));
    errors.add(one.error.empty() ? std::nullopt : std::optional(RowError{one.error}));
  }
  listing.end();
  return errors.code();
}

// Writes the risks of the masters for a queue with partitions. They do not stop the command.
void warn(Context& context) {
  try {
    std::vector<ServerInfo> masters = delayqueue::server_info(context.client());
    for (ServerInfo& master : masters) master.risks.clear();
    delayqueue::add_partition_risks(masters);
    for (const ServerInfo& master : masters) {
      for (const Risk& risk : master.risks) {
        context.out().stderr_line("warning: " + printable(master.address + ": " + risk.text));
      }
    }
  } catch (const delayqueue::Error& e) {
    context.out().stderr_line("warning: the settings of the masters were not checked: " + printable(e.what()));
  }
}

// A mistyped name would make a queue without a consumer.
void queue_must_exist(Context& context, const std::string& queue) try {
  context.counts(queue);
} catch (const Failure& failure) {
  if (failure.code() != Exit::not_found) throw;
  throw Failure(failure.code(), failure.what() + std::string("; --create makes it"));
}

void set(Context& context, const PartitionsArgs& args) {
  if (!args.create) queue_must_exist(context, args.queue);
  const delayqueue::Layout layout = context.inspector(args.queue).layout();
  if (*args.wanted < layout.partitions && !args.yes) {
    throw Usage("--set: '" + std::to_string(*args.wanted) + "'; " + in_quotes(args.queue) + " uses " +
                std::to_string(layout.partitions) +
                " partitions. With fewer, new messages go to these only, and consumers go on to "
                "serve all " +
                std::to_string(layout.top) + "; to do it, add --yes");
  }
  const unsigned now = context.admin(args.queue).set_partitions(*args.wanted).partitions;
  context.note_change(args.queue, std::nullopt);
  if (now != *args.wanted) {
    throw Failure(Exit::failed, "another operator has set " + std::to_string(now) + " partitions of " +
                                    in_quotes(args.queue) + " at the same time; that number counts");
  }
  if (now > 1) warn(context);
}

Exit partitions(Context& context, const PartitionsArgs& args) {
  if (args.create && !args.wanted) throw Usage("--create: makes the queue of --set; expected --set N, too");
  if (args.yes && !args.wanted) throw Usage("--yes: lowers the number of --set; expected --set N, too");
  if (args.wanted) set(context, args);
  return show(context, args.queue);
}

}  // namespace

void add_partitions(Cli& cli, Context& context) {
  const auto args = std::make_shared<PartitionsArgs>();
  cli.add("partitions",
          "Shows the partitions of a queue: the slot and master of each in a Cluster, and its counts. With --set it "
          "sets "
          "their number first",
          {"partitions orders", "partitions orders --set 32", "partitions orders --set 8 --yes"})
      .argument("QUEUE", args->queue, "Its name")
      .custom(
          "--set", [args](const std::string& value) { args->wanted = parse_partitions(value); }, "N",
          "Spread new messages over this many: a power of two from 1 to 256, about 8 for each master. Producers and "
          "consumers follow without a restart, and no message moves")
      .flag("--create", args->create, "Set it of a queue that is not there yet, before its first message")
      .flag("--yes", args->yes, "Set a lower number, too; consumers go on to serve the upper ones")
      .run([&context, args] { return partitions(context, *args); });
}

}  // namespace dqctl
