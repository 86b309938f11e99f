// dqctl redrive
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>

#include "acting.h"
#include "commands.h"
#include "operator_lock.h"
#include "pages.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::Inspector;
using delayqueue::MessageInfo;
using delayqueue::Outcome;
using delayqueue::QueueAdmin;
using delayqueue::State;
using Clock = std::chrono::steady_clock;

struct RedriveArgs {
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

// Limits the number of messages per second, evenly.
class RateLimiter {
 public:
  explicit RateLimiter(std::optional<double> rate) : rate_(rate) {}

  // How many may be redriven at once.
  std::size_t most(std::size_t most) const {
    return rate_ ? static_cast<std::size_t>(std::clamp(*rate_ / 10, 1.0, static_cast<double>(most))) : most;
  }

  // Waits until the next batch may start; false if a signal arrived.
  bool wait() const {
    if (!rate_) return !interrupted();
    const std::chrono::duration<double> spent(done_ / *rate_);
    const auto left = begin_ + std::chrono::duration_cast<Clock::duration>(spent) - Clock::now();
    if (left.count() <= 0) return !interrupted();
    return sleep_for(std::chrono::duration_cast<milliseconds>(left) + milliseconds(1));
  }

  void add_done(std::size_t more) { done_ += static_cast<double>(more); }

 private:
  const std::optional<double> rate_;
  const Clock::time_point begin_ = Clock::now();
  double done_ = 0;
};

// copied: another process took the message out of the dead letters while it was copied.
enum class RedriveOutcome { redriven, no_body, key_taken, exists, copied, unknown };

class Redrive {
 public:
  Redrive(Context& context, const RedriveArgs& args)
      : out_(context.out()),
        from_(context.inspector(args.queue)),
        from_admin_(context.admin(args.queue)),
        to_(args.to ? &context.inspector(*args.to) : nullptr),
        to_admin_(args.to ? &context.admin(*args.to) : nullptr),
        retries_(args.retries) {}

  // Redrives at most kRoundTrip ids. Returns what this call did: a message that another process moved meanwhile is
  // `unknown`.
  std::vector<RedriveOutcome> run(const std::vector<std::string>& ids) {
    unanswered_ = ids.size();
    std::vector<RedriveOutcome> outcomes = to_ != nullptr ? move(ids) : redrive(ids);
    unanswered_ = 0;
    return outcomes;
  }

  const std::uint64_t& unanswered() const { return unanswered_; }

 private:
  struct Copy {
    bool there = false;      // in the target queue, copied by this run or by one that was interrupted
    bool created = false;    // copied by this run
    bool key_taken = false;  // not copied: another message there has its unique key
  };

  std::vector<RedriveOutcome> redrive(const std::vector<std::string>& ids) {
    delayqueue::RedriveOptions options;
    options.retries = retries_;
    std::vector<RedriveOutcome> outcomes;
    for (const Outcome outcome : from_admin_.redrive(ids, options)) {
      outcomes.push_back(outcome == Outcome::done         ? RedriveOutcome::redriven
                         : outcome == Outcome::no_payload ? RedriveOutcome::no_body
                         : outcome == Outcome::key_taken  ? RedriveOutcome::key_taken
                                                          : RedriveOutcome::unknown);
    }
    return outcomes;
  }

  // Copies the messages to the target queue first, then removes them here. After a crash in between they are in both
  // queues, and the next run moves them. If several runs copied a message, the one that removes it here has moved it.
  std::vector<RedriveOutcome> move(const std::vector<std::string>& ids) {
    const OperatorLock lock(out_, from_admin_);
    std::vector<std::optional<MessageInfo>> found = from_.find_all(ids, kPayloadInBatch);
    std::map<std::string, Copy> copies;
    std::vector<std::string> gone;
    std::vector<MessageInfo> batch;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (found[i] && found[i]->size.value_or(0) > found[i]->payload.size()) found[i] = from_.find(ids[i]);
      if (!found[i] || found[i]->state != State::dead || !found[i]->size) continue;
      bytes += found[i]->payload.size();
      batch.push_back(as_new(*found[i]));
      found[i]->payload.clear();
      if (bytes < kBatchBytes) continue;
      copy_to_target(batch, copies);
      batch.clear();
      bytes = 0;
    }
    copy_to_target(batch, copies);
    const auto is_dead = [&](std::size_t i) { return found[i] && found[i]->state == State::dead; };
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (is_dead(i) && (!found[i]->size || copies[ids[i]].there)) gone.push_back(ids[i]);
    }
    const delayqueue::Purged purged = from_admin_.purge_ids(State::dead, gone);
    std::vector<RedriveOutcome> outcomes;
    for (std::size_t i = 0, next = 0; i < ids.size(); ++i) {
      const bool requested = next < gone.size() && gone[next] == ids[i];
      const bool done = requested && purged.purged[next];
      if (requested) ++next;
      outcomes.push_back(!is_dead(i)  ? RedriveOutcome::unknown
                         : !requested ? (copies[ids[i]].key_taken ? RedriveOutcome::key_taken : RedriveOutcome::exists)
                         : done && found[i]->size ? RedriveOutcome::redriven
                         : done                   ? RedriveOutcome::no_body
                         : copies[ids[i]].created ? RedriveOutcome::copied
                                                  : RedriveOutcome::unknown);
    }
    return outcomes;
  }

  // Copies messages to the target queue. One that is there already counts as our copy if an interrupted run may have
  // made it: it is not dead and has the same payload and headers. If it is gone before it can be read, a consumer has
  // finished it.
  // It is then copied again, because the message here was not delivered.
  void copy_to_target(const std::vector<MessageInfo>& batch, std::map<std::string, Copy>& copies) {
    const std::vector<delayqueue::Sent> sent = to_admin_->restore(batch);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      delayqueue::Sent one = sent[i];
      std::optional<MessageInfo> there;
      for (int tries = 0; tries < 3 && !one.created() && one.result != delayqueue::SendResult::kept && !there;
           ++tries) {
        there = to_->find(one.id);
        if (!there) one = to_admin_->restore({batch[i]}).front();
      }
      const bool ours = there && there->state != State::dead && one.result != delayqueue::SendResult::cancelled &&
                        there->payload == batch[i].payload && there->headers == batch[i].headers;
      copies[one.id] = {one.created() || ours, one.created(), one.result == delayqueue::SendResult::kept};
    }
  }

  MessageInfo as_new(MessageInfo message) const {
    message.state = State::ready;
    message.retries = retries_;
    message.deliveries = 0;
    message.reason.clear();
    return message;
  }

  // Bytes fetched with a batch; a longer payload is fetched alone.
  static constexpr std::size_t kPayloadInBatch = 16 * 1024;
  static constexpr std::size_t kBatchBytes = 4U << 20U;

  Output& out_;
  Inspector& from_;
  QueueAdmin& from_admin_;
  Inspector* to_;
  QueueAdmin* to_admin_;
  const int retries_;
  std::uint64_t unanswered_ = 0;
};

const char* text_of(RedriveOutcome outcome) {
  switch (outcome) {
    case RedriveOutcome::redriven:
      return "redriven";
    case RedriveOutcome::no_body:
      return "its body is gone: removed";
    case RedriveOutcome::key_taken:
      return "another message has its unique key: left alone";
    case RedriveOutcome::exists:
      return "the other queue has a message with this id that is not its copy, dead or cancelled: left alone";
    case RedriveOutcome::copied:
      return "left the dead while it was copied: the other queue has a copy";
    case RedriveOutcome::unknown:
      break;
  }
  return "not among the dead";
}

void note(Context& context, const RedriveArgs& args, std::uint64_t redriven, std::uint64_t unconfirmed) {
  context.note_change(args.queue, redriven, unconfirmed);
  if (args.to) context.note_change(*args.to, redriven, unconfirmed);
}

Exit by_ids(Context& context, const RedriveArgs& args) {
  IdReader ids(context.out(), args.ids);
  context.counts(args.queue);
  if (const auto code = dry_run(context.out(), "redrive", args.queue, ids, args.yes)) return *code;
  Redrive redrive(context, args);
  RateLimiter limiter(args.rate);
  OutcomeReport report(context.out(), args.queue);
  const auto act = [&](const std::vector<std::string>& some) {
    if (!limiter.wait()) return;
    const std::vector<RedriveOutcome> outcomes = redrive.run(some);
    for (std::size_t i = 0; i < some.size(); ++i) {
      report.add(some[i], text_of(outcomes[i]),
                 outcomes[i] == RedriveOutcome::redriven  ? Grade::good
                 : outcomes[i] == RedriveOutcome::unknown ? Grade::unknown
                                                          : Grade::refused);
    }
    limiter.add_done(some.size());
  };
  const Exit code = report.run(ids, act, limiter.most(kRoundTrip));
  note(context, args, report.done(), report.unconfirmed());
  return code;
}

Exit by_filter(Context& context, const RedriveArgs& args) {
  Output& out = context.out();
  const Counts counts = context.counts(args.queue);
  const std::string verb = args.to ? "redrive to " + in_quotes(*args.to) : "redrive";
  if (!args.yes) return dry_run(context, verb, args.queue, State::dead, args.filter, counts);
  Redrive redrive(context, args);
  RateLimiter limiter(args.rate);
  Pages pages(context.inspector(args.queue), State::dead, args.filter, counts, Pages::Payload::none, Pages::Use::remove,
              500);
  std::vector<MessageInfo> some;
  std::size_t at = 0;
  std::map<RedriveOutcome, std::uint64_t> counts_of_outcomes;
  const auto step = [&]() -> std::optional<std::uint64_t> {
    while (at == some.size()) {
      at = 0;
      if (!pages.next(some)) return std::nullopt;
    }
    if (!limiter.wait()) return std::nullopt;
    std::vector<std::string> ids;
    for (const std::size_t most = limiter.most(kRoundTrip); at < some.size() && ids.size() < most; ++at)
      ids.push_back(some[at].id);
    const auto outcomes = redrive.run(ids);
    std::uint64_t done = 0;
    for (const RedriveOutcome outcome : outcomes) {
      ++counts_of_outcomes[outcome];
      if (outcome == RedriveOutcome::redriven) ++done;
    }
    limiter.add_done(ids.size());
    return done;
  };
  const Steps steps = in_steps(out, "redriven", 0, step, &redrive.unanswered());
  note(context, args, steps.done, steps.unconfirmed);
  const std::uint64_t bodiless = counts_of_outcomes[RedriveOutcome::no_body],
                      exist = counts_of_outcomes[RedriveOutcome::exists],
                      key_taken = counts_of_outcomes[RedriveOutcome::key_taken];
  const std::uint64_t copied = counts_of_outcomes[RedriveOutcome::copied],
                      elsewhere = counts_of_outcomes[RedriveOutcome::unknown], foreign = pages.foreign();
  if (out.is_table()) {
    out.line("redriven " + counted(steps.done, "message") + " of " + in_quotes(args.queue) +
             (args.to ? " to " + in_quotes(*args.to) : ""));
    if (bodiless > 0) out.stderr_line("removed: " + counted(bodiless, "message") + " without a body");
    if (elsewhere > 0)
      out.stderr_line("not redriven: " + counted(elsewhere, "message") + " that left the dead in the meantime");
    if (key_taken > 0)
      out.stderr_line("left alone: " + counted(key_taken, "message") + " whose unique key another message has");
    if (exist > 0) {
      out.stderr_line("left alone: " + counted(exist, "message") + " whose id another message has in " +
                      in_quotes(*args.to) + ", or whose copy there is dead or cancelled");
    }
    if (copied > 0) {
      out.stderr_line("copied, not moved: " + counted(copied, "message") + " that left the dead in the meantime; " +
                      in_quotes(*args.to) + " has a copy of each");
    }
  } else {
    Object object;
    object.add("queue", args.queue)
        .add("to", args.to)
        .add("redriven", steps.done)
        .add("no_body", bodiless)
        .add("key_taken", key_taken)
        .add("exist", exist)
        .add("left_alone", elsewhere)
        .add("copied", copied)
        .add("foreign", foreign)
        .add("unconfirmed", steps.unconfirmed);
    add_ending(object, steps);
    out.object(object);
  }
  report_foreign_ids(out, args.queue, foreign);
  report_unfinished(out, pages);
  const bool left = exist + key_taken + foreign + copied > 0 || pages.unfinished();
  return left && steps.code() == Exit::done ? Exit::partly : steps.code();
}

// A mistyped --to would create a queue without a consumer.
void must_exist(Context& context, const std::string& queue) {
  try {
    context.counts(queue);
  } catch (const Failure& failure) {
    throw Failure(failure.code(), std::string("--to: ") + failure.what() + "; --create makes it");
  }
}

Exit redrive(Context& context, const RedriveArgs& args) {
  if (!args.ids.empty() && (args.all || args.filter.any())) {
    throw Usage("ID...: expected either ids, or --all, --match, --reason, --older-than");
  }
  if (args.to == args.queue) throw Usage("--to: " + in_quotes(*args.to) + "; expected another queue");
  if (args.to && context.options.partition) throw Usage("--partition: expected none with --to");
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
  const auto args = std::make_shared<RedriveArgs>();
  Command& command = cli.add(
      "redrive", "Makes dead letters ready again; without ids or --yes only shows which",
      {"redrive orders 0197f3a4-5b6c-7d8e-9f01-23456789abcd", "redrive orders --reason 'gateway*' --rate 100/s --yes",
       "redrive orders --all --to orders-slow --create --yes"});
  command.argument("QUEUE", args->queue, "The queue")
      .arguments("ID...", args->ids, "Ids; - reads them from stdin, one a line, plain or as ls -o ndjson", false)
      .flag("--all", args->all, "All that are dead");
  add_filter(command, args->filter);
  add_partition(command, context);
  command
      .custom(
          "--rate", [args](const std::string& value) { args->rate = parse_rate("--rate", value); }, "RATE",
          "No faster than that: 100/s, 6000/m")
      .text("--to", args->to, "QUEUE",
            "Into another queue of this server, with the same ids. A run that is killed may leave a batch "
            "(200) in both: run it again; messages that were finished there by then are delivered twice")
      .flag("--create", args->create, "Let --to make a queue that does not exist yet")
      .number("--retries", args->retries, 0, 2'147'483'647, "Deliveries after the first (3)")
      .flag("--yes", args->yes, "Do it")
      .run([&context, args] { return redrive(context, *args); });
}

}  // namespace dqctl
