// dqctl redrive
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>

#include "acting.h"
#include "commands.h"
#include "pages.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::Inspector;
using delayqueue::MessageInfo;
using delayqueue::Redriven;
using delayqueue::State;
using Clock = std::chrono::steady_clock;

struct Args {
  std::string queue{};
  std::vector<std::string> ids{};
  bool all = false;
  Filter filter{};
  std::optional<double> rate{};
  std::optional<std::string> to{};
  int retries = 3;
  bool create = false;
  bool yes = false;
};

// No faster than so many a second, evenly.
class Pace {
 public:
  explicit Pace(std::optional<double> rate) : rate_(rate) {}

  // How many may go at once.
  std::size_t most(std::size_t most) const {
    return rate_ ? static_cast<std::size_t>(std::clamp(*rate_ / 10, 1.0, static_cast<double>(most))) : most;
  }

  // Waits until it is the turn of the next; false if a signal came.
  bool wait() const {
    if (!rate_) return !interrupted();
    const std::chrono::duration<double> spent(done_ / *rate_);
    const auto left = begin_ + std::chrono::duration_cast<Clock::duration>(spent) - Clock::now();
    if (left.count() <= 0) return !interrupted();
    return sleep_for(std::chrono::duration_cast<milliseconds>(left) + milliseconds(1));
  }

  void went(std::size_t more) { done_ += static_cast<double>(more); }

 private:
  const std::optional<double> rate_;
  const Clock::time_point begin_ = Clock::now();
  double done_ = 0;
};

enum class Became { redriven, no_body, exists, unknown };

class Redrive {
 public:
  Redrive(Context& context, const Args& args)
      : from_(context.inspector(args.queue)),
        to_(args.to ? &context.inspector(*args.to) : nullptr),
        retries_(args.retries) {}

  std::vector<Became> run(const std::vector<std::string>& ids) {
    if (to_ != nullptr) return move(ids);
    delayqueue::RedriveOptions options;
    options.retries = retries_;
    std::vector<Became> became;
    for (const Redriven outcome : from_.redrive(ids, options)) {
      became.push_back(outcome == Redriven::redriven  ? Became::redriven
                       : outcome == Redriven::no_body ? Became::no_body
                                                      : Became::unknown);
    }
    return became;
  }

 private:
  // First there, then away from here: what breaks in between is in both, and moved when it is run again.
  std::vector<Became> move(const std::vector<std::string>& ids) {
    std::vector<std::optional<MessageInfo>> found = from_.find(ids, kBrought);
    std::vector<Became> outcomes;
    std::set<std::string> taken;  // another message has this id there
    std::vector<std::string> gone;
    std::vector<MessageInfo> batch;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (found[i] && found[i]->size.value_or(0) > found[i]->payload.size()) found[i] = from_.find(ids[i]);
      const bool dead = found[i] && found[i]->state == State::dead;
      outcomes.push_back(!dead ? Became::unknown : found[i]->size ? Became::redriven : Became::no_body);
      if (!dead) continue;
      gone.push_back(ids[i]);
      if (!found[i]->size) continue;
      bytes += found[i]->payload.size();
      batch.push_back(as_new(std::move(*found[i])));
      if (bytes < kBatchBytes) continue;
      bring(batch, taken);
      batch.clear();
      bytes = 0;
    }
    bring(batch, taken);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (taken.count(ids[i]) > 0) outcomes[i] = Became::exists;
    }
    gone.erase(std::remove_if(gone.begin(), gone.end(), [&](const auto& id) { return taken.count(id) > 0; }),
               gone.end());
    from_.purge(State::dead, gone);
    return outcomes;
  }

  // What was there before is ours if a run that broke brought it: then it is alive, and has the same payload.
  void bring(const std::vector<MessageInfo>& batch, std::set<std::string>& taken) {
    const std::vector<delayqueue::Sent> sent = to_->restore(batch);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      if (sent[i].created) continue;
      const std::optional<MessageInfo> there = to_->find(sent[i].id);
      const bool ours = there && there->state != State::dead && there->payload == batch[i].payload;
      if (!ours) taken.insert(sent[i].id);
    }
  }

  MessageInfo as_new(MessageInfo message) const {
    message.state = State::ready;
    message.retries = retries_;
    message.deliveries = 0;
    message.reason.clear();
    return message;
  }

  static constexpr std::size_t kBrought = 16 * 1024;  // of a payload at once; the rest by itself
  static constexpr std::size_t kBatchBytes = 4U << 20U;

  Inspector& from_;
  Inspector* to_;
  const int retries_;
};

Exit by_ids(Context& context, const Args& args) {
  Ids ids(context.out(), args.ids);
  context.counts(args.queue);
  if (const auto code = dry_run(context.out(), "redrive", args.queue, ids, args.yes)) return *code;
  Redrive redrive(context, args);
  Pace pace(args.rate);
  Tally tally(context.out(), args.queue);
  return tally.run(ids, [&](const std::vector<std::string>& some) {
    const std::size_t most = pace.most(some.size());
    for (std::size_t next = 0; next < some.size() && pace.wait();) {
      const auto begin = some.begin() + static_cast<std::ptrdiff_t>(next);
      const std::vector<std::string> step(begin,
                                          begin + static_cast<std::ptrdiff_t>(std::min(most, some.size() - next)));
      const auto outcomes = redrive.run(step);
      for (std::size_t i = 0; i < step.size(); ++i) {
        tally.add(step[i],
                  outcomes[i] == Became::redriven  ? "redriven"
                  : outcomes[i] == Became::no_body ? "its body is gone: removed"
                  : outcomes[i] == Became::exists  ? "the other queue has another message with this id: left alone"
                                                   : "not among the dead",
                  outcomes[i] == Became::redriven  ? Grade::good
                  : outcomes[i] == Became::unknown ? Grade::unknown
                                                   : Grade::refused);
      }
      next += step.size();
      pace.went(step.size());
    }
  });
}

Exit by_filter(Context& context, const Args& args) {
  Output& out = context.out();
  const Counts counts = context.counts(args.queue);
  const std::string verb = args.to ? "redrive to " + in_quotes(*args.to) + ' ' : "redrive";
  if (!args.yes) return dry_run(context, verb, args.queue, State::dead, args.filter, counts);
  Redrive redrive(context, args);
  Pace pace(args.rate);
  Pages pages(context.inspector(args.queue), State::dead, args.filter, counts, Pages::Payload::start, 500);
  std::vector<MessageInfo> some;
  std::size_t at = 0;
  std::uint64_t bodiless = 0, exist = 0, foreign = 0;
  const Steps steps = in_steps(out, "redriven", 0, [&]() -> std::optional<std::uint64_t> {
    while (at == some.size()) {
      at = 0;
      const bool more = pages.next(some);
      foreign = pages.foreign();
      if (!more) return std::nullopt;
    }
    if (!pace.wait()) return std::nullopt;
    std::vector<std::string> ids;
    for (const std::size_t most = pace.most(500); at < some.size() && ids.size() < most; ++at)
      ids.push_back(some[at].id);
    const auto outcomes = redrive.run(ids);
    const auto count = [&](Became outcome) {
      return static_cast<std::uint64_t>(std::count(outcomes.begin(), outcomes.end(), outcome));
    };
    bodiless += count(Became::no_body);
    exist += count(Became::exists);
    pages.freed(count(Became::redriven) + count(Became::no_body));
    pace.went(ids.size());
    return count(Became::redriven);
  });
  if (out.is_table()) {
    out.line("redriven " + counted(steps.done, "message") + " of " + in_quotes(args.queue) +
             (args.to ? " to " + in_quotes(*args.to) : ""));
    if (bodiless > 0) out.say(count_text(bodiless) + " had lost their body, and are removed");
    if (exist > 0) {
      out.say(count_text(exist) + " are left alone: " + in_quotes(*args.to) + " has other messages with their ids");
    }
  } else {
    Object object;
    object.add("queue", args.queue)
        .add("to", args.to)
        .add("redriven", steps.done)
        .add("no_body", bodiless)
        .add("exist", exist)
        .add("foreign", foreign);
    add_ending(object, steps);
    out.object(object);
  }
  say_foreign(out, args.queue, foreign);
  return exist + foreign > 0 && steps.code() == Exit::done ? Exit::partly : steps.code();
}

// A mistyped --to would make a queue that no consumer serves.
void must_exist(Context& context, const std::string& queue) {
  try {
    context.counts(queue);
  } catch (const Failure& failure) {
    throw Failure(failure.code(), std::string("--to: ") + failure.what() + "; --create makes it");
  }
}

Exit redrive(Context& context, const Args& args) {
  if (!args.ids.empty() && (args.all || args.filter.any())) {
    throw Usage("ID...: expected either ids, or --all, --match, --reason, --older-than");
  }
  if (args.to == args.queue) throw Usage("--to: " + in_quotes(*args.to) + "; expected another queue");
  if (args.create && !args.to) throw Usage("--create: makes the queue of --to; expected --to QUEUE, too");
  if (args.to && !args.create) must_exist(context, *args.to);
  if (!args.ids.empty()) return by_ids(context, args);
  if (!args.all && !args.filter.any()) {
    throw Usage("which: expected ids, or --all, --match, --reason, --older-than; see dqctl redrive --help");
  }
  return by_filter(context, args);
}

}  // namespace

void add_redrive(Cli& cli, Context& context) {
  const auto args = std::make_shared<Args>();
  Command& command = cli.add(
      "redrive", "Lets dead messages live again; without ids or --yes only says which",
      {"redrive orders 0197f3a4-5b6c-7d8e-9f01-23456789abcd", "redrive orders --reason 'gateway*' --rate 100/s --yes",
       "redrive orders --all --to orders-slow --create --yes"});
  command.argument("QUEUE", args->queue, "The queue")
      .arguments("ID...", args->ids, "Ids; or - for those that stdin has, one a line, plain or as ls -o ndjson", false)
      .flag("--all", args->all, "All that are dead");
  add_filter(command, args->filter);
  command
      .taken(
          "--rate", [args](const std::string& value) { args->rate = parse_rate("--rate", value); }, "RATE",
          "No faster than that: 100/s, 6000/m")
      .optional_text("--to", args->to, "QUEUE", "Into another queue of this server, with the same ids")
      .flag("--create", args->create, "Let --to make a queue that does not exist yet")
      .number("--retries", args->retries, 0, 2'147'483'647, "Deliveries after the first (3)")
      .flag("--yes", args->yes, "Do it")
      .run([&context, args] { return redrive(context, *args); });
}

}  // namespace dqctl
