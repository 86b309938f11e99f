// dqctl events
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "commands.h"
#include "output/table.h"
#include "signals.h"

namespace dqctl {
namespace {

using Clock = std::chrono::steady_clock;
using delayqueue::Event;
using delayqueue::EventKind;

constexpr milliseconds kPoll{100};            // delay until a signal is noticed
constexpr milliseconds kReconnectPause{500};  // between two attempts to reconnect
constexpr milliseconds kSilence{3000};

struct EventsArgs {
  std::string queue{};
  bool follow = false;
  std::optional<milliseconds> span{};
  std::uint64_t limit = 0;
};

Colour colour_of(EventKind kind) {
  if (kind == EventKind::dead_lettered) return Colour::red;
  return kind == EventKind::nacked || kind == EventKind::retried ? Colour::yellow : Colour::plain;
}

class EventFollower {
 public:
  EventFollower(Context& context, const EventsArgs& args)
      : args_(args),
        out_(context.out()),
        inspector_(context.inspector(args.queue)),
        listing_(out_, {{"TIME"}, {"EVENT"}, {"COUNT", true}}, "events", Object().add("queue", args.queue)) {}

  Exit run();

 private:
  bool over() const;
  std::optional<Event> next();
  void show(const Event& event);
  void hint();

  const EventsArgs& args_;
  Output& out_;
  delayqueue::Inspector& inspector_;
  Listing listing_;
  const Clock::time_point begin_ = Clock::now();
  std::uint64_t shown_ = 0;
  bool hinted_ = false, disconnected_ = false;
};

Exit EventFollower::run() {
  std::optional<Event> event = inspector_.next_event(milliseconds(1));  // subscribes
  out_.stderr_line("listening; only processes with report_events (Go: EnableReport) send events");
  while (true) {
    if (event) show(*event);
    if (!event) hint();
    if (over()) break;
    event = next();
  }
  listing_.end();
  return Exit::done;
}

bool EventFollower::over() const {
  const bool enough = args_.limit > 0 && shown_ >= args_.limit;
  return enough || interrupted() || (args_.span && Clock::now() - begin_ >= *args_.span);
}

std::optional<Event> EventFollower::next() {
  try {
    std::optional<Event> event = inspector_.next_event(kPoll);
    if (std::exchange(disconnected_, false)) out_.stderr_line("listening again");
    return event;
  } catch (const delayqueue::ConnectionError& error) {
    if (!std::exchange(disconnected_, true))
      out_.stderr_line("dqctl: " + printable(error.what()) + "; events are lost until it is back");
    sleep_for(kReconnectPause);
    return std::nullopt;
  }
}

void EventFollower::show(const Event& event) {
  ++shown_;
  std::string name = delayqueue::to_string(event.kind);
  Object object;
  object.add("time", event.at).add("event", name).add("count", event.count);
  name.resize(9, ' ');  // fixed width: rows are written one at a time
  listing_.add({{out_.time(event.at)}, {name, colour_of(event.kind)}, {count_text(event.count)}}, object);
  listing_.flush();
}

// Explains silence once, if no event ever arrived: an idle queue has no events either.
void EventFollower::hint() {
  if (hinted_ || shown_ > 0 || disconnected_ || Clock::now() - begin_ < kSilence) return;
  hinted_ = true;
  out_.stderr_line("no event so far: does any producer or consumer of " + in_quotes(args_.queue) +
                   " set report_events (Go: EnableReport)? " + command_text("stats", {args_.queue}, "--watch 2s") +
                   " shows rates without it");
}

Exit follow(Context& context, const EventsArgs& args) {
  context.counts(args.queue);
  return EventFollower(context, args).run();
}

}  // namespace

void add_events(Cli& cli, Context& context) {
  const auto args = std::make_shared<EventsArgs>();
  cli.add("events", "Shows what happens in a queue, live",
          {"events orders --follow", "events orders --for 1m -o ndjson"})
      .argument("QUEUE", args->queue, "Its name")
      .flag("-f,--follow", args->follow, "Until Ctrl-C (also without --for and --limit)")
      .duration("--for", args->span, "End after this time")
      .number("--limit", args->limit, 1, 1'000'000'000, "End after this many lines")
      .run([&context, args] { return follow(context, *args); });
}

}  // namespace dqctl
