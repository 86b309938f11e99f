#include "serve/history.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "totals.h"

namespace dqctl {
namespace {

const Total& total_with(std::string_view name) {
  return *std::find_if(kTotals.begin(), kTotals.end(), [&](const Total& one) { return one.name == name; });
}

std::uint64_t waiting_in(const delayqueue::Counts& counts) { return counts.due + counts.ready + counts.retry; }

Time begin_of_minute(Time when) {
  return Time(std::chrono::duration_cast<std::chrono::minutes>(when.time_since_epoch()));
}

}  // namespace

Object minute_object(const Minute& minute) {
  const delayqueue::Counts& counts = minute.counts;
  Object object;
  object.add("at", minute.at).add("pending", counts.pending).add("ready", counts.ready).add("unack", counts.unack);
  object.add("retry", counts.retry).add("dead", counts.dead).add("due", counts.due).add("overdue", counts.overdue);
  for (std::size_t i = 0; i < kMinuteEvents.size(); ++i) object.add(kMinuteEvents[i], minute.events[i]);
  return object;
}

void History::add(const std::string& queue, Time now, const delayqueue::Counts& counts) {
  const Time begin = begin_of_minute(now);
  const std::lock_guard lock(mutex_);
  last_ = begin;
  if (queues_.count(queue) == 0 && queues_.size() >= kMostQueues) return;
  std::deque<Minute>& minutes = queues_[queue];
  if (!minutes.empty() && minutes.back().at > begin) minutes.clear();  // the clock of this machine was set back
  if (minutes.empty() || minutes.back().at < begin) minutes.emplace_back().at = begin;
  while (minutes.front().at <= begin - std::chrono::minutes(kMinutes)) minutes.pop_front();
  Minute& minute = minutes.back();
  minute.counts = counts;
  const bool follows = minutes.size() > 1 && minutes[minutes.size() - 2].at == begin - std::chrono::minutes(1);
  for (std::size_t i = 0; i < kMinuteEvents.size(); ++i) {
    minute.events[i].reset();
    if (!follows) continue;
    const auto member = total_with(kMinuteEvents[i]).member;
    const std::uint64_t before = minutes[minutes.size() - 2].counts.totals.*member;
    const std::uint64_t after = counts.totals.*member;
    if (after >= before) minute.events[i] = after - before;
  }
}

void History::keep_only(const std::set<std::string>& queues) {
  const std::lock_guard lock(mutex_);
  for (auto one = queues_.begin(); one != queues_.end();) {
    one = queues.count(one->first) > 0 ? std::next(one) : queues_.erase(one);
  }
}

std::vector<Minute> History::minutes(const std::string& queue) const {
  const std::lock_guard lock(mutex_);
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

std::size_t History::size(const std::string& queue) const {
  const std::lock_guard lock(mutex_);
  const auto found = queues_.find(queue);
  return found == queues_.end() ? 0 : found->second.size();
}

WaitingHistory History::waiting() const {
  const std::lock_guard lock(mutex_);
  std::set<Time> begins;
  for (const auto& [queue, minutes] : queues_) {
    for (const Minute& minute : minutes) begins.insert(minute.at);
  }
  WaitingHistory all;
  // A queue that cannot be read keeps minutes that are older than the last hour of the others; or later than it, if the
  // clock of this machine was set back.
  all.minutes.assign(begins.upper_bound(last_ - std::chrono::minutes(kMinutes)), begins.upper_bound(last_));
  for (const auto& [queue, minutes] : queues_) {
    auto& numbers = all.queues[queue];
    auto minute = minutes.begin();
    for (const Time begin : all.minutes) {
      while (minute != minutes.end() && minute->at < begin) ++minute;
      const bool is_known = minute != minutes.end() && minute->at == begin;
      numbers.push_back(is_known ? std::optional(waiting_in(minute->counts)) : std::nullopt);
    }
  }
  return all;
}

}  // namespace dqctl
