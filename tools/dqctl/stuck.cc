#include "stuck.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "filter.h"
#include "limits_text.h"
#include "pause_text.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::MessageInfo;
using delayqueue::State;

constexpr const char* kNoConsumer =
    "no consumer runs on this queue: a running one would move due messages and take back ended leases within seconds";
constexpr std::size_t kReasonsShown = 3;
constexpr std::size_t kHandlersShown = 3;
constexpr std::size_t kReasonWidth = 60;
constexpr std::chrono::minutes kPaceSpan{1};      // of the pace of a queue that is read again and again
constexpr std::chrono::seconds kKeptApart{5};     // readings that are kept for it
constexpr std::chrono::seconds kLongestSpan{90};  // of the pace: an older reading is of no use

std::string reasons_text(const std::map<std::string, std::uint64_t>& reasons) {
  std::vector<std::pair<std::uint64_t, std::string>> order;
  order.reserve(reasons.size());
  for (const auto& [reason, count] : reasons) order.emplace_back(count, reason);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < order.size() && i < kReasonsShown; ++i) {
    const std::string reason =
        order[i].second.empty() ? "no reason recorded" : cut(printable(order[i].second), kReasonWidth);
    text += (i == 0 ? "" : "; ") + count_text(order[i].first) + "x " + reason;
  }
  if (order.size() > kReasonsShown) text += "; " + counted(order.size() - kReasonsShown, "other reason");
  return text;
}

// Whether the first message of a list changed.
bool moved(const std::optional<MessageInfo>& before, const std::optional<MessageInfo>& now) {
  return before && (!now || now->id != before->id);
}

// What consumers have to handle now or soon. dqctl drain waits until it is 0.
std::uint64_t to_handle(const Counts& counts) { return counts.due + counts.ready + counts.unack + counts.retry; }

// A change that may be chance counts as none: twice the standard deviation of random arrivals and ends, or a twentieth
// of what was handled.
bool may_be_chance(double change, double handled) {
  const double events = std::max(0.0, 2 * handled + change);
  return std::abs(change) <= std::max(2 * std::sqrt(events), handled / 20);
}

milliseconds as_span(double seconds) { return milliseconds(static_cast<long long>(std::min(seconds, 1e9) * 1000)); }

std::string pace_text(double rate) {
  char text[40];
  std::snprintf(text, sizeof text, rate >= 9.95 || rate == 0 ? "%.0f" : "%.1f", rate);
  return std::string(text) + "/s";
}

class Finder {
 public:
  Finder(const Evidence& evidence, const std::string& queue, const StuckOptions& options)
      : evidence_(evidence), now_(evidence.now.counts), queue_(queue), options_(options) {}

  std::vector<StuckFinding> run() {
    paused();
    due();
    lease_ended();
    waiting();
    held();
    silent();
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

  bool consumers_active() const {  // whether messages were taken or finished between the readings
    const auto& before = evidence_.before.counts.totals;
    const auto& after = now_.totals;
    return after.delivered > before.delivered || after.acked > before.acked || after.nacked > before.nacked ||
           after.retried > before.retried || moved(evidence_.before.first_ready, evidence_.now.first_ready) ||
           moved(evidence_.before.first_retry, evidence_.now.first_retry);
  }

  void paused() {
    if (!evidence_.now.pause) return;
    StuckFinding finding;
    finding.kind = "paused";
    finding.count = now_.due + now_.ready + now_.retry;
    if (now_.due > 0 && now_.oldest_due) finding.age = age_between(*now_.oldest_due, now_.now);
    if (finding.count > 0) finding.level = std::max(Level::warning, level_of(finding.age.value_or(milliseconds(0))));
    finding.what = "the queue is paused, and " + counted(finding.count, "message", "waits", "wait") + " to be taken";
    if (finding.age) finding.what += ", the oldest for " + span_text(*finding.age);
    const delayqueue::Pause& pause = *evidence_.now.pause;
    finding.why = pause.reason.empty() ? "paused without a reason" : "paused: " + printable(pause.reason);
    finding.why += pause.until ? "; it ends " + ago_text(*pause.until, now_.now) : "; it has no end";
    finding.why += pauser_text(pause, now_.now);
    finding.todo = command_text("resume", {queue_});
    found_.push_back(finding);
  }

  void due() {
    if (now_.due == 0 || !now_.oldest_due) return;
    StuckFinding finding;
    finding.kind = "due";
    finding.age = age_between(*now_.oldest_due, now_.now);
    finding.level = level_of(*finding.age);
    if (finding.level == Level::ok) return;
    finding.count = now_.due;
    finding.what =
        counted(now_.due, "message", "is", "are") + " due and not taken, the oldest for " + span_text(*finding.age);
    if (consumers_active()) finding.pace = pace();
    finding.why = consumers_active()    ? "consumers run, but fall behind"
                  : evidence_.now.pause ? "the queue is paused, or no consumer runs"
                                        : why_unmoved();
    if (finding.pace) finding.why += ": " + finding.pace->text();
    finding.todo = consumers_active() ? "add consumers or concurrency"
                                      : "start a worker, and watch: " + command_text("stats", {queue_}, "--watch 2s");
    found_.push_back(finding);
  }

  void lease_ended() {
    if (now_.overdue == 0 || !now_.oldest_lease) return;
    StuckFinding finding;
    finding.kind = "lease_ended";
    finding.age = age_between(*now_.oldest_lease, now_.now);
    finding.level = level_of(*finding.age);
    if (finding.level == Level::ok) return;
    finding.count = now_.overdue;
    finding.what = counted(now_.overdue, "message", "is", "are") +
                   " in unack after the end of the lease or backoff, the oldest for " + span_text(*finding.age);
    finding.why = consumers_active() ? "consumers run, but do not get to it"
                                     : "the consumer ended or was cut off, and " + why_unmoved();
    finding.todo =
        "start a worker: it takes them back by itself; or " + command_text("release", {queue_, "ID..."}, "--force");
    if (evidence_.now.first_unack) finding.example = evidence_.now.first_unack->id;
    found_.push_back(finding);
  }

  void waiting() {
    const std::uint64_t count = now_.ready + now_.retry;
    if (evidence_.now.pause || count == 0 || (!evidence_.now.first_ready && !evidence_.now.first_retry)) return;
    consumers_active() ? backlog(count) : not_taken(count);
  }

  void not_taken(std::uint64_t count) {
    const MessageInfo& first = evidence_.now.first_ready ? *evidence_.now.first_ready : *evidence_.now.first_retry;
    const std::uint64_t held = only_silent() ? 0 : now_.unack - std::min(now_.unack, now_.overdue);
    StuckFinding finding;
    finding.kind = held == 0 ? "not_taken" : "slow";
    finding.count = count;
    finding.age = first.sent ? age_between(*first.sent, now_.now) : *options_.interval;
    finding.level = level_of(*finding.age);
    // A warning at most: the held messages may be finished in time, and when the others became ready is not known.
    if (held > 0) finding.level = std::min(finding.level, Level::warning);
    if (finding.level == Level::ok) return;
    finding.what = counted(count, "message", "waits", "wait") + " in ready and retry, the first was sent " +
                   span_text(*finding.age) + " ago, and none was taken in " + span_text(*options_.interval);
    finding.why = only_silent() ? "no consumer runs on this queue, or none can reach Redis"
                  : held == 0   ? "no consumer runs on this queue: nothing is in flight"
                                : "all workers are busy: " + counted(held, "message", "is", "are") +
                                    " in flight or in a backoff, and none was finished; handlers are slow, or hang, "
                                    "payloads arrive slowly, or their process has died";
    finding.todo = held == 0 ? "start a worker, and watch: " + command_text("stats", {queue_}, "--watch 2s")
                             : "see what is in flight: " + command_text("ls", {queue_}, "--state unack");
    finding.example = first.id;
    blame_limits(finding);
    found_.push_back(finding);
  }

  // A queue that its limits hold back is as its operators want it, however long messages wait: so that is the reason.
  void blame_limits(StuckFinding& finding) const {
    const std::string held_back = held_back_text(now_);
    if (held_back.empty()) return;
    finding.why = held_back;
    finding.todo = "wait, or raise the limit: " + command_text("limit", {queue_});
  }

  std::optional<Pace> pace() const { return pace_between(evidence_.earlier.value_or(evidence_.before.counts), now_); }

  void backlog(std::uint64_t count) {
    StuckFinding finding;
    finding.kind = "backlog";
    finding.count = count;
    finding.pace = pace();
    if (!finding.pace || !finding.pace->wait) return;
    finding.level = level_of(*finding.pace->wait);
    if (finding.level == Level::ok) return;
    finding.age = finding.pace->empty_in;
    finding.what = counted(count, "message", "waits", "wait") + " in ready and retry; " + finding.pace->text();
    switch (finding.pace->trend) {
      case Trend::shrinks:
        finding.why = "a lot came at once, or more arrived for a while than was handled";
        break;
      case Trend::holds:
        finding.why = "as much arrives as is handled, redeliveries included: the backlog stays";
        break;
      case Trend::grows:
        finding.why = "more arrives than is handled, redeliveries included";
        break;
    }
    finding.todo = "add consumers or concurrency";
    blame_limits(finding);
    found_.push_back(finding);
  }

  void hot_retries() {
    const Sample& sample = evidence_.sample;
    if (sample.hot == 0) return;
    StuckFinding finding;
    finding.kind = "hot_retries";
    finding.level = Level::warning;
    finding.count = sample.hot;
    finding.what = counted(sample.hot, "message") + " delivered " +
                   (options_.hot ? std::to_string(*options_.hot) + " times or more" : "again and again") +
                   " (the most: " + std::to_string(sample.most_deliveries) + " times), to be tried again";
    finding.why = reasons_text(sample.hot_reasons);
    finding.todo = command_text("show", {queue_, sample.hot_id}) + "; if it cannot succeed: dqctl bury";
    finding.example = sample.hot_id;
    found_.push_back(finding);
  }

  void no_body() {
    const Sample& sample = evidence_.sample;
    if (sample.no_body == 0) return;
    StuckFinding finding;
    finding.kind = "no_body";
    finding.level = Level::warning;
    finding.count = sample.no_body;
    finding.what =
        counted(sample.no_body, "message", "has", "have") + " no payload, and cannot be delivered or redriven";
    finding.why = "the TTL ended, Redis evicted the key, or another program deleted it";
    finding.todo = command_text("doctor", {queue_});
    finding.example = sample.no_body_id;
    found_.push_back(finding);
  }

  // The registry of consumers has when the handlers began that run for longest. Redis does not store when a message was
  // taken: of other messages only the time between the readings is known.
  void held() {
    const auto watched = age_between(evidence_.before.counts.now, now_.now);
    const bool held = !only_silent() && evidence_.held_throughout > 0 && watched >= options_.least_held();
    if (!evidence_.running.empty()) return running(held ? evidence_.held_throughout : 0);
    if (!held) return;
    StuckFinding finding;
    finding.kind = "held";
    finding.count = evidence_.held_throughout;
    finding.age = watched;
    finding.level = watched >= *options_.crit ? Level::critical : Level::warning;
    finding.what = counted(finding.count, "message", "was", "were") + " held by one delivery for " +
                   span_text(watched) + " or longer";
    finding.why = "handlers are slow, or hang; the consumers live, for they renew the leases";
    finding.todo = "check the handlers; list the held messages: " + command_text("ls", {queue_}, "--state unack");
    finding.example = evidence_.held_id;
    found_.push_back(finding);
  }

  void running(std::uint64_t held) {
    const std::vector<HeldMessage>& all = evidence_.running;
    StuckFinding finding;
    finding.kind = "held";
    finding.count = std::max<std::uint64_t>(held, all.size());
    finding.age = age_between(all.front().since, now_.now);
    finding.level = *finding.age >= *options_.crit ? Level::critical : Level::warning;
    finding.what = counted(finding.count, "message", "was", "were") + " held by one delivery for " +
                   span_text(options_.least_held()) + " or longer";
    const bool all_fetched =
        std::all_of(all.begin(), all.end(), [](const HeldMessage& one) { return one.fetching.has_value(); });
    finding.why = all_fetched ? "payloads arrive slowly:" : "handlers are slow, or hang:";
    for (std::size_t i = 0; i < std::min(all.size(), kHandlersShown); ++i) {
      finding.why += (i == 0 ? " " : "; ") + place_text(all[i].worker) + ", " + all[i].id + " for " +
                     span_text(age_between(all[i].since, now_.now));
      if (all[i].fetching) finding.why += ", a payload of " + count_text(*all[i].fetching) + " bytes";
    }
    finding.todo = "check these processes; list all consumers: " + command_text("workers", {queue_});
    finding.example = all.front().id;
    found_.push_back(finding);
  }

  // Whether all registered consumers have died, are frozen or cut off, as far as their entries tell.
  bool only_silent() const { return !evidence_.silent.empty() && evidence_.living == 0; }

  // Why nothing moves that a consumer would move within seconds.
  std::string why_unmoved() const {
    return evidence_.living == 0 ? kNoConsumer
                                 : "those in dqctl workers do not move it: they were killed within the last seconds, "
                                   "or cannot reach Redis, or reach it slowly: see their logs";
  }

  void silent() {
    const std::vector<delayqueue::Worker>& all = evidence_.silent;
    if (all.empty()) return;
    StuckFinding finding;
    finding.kind = "silent";
    finding.level = only_silent() ? Level::warning : Level::ok;
    std::string places;
    for (std::size_t i = 0; i < all.size(); ++i) {
      finding.count += all[i].in_flight;
      finding.age = std::max(finding.age.value_or(milliseconds(0)), age_between(all[i].seen, now_.now));
      if (i < kHandlersShown) places += (i == 0 ? "" : "; ") + place_text(all[i]);
    }
    finding.what = counted(all.size(), "worker") + " gave no sign of life for " + span_text(*finding.age) + ", with " +
                   counted(finding.count, "message") + " in flight then: " + places;
    finding.why = "killed, frozen, or cut off from Redis; what it holds is delivered again when its leases have ended";
    finding.todo = "check these processes; list all consumers: " + command_text("workers", {queue_});
    found_.push_back(finding);
  }

  void dead() {
    if (now_.dead == 0) return;
    const std::uint64_t more = now_.dead - std::min(now_.dead, evidence_.before.counts.dead);
    StuckFinding finding;
    finding.kind = "dead";
    finding.count = now_.dead;
    finding.level = now_.dead >= options_.dead_crit                              ? Level::critical
                    : now_.dead >= options_.dead || more >= options_.dead_growth ? Level::warning
                                                                                 : Level::ok;
    finding.what = counted(now_.dead, "dead letter");
    finding.why = reasons_text(evidence_.sample.dead_reasons);
    if (now_.dead > evidence_.sample.dead) finding.why += " (of the newest " + count_text(evidence_.sample.dead) + ")";
    finding.todo = command_text("reasons", {queue_}) + ", then dqctl redrive or purge";
    found_.push_back(finding);
  }

  const Evidence& evidence_;
  const Counts& now_;
  const std::string queue_;
  const StuckOptions& options_;
  std::vector<StuckFinding> found_;
};

}  // namespace

QueueState read_state(delayqueue::Inspector& inspector) {
  QueueState state;
  state.counts = inspector.counts();
  if (state.counts.paused) state.pause = inspector.paused();
  state.first_ready = first_message(inspector, State::ready, state.counts.ready);
  state.first_retry = first_message(inspector, State::retry, state.counts.retry);
  state.first_unack = first_message(inspector, State::unack, state.counts.overdue);
  return state;
}

std::optional<milliseconds> oldest_of(const QueueState& state) {
  const Counts& counts = state.counts;
  std::optional<milliseconds> oldest;
  const auto add = [&](const std::optional<Time>& since) {
    if (since) oldest = std::max(oldest.value_or(milliseconds(0)), age_between(*since, counts.now));
  };
  if (counts.due > 0) add(counts.oldest_due);
  if (counts.overdue > 0) add(counts.oldest_lease);
  if (state.first_ready) add(counts.oldest_ready ? counts.oldest_ready : state.first_ready->sent);
  if (state.first_retry) add(state.first_retry->waits_since ? state.first_retry->waits_since : state.first_retry->sent);
  return oldest;
}

const char* to_string(Level level) {
  return level == Level::critical ? "critical" : level == Level::warning ? "warning" : "ok";
}

const char* to_string(Trend trend) {
  return trend == Trend::shrinks ? "shrinks" : trend == Trend::holds ? "holds" : "grows";
}

std::optional<Pace> pace_between(const Counts& before, const Counts& now) {
  const auto& then = before.totals;
  const auto& totals = now.totals;
  const auto handled_of = [](const delayqueue::Totals& all) {
    return all.acked + all.dead_lettered + all.expired + all.cancelled + all.purged + all.skipped;
  };
  Pace pace;
  pace.span = span_between(before.now, now.now);
  if (pace.span.count() <= 0 || totals.delivered < then.delivered || handled_of(totals) < handled_of(then)) return {};
  const double seconds = std::chrono::duration<double>(pace.span).count();
  const auto left = static_cast<double>(to_handle(now));
  const double change = left - static_cast<double>(to_handle(before));
  const auto handled = static_cast<double>(handled_of(totals) - handled_of(then));
  // A consumer takes many messages at once, so in a short span it may handle messages and take none.
  const double taken = std::max(handled, static_cast<double>(totals.delivered - then.delivered));
  pace.net = change / seconds;
  pace.handled = handled / seconds;
  pace.arrived = std::max(0.0, pace.net + pace.handled);
  if (!may_be_chance(change, handled)) pace.trend = change < 0 ? Trend::shrinks : Trend::grows;
  if (pace.trend == Trend::shrinks) pace.empty_in = as_span(left / -pace.net);
  const auto waiting = static_cast<double>(now.due + now.ready + now.retry);
  if (taken > 0) pace.wait = as_span(waiting * seconds / taken);
  return pace;
}

std::string Pace::text() const {
  std::string text = trend == Trend::grows   ? "it grows by " + pace_text(net)
                     : trend == Trend::holds ? "it neither grows nor shrinks"
                                             : "it shrinks by " + pace_text(-net);
  if (empty_in) text += ", and is empty in " + span_text(*empty_in);
  return text + " (" + pace_text(arrived) + " arrive, " + pace_text(handled) + " are handled; over " + span_text(span) +
         ")";
}

std::vector<StuckFinding> diagnose(const Evidence& evidence, const std::string& queue, const StuckOptions& options) {
  return Finder(evidence, queue, options).run();
}

void FindingWatch::update(const std::string& queue, const QueueState& now) {
  StuckOptions options;
  const auto apart = previous_ ? span_between(previous_->counts.now, now.counts.now) : milliseconds(0);
  const bool is_late_enough = apart >= *options.interval;
  if (is_late_enough) {
    options.interval = apart;
    Evidence evidence;
    evidence.before = *previous_;
    evidence.now = now;
    evidence.earlier = a_minute_ago();
    const std::vector<StuckFinding> found = diagnose(evidence, queue, options);
    worst_ = found.empty() ? StuckFinding() : found.front();
  }
  // After Redis' clock was set back, the comparison starts over with this reading.
  if (!previous_ || is_late_enough || apart.count() < 0) previous_ = now;
  keep(now.counts);
  update_oldest(now);
}

void FindingWatch::update_oldest(const QueueState& now) {
  oldest_ = oldest_of(now);
  const std::optional<Time>& probe = now.counts.oldest_ready;
  if (probe != probe_) last_probe_waited_ = std::exchange(probe_waited_, milliseconds(0));
  probe_ = probe;
  if (probe) probe_waited_ = age_between(*probe, now.counts.now);
  if (!now.first_ready) probe_waited_ = last_probe_waited_ = milliseconds(0);
  if (probe) oldest_ = std::max(oldest_.value_or(milliseconds(0)), last_probe_waited_);
}

std::optional<Counts> FindingWatch::a_minute_ago() const {
  return minute_.empty() ? std::nullopt : std::optional(minute_.front());
}

void FindingWatch::keep(const Counts& now) {
  const auto age_of = [&](const Counts& one) { return span_between(one.now, now.now); };
  if (!minute_.empty() && age_of(minute_.back()).count() < 0) minute_.clear();
  if (minute_.empty() || age_of(minute_.back()) >= kKeptApart) minute_.push_back(now);
  while (age_of(minute_.front()) > kLongestSpan || (minute_.size() > 1 && age_of(minute_[1]) >= kPaceSpan)) {
    minute_.pop_front();
  }
}

}  // namespace dqctl
