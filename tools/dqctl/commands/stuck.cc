// dqctl stuck
#include <algorithm>
#include <limits>
#include <map>

#include "commands.h"
#include "lines.h"
#include "output/table.h"
#include "row_error.h"
#include "signals.h"
#include "stuck.h"

namespace dqctl {
namespace {

using delayqueue::Inspector;
using delayqueue::MessageInfo;
using delayqueue::MessagePage;
using delayqueue::State;

constexpr std::size_t kSampled = 1000;  // of each state
constexpr std::size_t kReasonBytes = 200;
constexpr std::size_t kRunning = 100;  // messages with long running handlers
constexpr const char* kInterrupted = "stuck: interrupted between its two readings; nothing is known";

struct StuckArgs {
  std::string queue{};
  StuckOptions options{};
};

MessagePage page_of(Inspector& inspector, State state, std::size_t limit) {
  delayqueue::ListOptions options;
  options.limit = limit;
  options.payload = 0;
  return inspector.list(state, options);
}

void add(Sample& sample, const MessageInfo& message, int hot) {
  if (!is_stored_id(message.id)) return;  // no call takes it; doctor reports it
  if (!message.size) sample.without_body.push_back(message.id);
  if (message.state == State::dead) {
    ++sample.dead;
    ++sample.dead_reasons[message.reason.substr(0, kReasonBytes)];
    return;
  }
  if (message.deliveries < hot) return;
  ++sample.hot;
  ++sample.hot_reasons[message.reason.substr(0, kReasonBytes)];
  if (message.deliveries <= sample.most_deliveries) return;
  sample.most_deliveries = message.deliveries;
  sample.hot_id = message.id;
}

// The readings of one queue.
struct StuckReading {
  std::string queue{};
  Evidence evidence{};
  std::map<std::string, int> held{};  // ids held at the first reading, with their deliveries
  bool something_waits = false;
  std::vector<delayqueue::PartitionInfo> partitions{};  // at the first reading; empty: the queue has one
  std::vector<StuckFinding> unserved{};                 // findings of partitions that are not served while others are
  std::optional<RowError> error{};
};

void take_sample(Inspector& inspector, StuckReading& reading, int hot) {
  for (const State state : {State::pending, State::ready, State::unack, State::retry, State::dead}) {
    for (const MessageInfo& message : page_of(inspector, state, kSampled)) {
      add(reading.evidence.sample, message, hot);
      if (message.held && is_stored_id(message.id)) reading.held.emplace(message.id, message.deliveries);
    }
  }
}

// Counts the messages that still exist and still have no body.
void recheck_bodies(Inspector& inspector, Sample& sample) {
  for (const auto& message : inspector.find(sample.without_body, 0)) {
    if (message && !message->size && sample.no_body++ == 0) sample.no_body_id = message->id;
  }
}

void count_still_held(Inspector& inspector, StuckReading& reading) {
  std::vector<std::string> ids;
  for (const auto& [id, deliveries] : reading.held) ids.push_back(id);
  for (const auto& message : inspector.find(ids, 0)) {
    if (!message || !message->held || message->deliveries != reading.held.at(message->id)) continue;
    if (reading.evidence.held_throughout++ == 0) reading.evidence.held_id = message->id;
  }
}

// Keeps those that are still held: an entry in the registry may be some seconds old.
void find_running(Inspector& inspector, StuckReading& reading, const StuckOptions& options) {
  std::vector<HeldMessage> all = held_messages(inspector);
  const auto is_long = [&](const HeldMessage& one) {
    return age_between(one.since, reading.evidence.now.counts.now) >= options.least_held();
  };
  all.erase(std::find_if_not(all.begin(), all.end(), is_long), all.end());
  if (all.size() > kRunning) all.resize(kRunning);
  std::vector<std::string> ids;
  for (const HeldMessage& one : all) ids.push_back(one.id);
  const auto found = inspector.find(ids, 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (found[i] && found[i]->held) reading.evidence.running.push_back(std::move(all[i]));
  }
}

void read_first(Context& context, StuckReading& reading, int hot) {
  context.counts(reading.queue);  // throws if the queue does not exist
  Inspector& inspector = context.inspector(reading.queue);
  reading.evidence.before = read_state(inspector);
  take_sample(inspector, reading, hot);
  const auto& counts = reading.evidence.before.counts;
  reading.something_waits = counts.ready + counts.retry + counts.due + counts.overdue + counts.dead > 0 ||
                            !reading.evidence.sample.without_body.empty() || !reading.held.empty();
  if (counts.partitions > 1) reading.partitions = inspector.partitions();
}

std::uint64_t served(const delayqueue::Counts& counts) {
  return counts.totals.delivered + counts.totals.acked + counts.totals.nacked + counts.totals.retried;
}

// The sums over all partitions hide one that no consumer serves while others are served.
void find_unserved(Context& context, StuckReading& reading, const StuckOptions& options) {
  if (reading.partitions.empty()) return;
  const auto now = context.inspector(reading.queue).partitions();
  const auto is_served = [&](std::size_t i) { return served(now[i].counts) > served(reading.partitions[i].counts); };
  std::vector<std::size_t> unserved;
  bool others = false;
  for (std::size_t i = 0; i < std::min(now.size(), reading.partitions.size()); ++i) {
    const delayqueue::Counts& before = reading.partitions[i].counts;
    if (is_served(i)) {
      others = true;
    } else if (before.ready + before.retry > 0 && now[i].counts.ready + now[i].counts.retry > 0) {
      unserved.push_back(i);
    }
  }
  for (const std::size_t i : others ? unserved : std::vector<std::size_t>()) {
    Evidence evidence;
    evidence.now = read_state(context.inspector(reading.queue, now[i].partition));
    evidence.before = evidence.now;
    evidence.before.counts = reading.partitions[i].counts;
    for (StuckFinding& finding : diagnose(evidence, reading.queue, options)) {
      if (finding.kind != std::string("not_taken") && finding.kind != std::string("slow")) continue;
      finding.what = "partition " + std::to_string(now[i].partition) + ": " + finding.what;
      reading.unserved.push_back(std::move(finding));
    }
  }
}

// The worst first.
std::vector<StuckFinding> findings_of(const StuckReading& reading, const StuckOptions& options) {
  std::vector<StuckFinding> findings = diagnose(reading.evidence, reading.queue, options);
  findings.insert(findings.end(), reading.unserved.begin(), reading.unserved.end());
  std::stable_sort(findings.begin(), findings.end(),
                   [](const StuckFinding& a, const StuckFinding& b) { return a.level > b.level; });
  return findings;
}

void read_second(Context& context, StuckReading& reading, const StuckOptions& options) {
  Inspector& inspector = context.inspector(reading.queue);
  recheck_bodies(inspector, reading.evidence.sample);
  count_still_held(inspector, reading);
  reading.evidence.now = read_state(inspector);
  find_running(inspector, reading, options);
  find_unserved(context, reading, options);
}

// Takes the first reading of all queues, waits once, then takes all second readings.
std::vector<StuckReading> read_queues(Context& context, const std::vector<std::string>& queues,
                                      const StuckOptions& options) {
  std::vector<StuckReading> readings;
  bool something_waits = false;
  for (const std::string& queue : queues) {
    if (interrupted()) break;
    readings.emplace_back().queue = queue;
    StuckReading& reading = readings.back();
    reading.error = read_row(context, [&] { read_first(context, reading, options.hot); });
    something_waits = something_waits || reading.something_waits;
  }
  if (something_waits) sleep_for(*options.interval);
  for (StuckReading& reading : readings) {
    if (!reading.error && !interrupted())
      reading.error = read_row(context, [&] { read_second(context, reading, options); });
  }
  return readings;
}

Object object_of(const StuckFinding& finding) {
  Object object;
  object.add("kind", finding.kind).add("level", to_string(finding.level)).add("count", finding.count);
  object.add("age_ms", finding.age ? std::optional(finding.age->count()) : std::nullopt);
  object.add("what", finding.what).add("why", finding.why).add("do", finding.todo);
  finding.example.empty() ? object.add_null("example") : object.add("example", finding.example);
  return object;
}

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

Object object_of(const std::string& queue, Level level, const std::vector<StuckFinding>& findings) {
  std::vector<Object> objects;
  for (const StuckFinding& finding : findings) objects.push_back(object_of(finding));
  return Object().add("queue", queue).add("level", to_string(level)).add("findings", objects);
}

Exit one(Context& context, const StuckArgs& args) {
  Output& out = context.out();
  const std::vector<StuckReading> readings = read_queues(context, {args.queue}, args.options);
  if (interrupted()) throw Failure(Exit::interrupted, kInterrupted);
  const StuckReading& reading = readings.front();
  if (reading.error) throw Failure(reading.error->code, reading.error->text);
  const std::vector<StuckFinding> findings = findings_of(reading, args.options);
  const Level level = findings.empty() ? Level::ok : findings.front().level;
  out.is_table() ? write_findings(out, args.queue, level, findings)
                 : out.object(object_of(args.queue, level, findings));
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
  const std::vector<StuckReading> readings = read_queues(context, context.inspector("queues").queues(), args.options);
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
      listing.add({}, object_of(reading.queue, row.level, row.findings).add_null("error"));
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
      .duration("--look", args->options.interval, "How long to watch whether anything moves (1s)")
      .duration("--held", args->options.held,
                "A message that one delivery holds this long is a warning (as --warn). Of consumers that do not "
                "register, it needs a --look as long")
      .number("--dead", args->options.dead, 1, 1'000'000'000, "Dead letters from which on they are a warning (1000)")
      .number("--dead-crit", args->options.dead_crit, 1, 1'000'000'000, "And critical (100000)")
      .number("--dead-growth", args->options.dead_growth, 1, 1'000'000'000,
              "New dead letters between the two readings that are a warning (1)")
      .number("--hot", args->options.hot, 2, 1'000'000, "Deliveries from which on a message is hot (5)");
  add_partition(command, context);
  command.run([&context, args] { return stuck(context, *args); });
}

}  // namespace dqctl
