// dqctl stuck
#include <algorithm>
#include <limits>

#include "commands.h"
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

std::optional<MessageInfo> head_of(Inspector& inspector, State state) {
  MessagePage page = page_of(inspector, state, 1);
  return page.empty() ? std::nullopt : std::optional(std::move(page.messages.front()));
}

void add(Sample& sample, const MessageInfo& message, int hot) {
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

Sample sample_of(Inspector& inspector, int hot) {
  Sample sample;
  for (const State state : {State::pending, State::ready, State::unack, State::retry, State::dead}) {
    for (const MessageInfo& message : page_of(inspector, state, kSampled)) add(sample, message, hot);
  }
  return sample;
}

// Whether those are there still, and still without a body.
void look_again(Inspector& inspector, Sample& sample) {
  for (const auto& message : inspector.find(sample.without_body, 0)) {
    if (message && !message->size && sample.no_body++ == 0) sample.no_body_id = message->id;
  }
}

std::string id_of(const std::optional<MessageInfo>& message) { return message ? message->id : ""; }

Evidence gather(Context& context, const Args& args) {
  Inspector& inspector = context.inspector(args.queue);
  Evidence seen;
  seen.before = context.counts(args.queue);
  const std::string ready = id_of(head_of(inspector, State::ready));
  const std::string retry = id_of(head_of(inspector, State::retry));
  seen.sample = sample_of(inspector, args.options.hot);
  const bool something_waits = !ready.empty() || !retry.empty() || seen.before.due > 0 || seen.before.overdue > 0 ||
                               !seen.sample.without_body.empty();
  if (something_waits) sleep_for(*args.options.look);
  look_again(inspector, seen.sample);
  seen.now = inspector.counts();
  if (seen.now.paused) seen.pause = inspector.paused();
  seen.first_ready = head_of(inspector, State::ready);
  seen.first_retry = head_of(inspector, State::retry);
  seen.first_unack = head_of(inspector, State::unack);
  seen.heads_moved =
      (!ready.empty() && id_of(seen.first_ready) != ready) || (!retry.empty() && id_of(seen.first_retry) != retry);
  return seen;
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
    if (!trouble.example.empty()) out.line("  such as " + trouble.example);
    out.line("  do      " + trouble.todo);
  }
}

Exit stuck(Context& context, const Args& args) {
  if (*args.options.crit < *args.options.warn) throw Usage("--crit: less than --warn; expected the same or more");
  Output& out = context.out();
  const Evidence seen = gather(context, args);
  if (interrupted()) return Exit::interrupted;
  const std::vector<Trouble> troubles = find_troubles(seen, args.queue, args.options);
  const Level level = troubles.empty() ? Level::ok : troubles.front().level;
  if (out.is_table()) {
    write(out, args.queue, level, troubles);
  } else {
    std::vector<Object> objects;
    for (const Trouble& trouble : troubles) objects.push_back(object_of(trouble));
    out.object(Object().add("queue", args.queue).add("level", to_string(level)).add("findings", objects));
  }
  return level == Level::ok ? Exit::done : Exit::threshold;
}

}  // namespace

void add_stuck(Cli& cli, Context& context) {
  const auto args = std::make_shared<Args>();
  cli.add("stuck", "Says what should have moved and has not, and why; exit code 5 if there is such",
          {"stuck orders", "stuck orders --warn 30s --crit 5m -o json"})
      .argument("QUEUE", args->queue, "Its name")
      .duration("--warn", args->options.warn, "What waits longer is a warning (1m)")
      .duration("--crit", args->options.crit, "What waits longer is critical (10m)")
      .duration("--look", args->options.look, "How long to watch whether anything moves (1s)")
      .number("--hot", args->options.hot, 2, 1'000'000, "Deliveries from which on a message is hot (5)")
      .run([&context, args] { return stuck(context, *args); });
}

}  // namespace dqctl
