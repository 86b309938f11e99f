// dqctl top
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "commands.h"
#include "top/terminal.h"
#include "top/top.h"

namespace dqctl {
namespace {

constexpr milliseconds kTick{1000};  // updates ages and durations on the screen

struct TopArgs {
  std::vector<std::string> queues{};
  std::optional<milliseconds> interval{};
  bool read_only = false;
};

void show(Terminal& terminal, Poller& poller, Top& top, bool styles) {
  while (!top.over() && !terminal.ended()) {
    terminal.draw(top.draw(terminal.size(), poller.snapshot()), styles);
    poller.request_view(top.view_request());
    for (const Key& key : terminal.wait(kTick)) {
      if (key.kind == Key::Kind::control && key.text == "l") terminal.draw_all_next();
      top.press(key, poller.snapshot());
      if (const auto change = top.take_confirmed()) poller.request_change(*change);
    }
  }
}

Exit watch(Context& context, const TopArgs& args) {
  if (!context.out().is_table()) throw Usage("-o: top is for people; expected dqctl stats --watch 2s -o ndjson");
  if (!Terminal::is_there()) {
    throw Usage("top needs a terminal on stdin and stdout; expected dqctl stats QUEUE --watch 2s elsewhere");
  }
  TopOptions options;
  options.where = context.shown_uri();
  options.interval = args.interval.value_or(options.interval);
  options.utc = context.options.utc;
  options.read_only = args.read_only;
  if (options.interval < milliseconds(100)) {
    throw Usage("--interval: '" + span_text(options.interval) + "'; expected at least 100ms");
  }
  std::unique_ptr<Terminal> terminal;
  Poller poller(context, args.queues, options.interval, [&] { terminal->wake(); });
  terminal = std::make_unique<Terminal>();
  poller.start();
  Top top(options);
  show(*terminal, poller, top, context.out().colours());
  const Exit code = terminal->ended() ? Exit::interrupted : Exit::done;
  terminal->leave();
  if (!poller.stop(milliseconds(200))) std::_Exit(static_cast<int>(code));  // the thread still waits for a server
  return code;
}

}  // namespace

void add_top(Cli& cli, Context& context) {
  const auto args = std::make_shared<TopArgs>();
  cli.add("top", "Shows queues on the whole screen, updated at an interval", {"top", "top orders mails --interval 1s"})
      .arguments("QUEUE", args->queues, "Their names; none: all there are", false)
      .duration("--interval", args->interval, "Time between two polls (2s)")
      .flag("--read-only", args->read_only, "No key changes a queue or a message")
      .run([&context, args] { return watch(context, *args); });
}

}  // namespace dqctl
