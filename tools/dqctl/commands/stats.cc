// dqctl stats
#include <algorithm>
#include <chrono>

#include "commands.h"
#include "filter.h"
#include "limits_text.h"
#include "output/table.h"
#include "pause_text.h"
#include "row_error.h"
#include "signals.h"
#include "totals.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::MessageInfo;
using delayqueue::Pause;
using delayqueue::State;

struct StatsArgs {
  std::vector<std::string> queues{};
  std::optional<milliseconds> watch{};
  std::uint64_t count = 0;
};

struct StatsReading {
  std::string queue{};
  Counts counts{};
  std::optional<Pause> pause{};
  std::optional<MessageInfo> ready{}, unack{}, retry{}, dead{};  // the first message of each
  std::optional<RowError> error{};  // why the queue could not be read; the other fields are then unset
};

void fill(StatsReading& reading, Context& context, const std::string& queue) {
  reading.counts = context.counts(queue);
  delayqueue::Inspector& inspector = context.inspector(queue);
  if (reading.counts.paused) reading.pause = inspector.paused();
  reading.ready = first_message(inspector, State::ready, reading.counts.ready);
  reading.unack = first_message(inspector, State::unack, reading.counts.unack);
  reading.retry = first_message(inspector, State::retry, reading.counts.retry);
  reading.dead = first_message(inspector, State::dead, reading.counts.dead);
}

StatsReading read_queue(Context& context, const std::string& queue) {
  StatsReading reading;
  reading.queue = queue;
  reading.error = read_row(context, [&] { fill(reading, context, queue); });
  return reading;
}

// Events per second between two readings; unset without an earlier reading.
std::optional<double> rate_of(const Total& total, const StatsReading& now, const StatsReading* before) {
  if (before == nullptr || before->error) return std::nullopt;
  return rate_of(total, before->counts, now.counts);
}

std::optional<Time> sent_of(const std::optional<MessageInfo>& message) {
  return message ? message->sent : std::nullopt;
}

Object object_of(const StatsReading& reading, const StatsReading* before) {
  if (reading.error) return Object().add("queue", reading.queue).add("error", printable(reading.error->text));
  const Counts& counts = reading.counts;
  Object totals;
  Object rates;
  for (const Total& total : kTotals) {
    totals.add(total.name, counts.totals.*total.member);
    rates.add(total.name, rate_of(total, reading, before));
  }
  Object object;
  object.add("queue", reading.queue).add("now", counts.now);
  object.add("pending", counts.pending).add("ready", counts.ready).add("unack", counts.unack);
  object.add("retry", counts.retry).add("dead", counts.dead).add("garbage", counts.garbage);
  object.add("due", counts.due).add("overdue", counts.overdue);
  object.add("oldest_due", counts.oldest_due).add("oldest_lease", counts.oldest_lease);
  object.add("oldest_ready_sent", sent_of(reading.ready)).add("oldest_unack_sent", sent_of(reading.unack));
  object.add("oldest_retry_sent", sent_of(reading.retry));
  object.add("oldest_dead", reading.dead ? reading.dead->at : std::nullopt);
  object.add("paused", counts.paused);
  if (reading.pause) add_pause(object, *reading.pause);
  if (counts.limits.rate || counts.limits.running || counts.limits.length) add_limits_of(object, counts);
  object.add("totals", totals);
  before == nullptr ? object.add_null("rates") : object.add("rates", rates);
  object.add_null("error");
  return object;
}

std::string with_age(const std::string& text, const std::optional<Time>& since, Time now) {
  return since ? text + since_text(*since, now) : "";
}

std::string with_time(const std::string& text, const std::optional<Time>& when, Time now) {
  return when ? text + ago_text(*when, now) : "";
}

std::string pending_text(const Counts& counts) {
  if (counts.due == 0) return with_time("the next is due ", counts.oldest_due, counts.now);
  return count_text(counts.due) + " due but not taken, the oldest " + with_age("", counts.oldest_due, counts.now);
}

std::string unack_text(const StatsReading& reading) {
  const Counts& counts = reading.counts;
  std::string text = with_time("the first lease ends ", counts.oldest_lease, counts.now);
  if (counts.overdue > 0) {
    text = counted(counts.overdue, "lease") + " ended and not taken back, the oldest " +
           with_age("", counts.oldest_lease, counts.now);
  }
  return text + with_age("; its message was sent ", sent_of(reading.unack), counts.now);
}

void write_states(Output& out, const StatsReading& reading) {
  const Counts& counts = reading.counts;
  const Time now = counts.now;
  Listing listing(out, {{"STATE"}, {"COUNT", true}, {""}}, "");
  const auto row = [&](const char* name, std::uint64_t count, const std::string& text, Colour colour) {
    listing.add({{name, Colour::bold}, {count_text(count), count == 0 ? Colour::dim : Colour::plain}, {text, colour}},
                {});
  };
  row("pending", counts.pending, pending_text(counts), counts.due > 0 ? Colour::yellow : Colour::plain);
  row("ready", counts.ready, with_age("the first was sent ", sent_of(reading.ready), now), Colour::plain);
  row("unack", counts.unack, counts.unack == 0 ? "" : unack_text(reading),
      counts.overdue > 0 ? Colour::yellow : Colour::plain);
  row("retry", counts.retry, with_age("the first was sent ", sent_of(reading.retry), now), Colour::plain);
  row("dead", counts.dead,
      with_age("the oldest became a dead letter ", reading.dead ? reading.dead->at : std::nullopt, now),
      counts.dead > 0 ? Colour::red : Colour::plain);
  row("garbage", counts.garbage, counts.garbage == 0 ? "" : "finished, not deleted yet", Colour::plain);
  listing.end();
}

std::string rate_text(const std::optional<double>& rate) {
  if (!rate) return "";
  char text[40];
  std::snprintf(text, sizeof text, *rate < 10 ? "%.1f/s" : "%.0f/s", *rate);
  return text;
}

void write_totals(Output& out, const StatsReading& reading, const StatsReading* before) {
  std::vector<Column> columns = {{"TOTAL"}, {"COUNT", true}};
  if (before != nullptr) columns.push_back({"RATE", true});
  Listing listing(out, columns, "");
  for (const Total& total : kTotals) {
    const std::uint64_t count = reading.counts.totals.*total.member;
    listing.add({{total.name},
                 {count_text(count), count == 0 ? Colour::dim : Colour::plain},
                 {rate_text(rate_of(total, reading, before))}},
                {});
  }
  listing.end();
}

std::string pause_text(const StatsReading& reading) {
  if (!reading.counts.paused) return "";
  std::string text = "paused";
  if (!reading.pause) return text;
  if (!reading.pause->reason.empty()) text += ": " + printable(reading.pause->reason);
  if (reading.pause->until) text += ", ends " + ago_text(*reading.pause->until, reading.counts.now);
  return text + pauser_text(*reading.pause, reading.counts.now);
}

void write_sheet(Output& out, const StatsReading& reading, const StatsReading* before) {
  if (reading.error) {
    out.line(out.paint(Colour::bold, printable(reading.queue)) + "  " +
             out.paint(Colour::red, printable(reading.error->text)));
    return;
  }
  std::string state = pause_text(reading);
  if (const std::string limits = limits_text(reading.counts); !limits.empty()) {
    state += (state.empty() ? "" : "; ") + limits;
  }
  out.line(out.paint(Colour::bold, printable(reading.queue)) + "  " + out.time(reading.counts.now) +
           (state.empty() ? "" : "  " + out.paint(Colour::yellow, state)));
  write_states(out, reading);
  out.line("");
  write_totals(out, reading, before);
}

void write(Output& out, const std::vector<StatsReading>& readings, const std::vector<StatsReading>& before,
           bool watches) {
  const auto former = [&](std::size_t i) { return before.empty() ? nullptr : &before[i]; };
  if (out.is_table()) {
    if (watches && out.is_terminal()) out.write("\033[H\033[2J");
    for (std::size_t i = 0; i < readings.size(); ++i) {
      if (i > 0) out.line("");
      write_sheet(out, readings[i], former(i));
    }
    if (watches && !out.is_terminal()) out.line("");
  } else {
    std::vector<Object> objects;
    for (std::size_t i = 0; i < readings.size(); ++i) objects.push_back(object_of(readings[i], former(i)));
    if (out.format() == Format::json) {
      out.object(Object().add("queues", objects));
    } else {
      for (const Object& object : objects) out.object(object);
    }
  }
  out.flush();
}

Exit stats(Context& context, const StatsArgs& args) {
  const bool watches = args.watch.has_value();
  if (args.count > 0 && !watches)
    throw Usage("--count: the number of readings of --watch; expected --watch 2s or the like, too");
  if (watches && args.watch->count() == 0) throw Usage("--watch: '0s'; expected at least 1ms");
  std::vector<StatsReading> before;
  for (std::uint64_t done = 1;; ++done) {
    std::vector<StatsReading> readings;
    RowErrors errors;
    context.use_short_timeouts(false);
    for (const std::string& queue : args.queues) {
      readings.push_back(read_queue(context, queue));
      errors.add(readings.back().error);
    }
    if (readings.size() == 1 && readings.front().error) {
      if (before.empty()) throw Failure(readings.front().error->code, readings.front().error->text);
      context.out().stderr_line("dqctl: " +
                                printable(readings.front().error->text));  // a watch continues until the server is back
    } else {
      write(context.out(), readings, before, watches);
      before = std::move(readings);
    }
    if (!watches || done == args.count || !sleep_for(*args.watch)) return errors.code();
  }
}

}  // namespace

void add_stats(Cli& cli, Context& context) {
  const auto args = std::make_shared<StatsArgs>();
  Command& command =
      cli.add("stats", "Shows what is in a queue, how old it is, and what has passed through",
              {"stats orders", "stats orders mails --watch 2s", "stats orders --watch 10s --count 2 -o ndjson"});
  command.arguments("QUEUE", args->queues, "One or more names")
      .duration("--watch", args->watch, "Repeat at this interval, with rates, until Ctrl-C")
      .number("--count", args->count, 1, 1'000'000'000, "End after this many readings");
  add_partition(command, context);
  command.run([&context, args] { return stats(context, *args); });
}

}  // namespace dqctl
