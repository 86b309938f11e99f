#include <algorithm>

#include "support/model.h"

// Moves that operators make by id.
namespace test::model {
namespace {

using delayqueue::store::PurgedIds;
using delayqueue::store::RestoreRecord;

constexpr std::int64_t kMs = 1000;
constexpr std::int64_t kSecond = 1'000'000;

std::int64_t up_to(std::int64_t unit, std::int64_t us) { return (us + unit - 1) / unit * unit; }

// Rounds an end so that it keeps its kind: the lease of a Go worker, a backoff, or a lease of this library.
std::int64_t of_kind(std::int64_t end, std::int64_t us) {
  if (end % kSecond == 0) return up_to(kSecond, us);
  if (end % kMs != 0) return us % kMs == 0 ? us + 1 : us;
  us = up_to(kMs, us);
  return us % kSecond == 0 ? us + kMs : us;
}

}  // namespace

std::string Model::kill(Span now, const std::vector<std::string>& ids, const std::string& why, bool force,
                        std::size_t search_lists) {
  const bool search = std::max(ready_.size(), retry_.size()) <= search_lists;
  std::string answer;
  for (const std::string& id : ids) {
    Record& record = records_[id];
    const bool held = record.lease && !record.backs_off();
    const bool there = record.exists() && (record.dead || record.retries || record.due);
    answer += !there ? 'G' : record.dead ? 'D' : held && !force ? 'H' : 'S';
    if (answer.back() != 'S') continue;
    if (record.lease) record.deliveries = std::max(record.deliveries, 1);
    if (held) record.last_end = record.lease->from;
    if (!record.in_attempts()) record.undelivered = true;
    if (!why.empty()) record.reason = why;
    for (auto* list : {&ready_, &retry_}) {
      if (search && !record.placed()) list->erase(std::remove(list->begin(), list->end(), id), list->end());
    }
    record.expires_us.reset();
    record.due.reset();
    record.lease.reset();
    record.retries.reset();
    record.dead = now;
    ++stats_["dead"];
  }
  return answer;
}

std::string Model::extend(Span now, const std::vector<std::string>& ids, std::int64_t by_ms, bool force) {
  std::string answer;
  for (const std::string& id : ids) {
    Record& record = records_[id];
    const std::int64_t end = record.lease ? record.lease->from : 0;
    answer += !record.lease || !record.retries ? 'G' : end % kMs != 0 && !force ? 'H' : 'S';
    if (answer.back() != 'S') continue;
    record.lease = Span{of_kind(end, std::max(end, now.from) + by_ms * kMs),
                        of_kind(end, std::max(end, now.to) + by_ms * kMs) + 1};
    if (record.expires_us) *record.expires_us += by_ms * kMs;
  }
  return answer;
}

PurgedIds Model::purge_ids(char state, const std::vector<std::string>& ids) {
  PurgedIds result;
  for (const std::string& id : ids) {
    Record& record = records_[id];
    const bool is_dead = record.dead && !record.due && !(record.lease && record.retries);
    const bool listed = record.retries && !record.garbage && !record.placed();
    std::deque<std::string>& list = state == 'r' ? ready_ : retry_;
    const auto reach = list.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(100, list.size()));
    const auto found = std::find(list.begin(), reach, id);
    const bool in_state = state == 'r' ? !record.last_end : record.last_end || found != reach;
    const bool there = state == 'd' ? is_dead : state == 'p' ? record.due && !record.lease : listed && in_state;
    result.outcomes += there ? 'S' : 'G';
    if (!there) continue;
    Record left;
    left.garbage = record.garbage;
    left.lease = record.lease;
    record = left;
    ++stats_["purged"];
    if (state == 'd' || state == 'p') {
      ++result.places;
      continue;
    }
    if (found == reach) continue;
    list.erase(found);
    ++result.places;
  }
  return result;
}

std::string Model::restore(Span now, const std::vector<RestoreRecord>& messages) {
  std::string answer;
  for (const RestoreRecord& message : messages) {
    const std::string id(message.id);
    answer += records_[id].sent_again();
    if (answer.back() != '1') continue;
    Record record;
    record.body = message.payload;
    record.deliveries = message.deliveries;
    if (!message.reason.empty()) record.reason = message.reason;
    if (message.ttl.count() > 0) record.expires_us = now.from + message.ttl.count() * kMs;
    const Span at{message.at_us, message.at_us};
    record.undelivered = message.deliveries == 0 && (message.dead || !retry_.empty());
    if (message.dead) {
      record.dead = at;
    } else {
      record.retries = message.retries;
      const bool due = is_over(at, now);
      if (!due) record.due = at;
      if (due) ready_.push_back(id);
    }
    records_[id] = record;
    ++stats_["sent"];
  }
  return answer;
}

}  // namespace test::model
