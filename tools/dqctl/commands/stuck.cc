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
constexpr const char* kCutShort = "stuck: interrupted between its two looks; nothing is known";

struct Args {
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

// One of two looks at a queue, and what the second compares with.
struct Look {
  std::string queue{};
  QueueState before{};
  Evidence seen{};
  std::map<std::string, int> held{};  // ids and their deliveries
  bool something_waits = false;
  std::optional<RowError> error{};
};

void take_sample(Inspector& inspector, Look& look, int hot) {
  for (const State state : {State::pending, State::ready, State::unack, State::retry, State::dead}) {
    for (const MessageInfo& message : page_of(inspector, state, kSampled)) {
      add(look.seen.sample, message, hot);
      if (message.held && is_stored_id(message.id)) look.held.emplace(message.id, message.deliveries);
    }
  }
}

// Whether those are there still, and still without a body.
void look_again(Inspector& inspector, Sample& sample) {
  for (const auto& message : inspector.find(sample.without_body, 0)) {
    if (message && !message->size && sample.no_body++ == 0) sample.no_body_id = message->id;
  }
}

void look_at_held(Inspector& inspector, Look& look) {
  std::vector<std::string> ids;
  for (const auto& [id, deliveries] : look.held) ids.push_back(id);
  for (const auto& message : inspector.find(ids, 0)) {
    if (!message || !message->held || message->deliveries != look.held.at(message->id)) continue;
    if (look.seen.held_throughout++ == 0) look.seen.held_id = message->id;
  }
}

void look_first(Context& context, Look& look, int hot) {
  context.counts(look.queue);  // it is there
  Inspector& inspector = context.inspector(look.queue);
  look.before = read_state(inspector);
  take_sample(inspector, look, hot);
  const auto& counts = look.before.counts;
  look.something_waits = counts.ready + counts.retry + counts.due + counts.overdue + counts.dead > 0 ||
                         !look.seen.sample.without_body.empty() || !look.held.empty();
}

void look_second(Context& context, Look& look) {
  Inspector& inspector = context.inspector(look.queue);
  look_again(inspector, look.seen.sample);
  look_at_held(inspector, look);
  Evidence seen = evidence_of(look.before, read_state(inspector));
  seen.sample = std::move(look.seen.sample);
  seen.held_throughout = look.seen.held_throughout;
  seen.held_id = look.seen.held_id;
  look.seen = std::move(seen);
}

// All first looks, one pause, all second looks.
std::vector<Look> look_at(Context& context, const std::vector<std::string>& queues, const StuckOptions& options) {
  std::vector<Look> looks;
  bool something_waits = false;
  for (const std::string& queue : queues) {
    if (interrupted()) break;
    looks.emplace_back().queue = queue;
    Look& look = looks.back();
    look.error = look_at_row(context, [&] { look_first(context, look, options.hot); });
    something_waits = something_waits || look.something_waits;
  }
  if (something_waits) sleep_for(*options.look);
  for (Look& look : looks) {
    if (!look.error && !interrupted()) look.error = look_at_row(context, [&] { look_second(context, look); });
  }
  return looks;
}

Object object_of(const Trouble& trouble) {
  Object object;
  object.add("kind", trouble.kind).add("level", to_string(trouble.level)).add("count", trouble.count);
  object.add("age_ms", trouble.age ? std::optional(trouble.age->count()) : std::nullopt);
  object.add("what", trouble.what).add("why", trouble.why).add("do", trouble.todo);
  trouble.example.empty() ? object.add_null("example") : object.add("example", trouble.example);
  return object;
}

Colour colour_of(Level level) {
  return level == Level::critical ? Colour::red : level == Level::warning ? Colour::yellow : Colour::green;
}

std::string headline(const std::string& queue, Level level, const std::vector<Trouble>& troubles) {
  const char* word = level == Level::critical ? "CRITICAL" : level == Level::warning ? "WARNING" : "OK";
  const std::string rest = level == Level::ok ? "nothing is stuck" : troubles.front().what;
  return printable(queue) + ": " + word + ": " + rest;
}

void write(Output& out, const std::string& queue, Level level, const std::vector<Trouble>& troubles) {
  out.line(out.paint(colour_of(level), headline(queue, level, troubles)));
  for (const Trouble& trouble : troubles) {
    const std::string word = trouble.level == Level::ok ? "note" : to_string(trouble.level);
    out.line("");
    out.line(out.paint(colour_of(trouble.level), word) + std::string(10 - word.size(), ' ') + trouble.what);
    if (!trouble.why.empty()) out.line("  why     " + trouble.why);
    if (!trouble.example.empty()) out.line("  such as " + id_text(trouble.example));
    out.line("  do      " + trouble.todo);
  }
}

Object object_of(const std::string& queue, Level level, const std::vector<Trouble>& troubles) {
  std::vector<Object> objects;
  for (const Trouble& trouble : troubles) objects.push_back(object_of(trouble));
  return Object().add("queue", queue).add("level", to_string(level)).add("findings", objects);
}

Exit one(Context& context, const Args& args) {
  Output& out = context.out();
  const std::vector<Look> looks = look_at(context, {args.queue}, args.options);
  if (interrupted()) throw Failure(Exit::interrupted, kCutShort);
  const Look& look = looks.front();
  if (look.error) throw Failure(look.error->code, look.error->text);
  const std::vector<Trouble> troubles = find_troubles(look.seen, args.queue, args.options);
  const Level level = troubles.empty() ? Level::ok : troubles.front().level;
  out.is_table() ? write(out, args.queue, level, troubles) : out.object(object_of(args.queue, level, troubles));
  return level == Level::ok ? Exit::done : Exit::threshold;
}

// A queue that cannot be read comes first: nothing is known of it.
Exit all(Context& context, const Args& args) {
  Output& out = context.out();
  struct Row {
    const Look* look;
    Level level;
    std::vector<Trouble> troubles;
  };
  const std::vector<Look> looks = look_at(context, context.inspector("queues").queues(), args.options);
  if (interrupted()) throw Failure(Exit::interrupted, kCutShort);
  std::vector<Row> rows;
  RowErrors errors;
  bool stuck = false;
  for (const Look& look : looks) {
    errors.add(look.error);
    Row row{&look, Level::critical, {}};
    if (!look.error) {
      row.troubles = find_troubles(look.seen, look.queue, args.options);
      row.level = row.troubles.empty() ? Level::ok : row.troubles.front().level;
      stuck = stuck || row.level != Level::ok;
    }
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.look->error.has_value() != b.look->error.has_value() ? a.look->error.has_value() : a.level > b.level;
  });
  Listing listing(out, {}, "queues");
  for (const Row& row : rows) {
    const Look& look = *row.look;
    if (out.is_table()) {
      out.line(look.error ? out.paint(Colour::red, printable(look.queue) + ": UNKNOWN: " + printable(look.error->text))
                          : out.paint(colour_of(row.level), headline(look.queue, row.level, row.troubles)));
    } else if (look.error) {
      listing.add({},
                  Object().add("queue", look.queue).add("level", "unknown").add("error", printable(look.error->text)));
    } else {
      listing.add({}, object_of(look.queue, row.level, row.troubles).add_null("error"));
    }
  }
  listing.end();
  if (rows.empty()) out.say("no queue is at " + context.shown_uri());
  return stuck ? Exit::threshold : errors.code();
}

Exit stuck(Context& context, const Args& args) {
  if (*args.options.crit < *args.options.warn) throw Usage("--crit: less than --warn; expected the same or more");
  if (args.options.dead_crit < args.options.dead) {
    throw Usage("--dead-crit: less than --dead; expected the same or more");
  }
  return args.queue.empty() ? all(context, args) : one(context, args);
}

}  // namespace

void add_stuck(Cli& cli, Context& context) {
  const auto args = std::make_shared<Args>();
  cli.add("stuck", "Shows which messages should have moved and have not, and why; exit code 5 if any",
          {"stuck", "stuck orders", "stuck orders --warn 30s --crit 5m -o json"})
      .argument("QUEUE", args->queue, "Its name; without it all queues, one line each, the worst first", false)
      .duration("--warn", args->options.warn, "What waits longer is a warning (1m)")
      .duration("--crit", args->options.crit, "What waits longer is critical (10m)")
      .duration("--look", args->options.look, "How long to watch whether anything moves (1s)")
      .duration("--held", args->options.held,
                "What one delivery holds for so long is a warning (as --warn); needs a --look as long")
      .number("--dead", args->options.dead, 1, 1'000'000'000, "Dead letters from which on they are a warning (1000)")
      .number("--dead-crit", args->options.dead_crit, 1, 1'000'000'000, "And critical (100000)")
      .number("--dead-growth", args->options.dead_growth, 1, 1'000'000'000,
              "New dead letters between the two looks that are a warning (1)")
      .number("--hot", args->options.hot, 2, 1'000'000, "Deliveries from which on a message is hot (5)")
      .run([&context, args] { return stuck(context, *args); });
}

}  // namespace dqctl
