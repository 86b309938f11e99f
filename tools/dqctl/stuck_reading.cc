#include "stuck_reading.h"

#include <algorithm>

#include "filter.h"
#include "lines.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::Inspector;
using delayqueue::MessageInfo;
using delayqueue::MessagePage;
using delayqueue::State;

constexpr std::size_t kSampled = 1000;  // of each state
constexpr std::size_t kReasonBytes = 200;
constexpr std::chrono::seconds kLongestSearch{5};  // for partitions that the layouts of all queues have lost
constexpr std::size_t kRunning = 100;              // messages with long running handlers

MessagePage page_of(Inspector& inspector, State state, std::size_t limit) {
  delayqueue::ListOptions options;
  options.limit = limit;
  options.payload = 0;
  options.newest = state == State::dead;  // an alert is about the reasons of those that have come lately
  return inspector.list(state, options);
}

// Without a number: those that have been delivered many times, or have few deliveries left. By default a message is
// delivered 4 times at most.
bool is_hot(const MessageInfo& message, std::optional<int> hot) {
  if (hot) return message.deliveries >= *hot;
  if (message.deliveries >= kManyDeliveries) return true;
  return message.retries &&
         ((*message.retries == 0 && message.deliveries >= 2) || (*message.retries == 1 && message.deliveries >= 3));
}

std::string start_of(const std::string& reason) {
  return reason.size() <= kReasonBytes ? reason : whole_characters(reason.substr(0, kReasonBytes)) + "…";
}

void add(Sample& sample, const MessageInfo& message, std::optional<int> hot) {
  if (!is_stored_id(message.id)) return;  // no call takes it; doctor reports it
  if (!message.size) sample.without_body.push_back(message.id);
  if (message.state == State::dead) {
    ++sample.dead;
    ++sample.dead_reasons[start_of(message.reason)];
    return;
  }
  if (!is_hot(message, hot)) return;
  ++sample.hot;
  ++sample.hot_reasons[start_of(message.reason)];
  if (message.deliveries <= sample.most_deliveries) return;
  sample.most_deliveries = message.deliveries;
  sample.hot_id = message.id;
}

void take_sample(Inspector& inspector, StuckReading& reading, std::optional<int> hot) {
  for (const State state : {State::pending, State::ready, State::unack, State::retry, State::dead}) {
    for (const MessageInfo& message : page_of(inspector, state, kSampled)) {
      add(reading.evidence.sample, message, hot);
      if (message.held && is_stored_id(message.id)) reading.held.emplace(message.id, message.deliveries);
    }
  }
}

// Counts the messages that still exist and still have no body.
void recheck_bodies(Inspector& inspector, Sample& sample) {
  for (const auto& message : inspector.find_all(sample.without_body, 0)) {
    if (message && !message->size && sample.no_body++ == 0) sample.no_body_id = message->id;
  }
}

void count_still_held(Inspector& inspector, StuckReading& reading) {
  std::vector<std::string> ids;
  for (const auto& [id, deliveries] : reading.held) ids.push_back(id);
  for (const auto& message : inspector.find_all(ids, 0)) {
    if (!message || !message->held || message->deliveries != reading.held.at(message->id)) continue;
    if (reading.evidence.held_throughout++ == 0) reading.evidence.held_id = message->id;
  }
}

// Keeps those that are still held: an entry in the registry may be some seconds old. What a silent worker wrote of its
// handlers may be no longer so.
void find_running(Inspector& inspector, StuckReading& reading, const StuckOptions& options) {
  std::vector<delayqueue::Worker> living;
  for (delayqueue::Worker& worker : registered_workers(inspector)) {
    if (worker.damaged) continue;
    (worker.overdue ? reading.evidence.silent : living).push_back(std::move(worker));
  }
  reading.evidence.living = living.size();
  std::vector<HeldMessage> all = held_messages(living);
  const auto is_long = [&](const HeldMessage& one) {
    return age_between(one.since, reading.evidence.now.counts.now) >= options.least_held();
  };
  all.erase(std::find_if_not(all.begin(), all.end(), is_long), all.end());
  if (all.size() > kRunning) all.resize(kRunning);
  std::vector<std::string> ids;
  ids.reserve(all.size());
  for (const HeldMessage& one : all) ids.push_back(one.id);
  const auto found = inspector.find_all(ids, 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (found[i] && found[i]->held) reading.evidence.running.push_back(std::move(all[i]));
  }
}

// The layout has lost these partitions, and no client has written it again between the readings.
void find_lost(Inspector& inspector, StuckReading& reading) {
  const auto lost = inspector.find_lost_partitions();
  if (lost.empty()) return;
  StuckFinding finding;
  finding.kind = "lost_partitions";
  finding.level = Level::critical;
  for (const delayqueue::PartitionInfo& one : lost) {
    finding.count += one.counts.pending + one.counts.ready + one.counts.unack + one.counts.retry + one.counts.dead;
  }
  const unsigned first = lost.front().partition, last = lost.back().partition;
  finding.what = counted(finding.count, "message", "is", "are") + " in " +
                 (lost.size() == 1 ? "partition " + std::to_string(first)
                                   : std::to_string(lost.size()) + " partitions, from " + std::to_string(first) +
                                         " to " + std::to_string(last)) +
                 ", which clients that start now leave out";
  finding.why = "partitions 0 and 1 have lost the layout of the queue, for example in a failover or an eviction";
  finding.todo = command_text("doctor", {reading.queue}) + " tells what a repair does";
  reading.unserved.push_back(std::move(finding));
}

// looking: how long the search for lost partitions took so far. A server that does not answer delays it; so of many
// queues it ends early, and of one it is always done.
void read_first(Context& context, StuckReading& reading, std::optional<int> hot, milliseconds& looking) {
  Inspector& inspector = context.inspector(reading.queue);
  if (looking < kLongestSearch) {
    const auto begin = std::chrono::steady_clock::now();
    reading.has_lost = !inspector.find_lost_partitions().empty();
    looking += std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
  }
  context.counts(reading.queue);  // throws if the queue does not exist
  reading.evidence.before = read_state(inspector);
  take_sample(inspector, reading, hot);
  const auto& counts = reading.evidence.before.counts;
  reading.something_waits = reading.has_lost ||
                            counts.ready + counts.retry + counts.due + counts.overdue + counts.dead > 0 ||
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

void read_second(Context& context, StuckReading& reading, const StuckOptions& options) {
  Inspector& inspector = context.inspector(reading.queue);
  recheck_bodies(inspector, reading.evidence.sample);
  count_still_held(inspector, reading);
  reading.evidence.now = read_state(inspector);
  find_running(inspector, reading, options);
  find_unserved(context, reading, options);
  if (reading.has_lost) find_lost(inspector, reading);
}

Object finding_object(const StuckFinding& finding) {
  Object object;
  object.add("kind", finding.kind).add("level", to_string(finding.level)).add("count", finding.count);
  object.add("age_ms", finding.age ? std::optional(finding.age->count()) : std::nullopt);
  finding.pace ? object.add("trend", to_string(finding.pace->trend)) : object.add_null("trend");
  object.add("net_per_second", finding.pace ? std::optional(finding.pace->net) : std::nullopt);
  object.add("what", finding.what).add("why", finding.why).add("do", finding.todo);
  finding.example.empty() ? object.add_null("example") : object.add("example", finding.example);
  return object;
}

}  // namespace

std::vector<StuckReading> read_stuck(Context& context, const std::vector<std::string>& queues,
                                     const StuckOptions& options) {
  std::vector<StuckReading> readings;
  bool something_waits = false;
  milliseconds looking{0};
  for (const std::string& queue : queues) {
    if (interrupted()) break;
    readings.emplace_back().queue = queue;
    StuckReading& reading = readings.back();
    reading.error = read_row(context, [&] { read_first(context, reading, options.hot, looking); });
    something_waits = something_waits || reading.something_waits;
  }
  if (something_waits) sleep_for(*options.interval);
  for (StuckReading& reading : readings) {
    if (!reading.error && !interrupted())
      reading.error = read_row(context, [&] { read_second(context, reading, options); });
  }
  return readings;
}

std::vector<StuckFinding> findings_of(const StuckReading& reading, const StuckOptions& options) {
  std::vector<StuckFinding> findings = diagnose(reading.evidence, reading.queue, options);
  findings.insert(findings.end(), reading.unserved.begin(), reading.unserved.end());
  std::stable_sort(findings.begin(), findings.end(),
                   [](const StuckFinding& a, const StuckFinding& b) { return a.level > b.level; });
  return findings;
}

Object stuck_object(const std::string& queue, Level level, const std::vector<StuckFinding>& findings) {
  std::vector<Object> objects;
  objects.reserve(findings.size());
  for (const StuckFinding& finding : findings) objects.push_back(finding_object(finding));
  return Object().add("queue", queue).add("level", to_string(level)).add("findings", objects);
}

}  // namespace dqctl
