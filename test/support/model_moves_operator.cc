#include <algorithm>

#include "support/model_ask.h"

// Moves that operators make by id: how they run and are checked, and how their arguments are drawn.
namespace test::model {
namespace {

using delayqueue::store::Pipeline;
using delayqueue::store::PurgedIds;
using delayqueue::store::RestoreRecord;
using std::chrono::milliseconds;

constexpr std::int64_t kSecond = 1000;
constexpr std::size_t kMostIds = 40;

}  // namespace

void Play::kill(const Ids& ids, const std::string& why, bool force, bool search) {
  const std::string answer = ask((force ? "kill by force" : "kill") + joined(ids), [&](Pipeline& pipeline) {
    return (search ? searching_ : store_).kill(pipeline, ids, why, force);
  });
  const std::string expected = model_.kill(now_, ids, why, force, search ? kSearchLists : 0);
  for (std::size_t i = 0; i < ids.size() && i < answer.size(); ++i) {
    if (answer[i] == 'S') lives_.dead_lettered(ids[i], true);
  }
  agree(answer, expected);
}

void Play::extend(const Ids& ids, std::int64_t by_ms, bool force) {
  std::vector<bool> held;
  for (const std::string& id : ids) held.push_back(model_[id].lease && !model_[id].backs_off());
  const std::string answer =
      ask((force ? "extend by force" : "extend") + joined(ids) + " by " + std::to_string(by_ms),
          [&](Pipeline& pipeline) { return store_.extend(pipeline, ids, milliseconds(by_ms), force); });
  const std::string expected = model_.extend(now_, ids, by_ms, force);
  for (std::size_t i = 0; i < ids.size() && i < answer.size(); ++i) {
    if (answer[i] != 'S') continue;
    const auto end = dump_.unack.find(ids[i]);
    if (end == dump_.unack.end()) throw Mismatch("extended, and not in unack");
    lives_.extended(ids[i], now_.from, by_ms * 1000, held[i] ? std::optional(end->second) : std::nullopt);
  }
  agree(answer, expected);
}

void Play::purge_ids(char state, const Ids& ids) {
  const auto& keys = store_.keys();
  const std::string& key = state == 'p'   ? keys.pending
                           : state == 'd' ? keys.dead
                           : state == 'r' ? keys.ready
                                          : keys.retry;
  const PurgedIds real =
      ask("purge_ids " + key + joined(ids), [&](Pipeline& pipeline) { return store_.purge_ids(pipeline, key, ids); });
  const PurgedIds expected = model_.purge_ids(state, ids);
  for (std::size_t i = 0; i < ids.size() && i < real.outcomes.size(); ++i) {
    if (real.outcomes[i] == 'S') lives_.ended(ids[i], "purged");
  }
  agree(shown(real), shown(expected));
}

void Play::restore(const std::vector<RestoreEntry>& entries) {
  std::vector<RestoreRecord> messages;
  std::string names;
  for (const RestoreEntry& entry : entries) {
    RestoreRecord one = entry.terms;
    one.id = entry.id;
    one.reason = entry.reason;
    one.payload = entry.payload;
    messages.push_back(one);
    names += ' ' + entry.id.substr(0, 8) + (one.dead ? " dead at " : " at ") + std::to_string(one.at_us);
  }
  const std::string answer =
      ask("restore" + names, [&](Pipeline& pipeline) { return store_.restore(pipeline, messages); });
  const std::string expected = model_.restore(now_, messages);
  for (std::size_t i = 0; i < entries.size() && i < answer.size(); ++i) {
    if (answer[i] == '1') lives_.created(entries[i].id, messages[i].at_us, messages[i].retries);
    if (answer[i] == '1' && messages[i].dead) lives_.dead_lettered(entries[i].id, true);
    if (answer[i] == '0' && dump_.unack.count(entries[i].id) == 0) lives_.existed(entries[i].id);
  }
  agree(answer, expected);
}

void Play::draw_kill() {
  const Ids ids = draw_ids(4);
  const std::string why = random_.one_in(3) ? "" : "killed in move " + std::to_string(log_.size());
  const bool force = random_.one_in(3);
  const bool search = random_.one_in(2);
  if (!ids.empty()) perform([=] { kill(ids, why, force, search); });
}

void Play::draw_extend() {
  const Ids ids = draw_ids(8);
  const std::int64_t by = random_.of({10, 20, 60, 300}) * kSecond;
  const bool force = random_.one_in(3);
  if (!ids.empty()) perform([=] { extend(ids, by, force); });
}

void Play::draw_purge_ids() {
  const Ids ids = draw_ids(4);
  const char state = "pdrt"[random_.below(4)];
  if (!ids.empty()) perform([=] { purge_ids(state, ids); });
}

void Play::draw_restore() {
  std::vector<RestoreEntry> entries;
  for (std::size_t n = 1 + random_.below(4); n > 0; --n) {
    const bool known = !ids_.empty() && (ids_.size() >= kMostIds || random_.one_in(2));
    if (!known) ids_.push_back(random_.uuid());
    RestoreEntry entry;
    entry.id = known ? ids_[random_.below(ids_.size())] : ids_.back();
    entry.payload = "restored in move " + std::to_string(log_.size());
    entry.reason = random_.one_in(2) ? "" : "it once failed";
    entry.terms.dead = random_.one_in(3);
    const std::int64_t seconds = entry.terms.dead ? -20 : random_.of({-20, 10, 10, 60, 300});
    entry.terms.at_us = now_.to / 1000 * 1000 + seconds * 1'000'000 + static_cast<std::int64_t>(random_.below(1000));
    if (!entry.terms.dead) entry.terms.retries = static_cast<int>(random_.below(3));
    entry.terms.deliveries = static_cast<int>(random_.below(3));
    if (!entry.terms.dead) entry.terms.ttl = milliseconds(random_.of({0, 0, 24}) * 3600 * kSecond);
    entries.push_back(entry);
  }
  perform([=] { restore(entries); });
}

}  // namespace test::model
