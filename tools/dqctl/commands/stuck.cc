// dqctl stuck
#include <algorithm>

#include "commands.h"
#include "output/table.h"
#include "signals.h"
#include "stuck_reading.h"

namespace dqctl {
namespace {

constexpr const char* kInterrupted = "stuck: interrupted between its two readings; nothing is known";

struct StuckArgs {
  std::string queue{};
  StuckOptions options{};
};

Colour colour_of(Level level) {
  return level == Level::critical ? Colour::red : level == Level::warning ? Colour::yellow : Colour::green;
}

std::string headline(const std::string& queue, Level level, const std::vector<StuckFinding>& findings) {
  const char* word = level == Level::critical ? "CRITICAL" : level == Level::warning ? "WARNING" : "OK";
  const std::string rest = level == Level::ok ? "nothing is stuck" : findings.front().what;
  return printable(queue) + ": " + word + ": " + rest;
}

void write_findings(Output& out, const std::string& queue, Level level, const std::vector<StuckFinding>& findings) {
  out.line(out.paint(colour_of(level), headline(queue, level, findings)));
  for (const StuckFinding& finding : findings) {
    const std::string word = finding.level == Level::ok ? "note" : to_string(finding.level);
    out.line("");
    out.line(out.paint(colour_of(finding.level), word) + std::string(10 - word.size(), ' ') + finding.what);
    if (!finding.why.empty()) out.line("  why     " + finding.why);
    if (!finding.example.empty()) out.line("  such as " + id_text(finding.example));
    out.line("  do      " + finding.todo);
  }
}

Exit one(Context& context, const StuckArgs& args) {
  Output& out = context.out();
  const std::vector<StuckReading> readings = read_stuck(context, {args.queue}, args.options);
  if (interrupted()) throw Failure(Exit::interrupted, kInterrupted);
  const StuckReading& reading = readings.front();
  if (reading.error) throw Failure(reading.error->code, reading.error->text);
  const std::vector<StuckFinding> findings = findings_of(reading, args.options);
  const Level level = findings.empty() ? Level::ok : findings.front().level;
  out.is_table() ? write_findings(out, args.queue, level, findings)
                 : out.object(stuck_object(args.queue, level, findings));
  return level == Level::ok ? Exit::done : Exit::threshold;
}

// Queues that cannot be read come first: their state is unknown.
Exit all(Context& context, const StuckArgs& args) {
  Output& out = context.out();
  struct Row {
    const StuckReading* reading;
    Level level;
    std::vector<StuckFinding> findings;
  };
  const std::vector<StuckReading> readings = read_stuck(context, context.inspector("queues").queues(), args.options);
  if (interrupted()) throw Failure(Exit::interrupted, kInterrupted);
  std::vector<Row> rows;
  RowErrors errors;
  bool stuck = false;
  for (const StuckReading& reading : readings) {
    errors.add(reading.error);
    Row row{&reading, Level::critical, {}};
    if (!reading.error) {
      row.findings = findings_of(reading, args.options);
      row.level = row.findings.empty() ? Level::ok : row.findings.front().level;
      stuck = stuck || row.level != Level::ok;
    }
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.reading->error.has_value() != b.reading->error.has_value() ? a.reading->error.has_value()
                                                                        : a.level > b.level;
  });
  Listing listing(out, {}, "queues");
  for (const Row& row : rows) {
    const StuckReading& reading = *row.reading;
    if (out.is_table()) {
      out.line(reading.error
                   ? out.paint(Colour::red, printable(reading.queue) + ": UNKNOWN: " + printable(reading.error->text))
                   : out.paint(colour_of(row.level), headline(reading.queue, row.level, row.findings)));
    } else if (reading.error) {
      listing.add(
          {},
          Object().add("queue", reading.queue).add("level", "unknown").add("error", printable(reading.error->text)));
    } else {
      listing.add({}, stuck_object(reading.queue, row.level, row.findings).add_null("error"));
    }
  }
  listing.end();
  if (rows.empty()) out.stderr_line("no queue is at " + context.shown_uri());
  return stuck ? Exit::threshold : errors.code();
}

Exit stuck(Context& context, const StuckArgs& args) {
  if (*args.options.crit < *args.options.warn) throw Usage("--crit: less than --warn; expected the same or more");
  if (args.options.dead_crit < args.options.dead) {
    throw Usage("--dead-crit: less than --dead; expected the same or more");
  }
  if (args.queue.empty() && context.options.partition) throw Usage("--partition: of a queue; expected QUEUE, too");
  return args.queue.empty() ? all(context, args) : one(context, args);
}

}  // namespace

void add_stuck(Cli& cli, Context& context) {
  const auto args = std::make_shared<StuckArgs>();
  Command& command =
      cli.add("stuck", "Shows which messages should have moved and have not, and why; exit code 5 if any",
              {"stuck", "stuck orders", "stuck orders --warn 30s --crit 5m -o json"});
  command.argument("QUEUE", args->queue, "Its name; without it all queues, one line each, the worst first", false)
      .duration("--warn", args->options.warn, "Messages that wait longer are a warning (1m)")
      .duration("--crit", args->options.crit, "Messages that wait longer are critical (10m)")
      .duration("--look", args->options.interval, "How long to watch what moves, and at what pace (1s)")
      .duration("--held", args->options.held,
                "A message that one delivery holds this long is a warning (as --warn). Of consumers that do not "
                "register, it needs a --look as long")
      .number("--dead", args->options.dead, 1, 1'000'000'000, "Dead letters from which on they are a warning (1000)")
      .number("--dead-crit", args->options.dead_crit, 1, 1'000'000'000, "And critical (100000)")
      .number("--dead-growth", args->options.dead_growth, 1, 1'000'000'000,
              "New dead letters between the two readings that are a warning (1)")
      .number("--hot", args->options.hot, 2, 1'000'000,
              "Deliveries from which on a message is hot (5, or the last ones that its retries allow)");
  add_partition(command, context);
  command.run([&context, args] { return stuck(context, *args); });
}

}  // namespace dqctl
