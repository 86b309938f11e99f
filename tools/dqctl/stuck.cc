#include "stuck.h"

#include <algorithm>
#include <chrono>

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::MessageInfo;
using delayqueue::State;

constexpr const char* kNoConsumer =
    "no consumer runs on this queue: one that does takes back and moves what is due within seconds";
constexpr std::size_t kReasonsShown = 3;
constexpr std::size_t kReasonWidth = 60;

std::string reasons_text(const std::map<std::string, std::uint64_t>& reasons) {
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (const auto& [reason, count] : reasons) order.emplace_back(count, reason);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < order.size() && i < kReasonsShown; ++i) {
    const std::string reason =
        order[i].second.empty() ? "no reason noted" : cut(printable(order[i].second), kReasonWidth);
    text += (i == 0 ? "" : "; ") + count_text(order[i].first) + "x " + reason;
  }
  if (order.size() > kReasonsShown) text += "; " + counted(order.size() - kReasonsShown, "other reason");
  return text;
}

class Finder {
 public:
  Finder(const Evidence& evidence, const std::string& queue, const StuckOptions& options)
      : seen_(evidence), now_(evidence.now), queue_(queue), options_(options) {}

  std::vector<Trouble> run() {
    paused();
    due();
    lease_ended();
    waiting();
    held();
    hot_retries();
    no_body();
    dead();
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.level > b.level; });
    return std::move(found_);
  }

 private:
  Level level_of(milliseconds age) const {
    return age >= *options_.crit ? Level::critical : age >= *options_.warn ? Level::warning : Level::ok;
  }

  bool works() const {  // whether somebody took or finished anything between the looks
    const auto& before = seen_.before.totals;
    const auto& after = now_.totals;
    return after.delivered > before.delivered || after.acked > before.acked || after.nacked > before.nacked ||
           after.retried > before.retried || seen_.heads_moved;
  }

  void paused() {
    if (!seen_.pause) return;
    Trouble trouble;
    trouble.kind = "paused";
    trouble.count = now_.due + now_.ready + now_.retry;
    if (now_.due > 0 && now_.oldest_due) trouble.age = age_between(*now_.oldest_due, now_.now);
    if (trouble.count > 0) trouble.level = std::max(Level::warning, level_of(trouble.age.value_or(milliseconds(0))));
    trouble.what = "the queue is paused, and " + counted(trouble.count, "message", "waits", "wait") + " to be taken";
    if (trouble.age) trouble.what += ", the oldest for " + span_text(*trouble.age);
    trouble.why = seen_.pause->why.empty() ? "paused without a reason" : "paused: " + printable(seen_.pause->why);
    trouble.why += seen_.pause->until ? "; it ends " + ago_text(*seen_.pause->until, now_.now) : "; it has no end";
    trouble.todo = command_text("resume", {queue_});
    found_.push_back(trouble);
  }

  void due() {
    if (now_.due == 0 || !now_.oldest_due) return;
    Trouble trouble;
    trouble.kind = "due";
    trouble.age = age_between(*now_.oldest_due, now_.now);
    trouble.level = level_of(*trouble.age);
    if (trouble.level == Level::ok) return;
    trouble.count = now_.due;
    trouble.what =
        counted(now_.due, "message", "is", "are") + " due and not taken, the oldest for " + span_text(*trouble.age);
    trouble.why = works()       ? "consumers run, but fall behind"
                  : seen_.pause ? "the queue is paused, or no consumer runs"
                                : kNoConsumer;
    trouble.todo = works() ? "add consumers or concurrency"
                           : "start a worker, and look: " + command_text("stats", {queue_}, "--watch 2s");
    found_.push_back(trouble);
  }

  void lease_ended() {
    if (now_.overdue == 0 || !now_.oldest_lease) return;
    Trouble trouble;
    trouble.kind = "lease_ended";
    trouble.age = age_between(*now_.oldest_lease, now_.now);
    trouble.level = level_of(*trouble.age);
    if (trouble.level == Level::ok) return;
    trouble.count = now_.overdue;
    trouble.what = counted(now_.overdue, "message", "is", "are") +
                   " in unack after the end of the lease or backoff, the oldest for " + span_text(*trouble.age);
    trouble.why = works() ? "consumers run, but do not get to it"
                          : std::string("the consumer ended or was cut off, and ") + kNoConsumer;
    trouble.todo =
        "start a worker: it takes them back by itself; or " + command_text("release", {queue_, "ID..."}, "--force");
    if (seen_.first_unack) trouble.example = seen_.first_unack->id;
    found_.push_back(trouble);
  }

  void waiting() {
    const std::uint64_t count = now_.ready + now_.retry;
    if (seen_.pause || count == 0 || (!seen_.first_ready && !seen_.first_retry)) return;
    works() ? backlog(count) : not_taken(count);
  }

  void not_taken(std::uint64_t count) {
    const MessageInfo& first = seen_.first_ready ? *seen_.first_ready : *seen_.first_retry;
    const std::uint64_t held = now_.unack - std::min(now_.unack, now_.overdue);
    Trouble trouble;
    trouble.kind = held == 0 ? "not_taken" : "slow";
    trouble.count = count;
    trouble.age = first.sent ? age_between(*first.sent, now_.now) : *options_.look;
    trouble.level = level_of(*trouble.age);
    // What is held may be finished in time: how long they have been due is not known.
    if (held > 0) trouble.level = std::min(trouble.level, Level::warning);
    if (trouble.level == Level::ok) return;
    trouble.what = counted(count, "message", "waits", "wait") + " in ready and retry, the first was sent " +
                   span_text(*trouble.age) + " ago, and none was taken in " + span_text(*options_.look);
    trouble.why = held == 0 ? "no consumer runs on this queue: nothing is in flight"
                            : "all workers are busy: " + counted(held, "message", "is", "are") +
                                  " in flight or in a backoff, and none was finished; handlers are slow, or hang";
    trouble.todo = held == 0 ? "start a worker, and look: " + command_text("stats", {queue_}, "--watch 2s")
                             : "see what is in flight: " + command_text("ls", {queue_}, "--state unack");
    trouble.example = first.id;
    found_.push_back(trouble);
  }

  void backlog(std::uint64_t count) {
    const auto seconds = std::chrono::duration<double>(span_between(seen_.before.now, now_.now)).count();
    const auto delivered =
        static_cast<double>(now_.totals.delivered - std::min(now_.totals.delivered, seen_.before.totals.delivered));
    if (delivered <= 0 || seconds <= 0) return;
    const double left = static_cast<double>(count) * seconds / delivered;
    Trouble trouble;
    trouble.kind = "backlog";
    trouble.count = count;
    trouble.age = milliseconds(static_cast<long long>(std::min(left, 1e9) * 1000));
    trouble.level = level_of(*trouble.age);
    if (trouble.level == Level::ok) return;
    trouble.what = counted(count, "message", "waits", "wait") + " in ready and retry: " + span_text(*trouble.age) +
                   " at the pace of now";
    trouble.why = "more is sent than handled, or a lot came at once";
    trouble.todo = "add consumers or concurrency";
    found_.push_back(trouble);
  }

  void hot_retries() {
    const Sample& sample = seen_.sample;
    if (sample.hot == 0) return;
    Trouble trouble;
    trouble.kind = "hot_retries";
    trouble.level = Level::warning;
    trouble.count = sample.hot;
    trouble.what = counted(sample.hot, "message") + " delivered " + std::to_string(options_.hot) +
                   " times or more (the most: " + std::to_string(sample.most_deliveries) + " times), to be tried again";
    trouble.why = reasons_text(sample.hot_reasons);
    trouble.todo = command_text("show", {queue_, sample.hot_id}) + "; what cannot succeed: dqctl kill";
    trouble.example = sample.hot_id;
    found_.push_back(trouble);
  }

  void no_body() {
    const Sample& sample = seen_.sample;
    if (sample.no_body == 0) return;
    Trouble trouble;
    trouble.kind = "no_body";
    trouble.level = Level::warning;
    trouble.count = sample.no_body;
    trouble.what =
        counted(sample.no_body, "message", "has", "have") + " no payload, and cannot be delivered or redriven";
    trouble.why = "the TTL ended, Redis evicted the key, or another program deleted it";
    trouble.todo = command_text("doctor", {queue_});
    trouble.example = sample.no_body_id;
    found_.push_back(trouble);
  }

  // Redis does not store since when a message is held: known is how long it was watched.
  void held() {
    const auto watched = age_between(seen_.before.now, now_.now);
    if (seen_.held_throughout == 0 || watched < options_.held.value_or(*options_.warn)) return;
    Trouble trouble;
    trouble.kind = "held";
    trouble.count = seen_.held_throughout;
    trouble.age = watched;
    trouble.level = watched >= *options_.crit ? Level::critical : Level::warning;
    trouble.what = counted(trouble.count, "message", "was", "were") + " held by one delivery for " +
                   span_text(watched) + " or longer";
    trouble.why = "handlers are slow, or hang; the consumers live, for they renew the leases";
    trouble.todo = "look at the handlers; see what is held: " + command_text("ls", {queue_}, "--state unack");
    trouble.example = seen_.held_id;
    found_.push_back(trouble);
  }

  void dead() {
    if (now_.dead == 0) return;
    const std::uint64_t more = now_.dead - std::min(now_.dead, seen_.before.dead);
    Trouble trouble;
    trouble.kind = "dead";
    trouble.count = now_.dead;
    trouble.level = now_.dead >= options_.dead_crit                              ? Level::critical
                    : now_.dead >= options_.dead || more >= options_.dead_growth ? Level::warning
                                                                                 : Level::ok;
    trouble.what = counted(now_.dead, "dead letter");
    trouble.why = reasons_text(seen_.sample.dead_reasons);
    if (now_.dead > seen_.sample.dead) trouble.why += " (of the oldest " + count_text(seen_.sample.dead) + ")";
    trouble.todo = command_text("ls", {queue_}, "--state dead") + ", then dqctl redrive or purge";
    found_.push_back(trouble);
  }

  const Evidence& seen_;
  const Counts& now_;
  const std::string queue_;
  const StuckOptions& options_;
  std::vector<Trouble> found_;
};

std::optional<MessageInfo> first_of(delayqueue::Inspector& inspector, State state, std::uint64_t count) {
  if (count == 0) return std::nullopt;
  delayqueue::ListOptions one;
  one.limit = 1;
  one.payload = 0;
  delayqueue::MessagePage page = inspector.list(state, one);
  return page.empty() ? std::nullopt : std::optional(std::move(page.messages.front()));
}

// Whether the first of a list became another.
bool moved(const std::optional<MessageInfo>& before, const std::optional<MessageInfo>& now) {
  return before && (!now || now->id != before->id);
}

}  // namespace

QueueState read_state(delayqueue::Inspector& inspector) {
  QueueState state;
  state.counts = inspector.counts();
  if (state.counts.paused) state.pause = inspector.paused();
  state.first_ready = first_of(inspector, State::ready, state.counts.ready);
  state.first_retry = first_of(inspector, State::retry, state.counts.retry);
  state.first_unack = first_of(inspector, State::unack, state.counts.overdue);
  return state;
}

Evidence evidence_of(const QueueState& before, const QueueState& now) {
  Evidence evidence;
  evidence.before = before.counts;
  evidence.now = now.counts;
  evidence.pause = now.pause;
  evidence.first_ready = now.first_ready;
  evidence.first_retry = now.first_retry;
  evidence.first_unack = now.first_unack;
  evidence.heads_moved = moved(before.first_ready, now.first_ready) || moved(before.first_retry, now.first_retry);
  return evidence;
}

const char* to_string(Level level) {
  return level == Level::critical ? "critical" : level == Level::warning ? "warning" : "ok";
}

std::vector<Trouble> find_troubles(const Evidence& evidence, const std::string& queue, const StuckOptions& options) {
  return Finder(evidence, queue, options).run();
}

}  // namespace dqctl
