#include "support/model.h"

#include <algorithm>
#include <set>

namespace test::model {
namespace {

using delayqueue::store::kBatch;
using delayqueue::store::Purged;
using delayqueue::store::Reclaimed;
using delayqueue::store::Taken;

constexpr std::int64_t kMs = 1000;
constexpr std::int64_t kSecond = 1'000'000;

// Rounds up to a whole millisecond that is not a whole second, as the end of a backoff must be.
Span backoff_end(Span end) {
  end = whole_ms(end);
  return {end.from % kSecond == 0 ? end.from + kMs : end.from, end.to % kSecond == 0 ? end.to + kMs : end.to};
}

void remove_all(std::deque<std::string>& list, const std::string& id) {
  list.erase(std::remove(list.begin(), list.end(), id), list.end());
}

std::vector<std::string> pop(std::deque<std::string>& list, std::size_t most) {
  const auto end = list.begin() + static_cast<std::ptrdiff_t>(std::min(most, list.size()));
  std::vector<std::string> ids(list.begin(), end);
  list.erase(list.begin(), end);
  return ids;
}

std::string one_more_lease_ended(const std::optional<std::string>& reason) {
  for (int times = 1; times < 1000; ++times) {
    const std::string text = "lease ended " + std::to_string(times) + (times == 1 ? " time" : " times");
    if (reason == text) return "lease ended " + std::to_string(times + 1) + " times";
  }
  return "lease ended 1 time";
}

}  // namespace

std::string Model::send(Span now, const std::vector<std::pair<std::string, std::string>>& messages,
                        const Terms& terms) {
  const std::int64_t at = terms.due.at_ms * kMs;
  const std::int64_t delay = terms.due.delay ? terms.due.delay->count() * kMs : 0;
  const Span due = terms.due.delay ? whole_ms(now + delay) : Span{at, at};
  const bool later = terms.due.delay ? delay > 0 : !is_over(due, now);
  std::string answer;
  std::set<std::string> made;
  for (const auto& [id, payload] : messages) {
    answer += made.count(id) > 0 ? '0' : records_[id].sent_again();
    if (answer.back() != '1') continue;
    made.insert(id);
    Record record;
    record.undelivered = !terms.fresh && !retry_.empty();
    record.body = payload;
    record.retries = terms.retries;
    if (terms.ttl.count() > 0) record.expires_us = due.from + terms.ttl.count() * kMs;
    if (later) record.due = due;
    if (!later) ready_.push_back(id);
    records_[id] = record;
    ++stats_["sent"];
  }
  return answer;
}

std::vector<std::string> Model::pending2ready(Span now) {
  std::vector<std::string> moved;
  for (const std::string& id : in_order(&Record::due)) {
    if (moved.size() == kBatch || !is_over(*records_[id].due, now)) break;
    records_[id].due.reset();
    ready_.push_back(id);
    moved.push_back(id);
  }
  return moved;
}

// Takes ids from the front of retry. A possible poison message is an id whose last lease ended without a settle. At
// most poison_max of them are chosen; up to poison_skip more move to the end of retry, and the next one stops the
// search.
std::vector<std::string> Model::choose(const TakeLimits& limits, std::size_t most, Taken& taken) {
  std::vector<std::string> chosen, skipped;
  while (chosen.size() < most && !retry_.empty()) {
    const std::string id = retry_.front();
    const Record& record = records_[id];
    const std::optional<std::int64_t> end = record.last_end;
    const bool possible_poison = end && *end % kMs != 0 && record.retries && !record.lease;
    const bool too_many = possible_poison && taken.possible_poison.size() == limits.poison_max;
    if (too_many && ++taken.further_poison > limits.poison_skip) break;
    retry_.pop_front();
    if (possible_poison && !too_many) taken.possible_poison.push_back(id);
    (too_many ? skipped : chosen).push_back(id);
  }
  retry_.insert(retry_.end(), skipped.begin(), skipped.end());
  return chosen;
}

Taken Model::ready2unack(const TakeLimits& limits, std::int64_t lease_us) {
  Taken taken;
  taken.retry_left = retry_.size();
  if (paused_) return taken;
  const std::size_t kept = std::min({limits.retry_share, limits.retry_max, limits.total, retry_.size()});
  const std::size_t for_ready = std::min(limits.total - kept, ready_.size());
  const std::vector<std::string> old = choose(limits, std::min(limits.retry_max, limits.total - for_ready), taken);
  std::vector<std::string> ids = pop(ready_, limits.total - old.size());
  ids.insert(ids.end(), old.begin(), old.end());
  std::vector<std::pair<std::string, int>> again;
  const std::size_t from_ready = ids.size() - old.size();
  std::vector<std::string> chosen;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Record& record = records_[ids[i]];
    const bool waits_in_retry = i < from_ready && record.retries && record.last_end && !record.due && !record.dead;
    if (waits_in_retry) retry_.push_back(ids[i]);
    if (!waits_in_retry) chosen.push_back(ids[i]);
  }
  for (const std::string& id : chosen) {
    Record& record = records_[id];
    if (record.placed()) continue;
    if (!record.retries) {
      record.garbage = true;
      continue;
    }
    record.lease = Span{lease_us, lease_us};
    const bool in_attempts = record.in_attempts();
    const bool redelivered = !in_attempts && std::find(old.begin(), old.end(), id) != old.end();
    if (redelivered) record.deliveries = 1;
    record.last_end.reset();
    record.undelivered = false;
    if (in_attempts || redelivered) {
      again.emplace_back(id, ++record.deliveries);
    } else {
      taken.messages.emplace_back(id, 1);
    }
    ++stats_["delivered"];
  }
  taken.messages.insert(taken.messages.end(), again.begin(), again.end());
  taken.popped = ids.size();
  taken.from_retry = old.size();
  taken.retry_left = retry_.size();
  return taken;
}

char Model::late(const Record& record, std::int64_t receipt) const {
  if (record.gone_to_verdicts()) return 'G';
  return !record.due && record.last_end == receipt ? 'S' : 'T';
}

std::string Model::remove(const std::vector<Hold>& holds, const std::string& counted_as) {
  std::string answer;
  for (const Hold& hold : holds) {
    Record& record = records_[hold.id];
    const char held = record.lease && record.lease->from == hold.end ? 'S' : 'T';
    answer += record.lease ? held : late(record, hold.end);
    if (answer.back() != 'S') continue;
    const bool garbage = record.garbage;
    record = Record();
    record.garbage = garbage;
    ++stats_[counted_as];
  }
  return answer;
}

void Model::finish(const std::string& id) {
  records_[id].strip();
  records_[id].garbage = true;
}

void Model::give_up(Span now, const std::string& id) {
  Record& record = records_[id];
  ++stats_["dead"];
  record.lease.reset();
  if (!keep_dead_) return finish(id);
  record.dead = now;
  record.retries.reset();
}

std::string Model::nack(Span now, const std::vector<Hold>& holds, std::optional<std::int64_t> delay_ms,
                        const std::string& why) {
  std::string answer;
  for (const Hold& hold : holds) {
    Record& record = records_[hold.id];
    if (!record.lease || record.lease->from != hold.end) {
      answer += record.lease || !record.gone_to_verdicts() ? 'T' : 'G';
      continue;
    }
    ++stats_["nacked"];
    answer += 'S';
    if (!record.retries) {
      record.lease.reset();
      finish(hold.id);
      continue;
    }
    record.reason = why;
    if (delay_ms && *record.retries > 0) {
      record.lease = backoff_end(now + *delay_ms * kMs);
      continue;
    }
    answer.back() = 'D';
    if (keep_dead_) record.expires_us.reset();
    give_up(now, hold.id);
  }
  return answer;
}

std::string Model::renew(Span now, const std::vector<Hold>& holds, std::int64_t new_end) {
  const bool in_time = !is_over({new_end, new_end}, now);
  std::string answer;
  for (const Hold& hold : holds) {
    std::optional<Span>& lease = records_[hold.id].lease;
    if (!lease) {
      answer += 'G';
    } else if (lease->from == new_end) {
      answer += 'N';
    } else if (lease->from != hold.end) {
      answer += 'T';
    } else {
      answer += in_time ? 'N' : 'O';
      if (in_time) lease = Span{new_end, new_end};
    }
  }
  return answer;
}

void Model::put(Span now, const std::string& id, std::int64_t delay_ms) {
  Record& record = records_[id];
  record.garbage = false;
  record.due.reset();
  if (delay_ms == 0) return ready_.push_front(id);
  if (record.expires_us) *record.expires_us += delay_ms * kMs;
  record.due = whole_ms(now + delay_ms * kMs);
}

void Model::leave_unack(Span now, const std::string& id, std::int64_t delay_ms, bool counted) {
  Record& record = records_[id];
  record.lease.reset();
  if (!record.retries) return finish(id);
  const bool in_attempts = record.in_attempts();
  record.deliveries = std::max(record.deliveries, 1) - (counted ? 0 : 1);
  record.undelivered = in_attempts && record.deliveries == 0;
  record.last_end.reset();
  put(now, id, delay_ms);
}

std::string Model::release(Span now, const std::vector<Hold>& holds, std::int64_t delay_ms) {
  std::string answer;
  for (const Hold& hold : holds) {
    const Record& record = records_[hold.id];
    answer += !record.lease ? 'G' : record.lease->from == hold.end ? 'S' : 'T';
    if (answer.back() == 'S') leave_unack(now, hold.id, delay_ms, false);
  }
  return answer;
}

std::string Model::release_waiting(Span now, const std::vector<std::string>& ids, bool force) {
  std::string answer;
  for (const std::string& id : ids) {
    Record& record = records_[id];
    if (record.lease && record.dead && (force || record.backs_off())) {
      answer += 'G';
      record.lease.reset();
    } else if (record.lease) {
      const bool leaves = force || record.backs_off();
      answer += !leaves ? 'H' : record.retries ? 'S' : 'G';
      if (leaves) leave_unack(now, id, 0, true);
    } else {
      answer += record.due && record.retries ? 'S' : 'G';
      if (answer.back() == 'S') put(now, id, 0);
    }
  }
  return answer;
}

void Model::reclaim(Span now, const std::string& id, Reclaimed& result) {
  Record& record = records_[id];
  const std::int64_t end = record.lease->from;
  record.lease.reset();
  if (!record.retries) {
    if (!record.dead) finish(id);
    return;
  }
  record.deliveries = std::max(record.deliveries, 1);
  record.undelivered = false;
  record.last_end = end;
  if (end % kMs != 0) record.reason = one_more_lease_ended(record.reason);
  if (*record.retries > 0) {
    --*record.retries;
    retry_.push_back(id);
    result.retried.push_back(id);
    ++stats_["retried"];
  } else {
    give_up(now, id);
    result.dead_lettered.push_back(id);
  }
}

Reclaimed Model::unack2retry(Span now) {
  Reclaimed result;
  for (const std::string& id : in_order(&Record::lease)) {
    if (result.moved == kBatch || !is_over(*records_[id].lease, now)) break;
    reclaim(now, id, result);
    ++result.moved;
  }
  return result;
}

std::size_t Model::persist(const std::vector<std::string>& ids) {
  std::size_t kept = 0;
  for (const std::string& id : ids) {
    Record& record = records_[id];
    if (!record.dead || !record.expires_us) continue;
    record.expires_us.reset();
    ++kept;
  }
  return kept;
}

std::size_t Model::gc(const std::vector<std::string>& ids) {
  std::size_t deleted = 0;
  for (const std::string& id : ids) {
    Record& record = records_[id];
    if (!record.garbage) continue;
    record.garbage = false;
    if (record.placed()) continue;
    record = Record();
    ++deleted;
  }
  return deleted;
}

std::size_t Model::delete_orphaned_metadata(const std::vector<std::string>& ids) {
  std::size_t deleted = 0;
  for (const std::string& id : ids) {
    Record& record = records_[id];
    if (record.retries || record.dead) continue;
    record.clear_metadata();
    ++deleted;
  }
  return deleted;
}

void Model::search(const std::string& id, std::size_t longest) {
  if (records_[id].placed() || std::max(ready_.size(), retry_.size()) > longest) return;
  remove_all(ready_, id);
  remove_all(retry_, id);
}

std::string Model::cancel(const std::string& id, std::size_t search_lists) {
  Record& record = records_[id];
  if (!record.exists() || !(record.retries || record.placed())) return "unknown";
  const bool in_unack = record.lease && (record.retries || !record.dead);
  if (in_unack && !record.backs_off()) {
    if (!record.retries) return "unack";
    record.retries.reset();
    record.due.reset();
    ++stats_["cancelled"];
    return "unack";
  }
  const std::string listed = record.last_end ? "retry" : "ready";
  const std::string was = in_unack ? "retry" : record.due ? "pending" : record.dead ? "dead" : listed;
  search(id, search_lists);
  const bool garbage = record.garbage;
  record = Record();
  record.garbage = garbage;
  ++stats_["cancelled"];
  return was;
}

std::string Model::reschedule(Span now, const std::string& id, const Due& when, std::size_t search_lists) {
  Record& record = records_[id];
  const std::int64_t delay = when.delay ? when.delay->count() * kMs : 0;
  const Span due = when.delay ? whole_ms(now + delay) : Span{when.at_ms * kMs, when.at_ms * kMs};
  const bool later = when.delay ? delay > 0 : !is_over(due, now);
  if (!record.exists()) return "unknown";
  if (record.dead || (record.lease && !record.backs_off())) return "refused";
  if (!record.retries) return "unknown";
  if (record.expires_us) *record.expires_us += due.from - (record.due ? *record.due : now).from;
  if (record.lease) record.deliveries = std::max(record.deliveries, 1);
  record.last_end.reset();
  search(id, search_lists);
  record.garbage = false;
  record.lease.reset();
  record.due.reset();
  if (later) record.due = due;
  if (!later) ready_.push_back(id);
  return "moved";
}

std::string Model::redrive(const std::vector<std::string>& ids, int retries) {
  std::string answer;
  for (const std::string& id : ids) {
    Record& record = records_[id];
    answer += !record.dead ? 'G' : record.body ? 'S' : 'B';
    if (answer.back() == 'G') continue;
    record.dead.reset();
    record.garbage = answer.back() == 'B';
    if (record.garbage) continue;
    record.retries = retries;
    record.clear_metadata();
    record.undelivered = !retry_.empty();
    ready_.push_back(id);
    ++stats_["redriven"];
  }
  return answer;
}

Purged Model::purge_zset(Span now, bool pending, std::size_t limit, std::optional<std::int64_t> age_us,
                         std::int64_t leave) {
  const Time time = pending ? &Record::due : &Record::dead;
  const std::vector<std::string> ids = in_order(time);
  const auto all = static_cast<std::int64_t>(ids.size());
  const auto most = std::min(limit, static_cast<std::size_t>(std::max<std::int64_t>(0, all - leave)));
  Purged result;
  for (const std::string& id : ids) {
    std::optional<Span>& score = records_[id].*time;
    if (result.removed == most || (age_us && !is_over(*score + *age_us, now))) break;
    ++result.removed;
    ++result.purged;
    score.reset();
    finish(id);
    result.garbage.push_back(id);
    ++stats_["purged"];
  }
  return result;
}

Purged Model::purge_list(bool ready, std::size_t limit) {
  Purged result;
  for (const std::string& id : pop(ready ? ready_ : retry_, limit)) {
    ++result.removed;
    const bool seen = std::count(result.garbage.begin(), result.garbage.end(), id) > 0;
    if (seen || records_[id].placed()) continue;
    if (records_[id].retries) ++result.purged;
    finish(id);
    result.garbage.push_back(id);
  }
  stats_["purged"] += static_cast<long long>(result.purged);
  return result;
}

}  // namespace test::model
