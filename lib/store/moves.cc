#include "store/moves.h"

#include "store/scripts.h"

#include <delayqueue/error.h>

#include <algorithm>

namespace delayqueue::store {
namespace {

using redis::Reply;

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

constexpr std::size_t kIdLength = 36;

// Removes and returns the first `length` characters and the space after them. The word itself may contain spaces.
std::string next_word(std::string_view& text, std::size_t length) {
  std::string word(text.substr(0, length));
  text.remove_prefix(std::min(length + 1, text.size()));
  return word;
}

std::vector<std::string> split_ids(std::string_view text) {
  std::vector<std::string> ids;
  while (!text.empty()) ids.push_back(next_word(text, kIdLength));
  return ids;
}

// Drops the entries that are no ids: another program may have written any text into the lists.
std::vector<std::string> only_ids(std::string_view text) {
  std::vector<std::string> ids = split_ids(text);
  ids.erase(std::remove_if(ids.begin(), ids.end(), [](const std::string& id) { return !is_id(id); }), ids.end());
  return ids;
}

std::size_t as_count(Reply reply) { return static_cast<std::size_t>(std::max(0LL, reply.integer())); }

// Clamped to the times of messages, so that adding a duration cannot overflow.
std::int64_t as_now(Reply reply) { return std::clamp<std::int64_t>(reply.integer(), 0, kLatestUs); }

std::optional<microseconds> as_wait(Reply reply) {
  constexpr std::int64_t kLongestUs = 100LL * 365 * 86'400'000'000;  // longer than any wait of this library
  const std::int64_t us = reply.integer();
  return us < 0 ? std::nullopt : std::optional(microseconds(std::min(us, kLongestUs)));
}

std::string as_text(Reply reply) { return std::string(reply.text()); }

// A number n stands for n times the outcome kSuccess.
template <char kSuccess>
Outcomes as_outcomes(Reply reply) {
  if (reply.is_text()) return as_text(reply);
  if (as_count(reply) > kBatch) throw ReplyError("unexpected answer: outcomes of more messages than a call can have");
  return std::string(as_count(reply), kSuccess);
}

// The answer to the first send to a queue is marked: a number is negative, and a string ends in N.
bool as_first(Reply reply) {
  return reply.is_text() ? !reply.text().empty() && reply.text().back() == 'N' : reply.integer() < 0;
}

Outcomes as_sent(Reply reply) {
  if (!as_first(reply)) return as_outcomes<'1'>(reply);
  if (reply.is_text()) return std::string(reply.text().substr(0, reply.text().size() - 1));
  if (reply.integer() < -static_cast<std::int64_t>(kBatch)) {
    throw ReplyError("unexpected answer: outcomes of more messages than a call can have");
  }
  return std::string(static_cast<std::size_t>(-reply.integer()), '1');
}

bool as_done(Reply reply) { return reply.integer() == 1; }

// The answer to SET NX: nil means that the key existed.
bool as_set(Reply reply) { return !reply.is_nil(); }

std::vector<std::string> as_texts(Reply reply) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < reply.size(); ++i) texts.push_back(as_text(reply[i]));
  return texts;
}

std::vector<std::optional<std::string>> as_bodies(Reply reply) {
  std::vector<std::optional<std::string>> bodies;
  bodies.reserve(reply.size());
  for (std::size_t i = 0; i < reply.size(); ++i) {
    if (reply[i].is_nil()) {
      bodies.emplace_back();
    } else {
      bodies.emplace_back(reply[i].text());
    }
  }
  return bodies;
}

Promoted as_promoted(Reply reply) {
  return {as_count(reply[0]), as_wait(reply[1]), only_ids(reply[2].text()), reply[3].integer() == 1};
}

Taken as_taken(Reply reply) {
  Taken taken;
  taken.popped = as_count(reply[0]);
  taken.lease_us = reply[1].integer();
  taken.now_us = as_now(reply[2]);
  for (std::string& id : split_ids(reply[3].text())) taken.messages.emplace_back(std::move(id), 1);
  for (std::string_view again = reply[4].text(); !again.empty();) {
    std::string id = next_word(again, kIdLength);
    const std::string deliveries = next_word(again, std::min(again.find(' '), again.size()));
    taken.messages.emplace_back(std::move(id), std::max(1, deliveries_of(deliveries)));
  }
  taken.from_retry = as_count(reply[5]);
  taken.retry_left = as_count(reply[6]);
  taken.possible_poison = split(reply[7].text());
  taken.further_poison = as_count(reply[8]);
  taken.foreign = as_count(reply[9]);
  taken.foreign_id = as_text(reply[10]);
  taken.retries_left = number_at_start(reply[11].text());
  for (std::string_view others = reply[12].text(); !others.empty();) {
    std::string id = next_word(others, kIdLength);
    taken.other_retries_left[std::move(id)] =
        number_at_start(next_word(others, std::min(others.find(' '), others.size())));
  }
  return taken;
}

Renewed as_renewed(Reply reply) { return {as_now(reply[0]), as_text(reply[1])}; }

Reclaimed as_reclaimed(Reply reply) {
  return {as_count(reply[0]), as_wait(reply[1]), only_ids(reply[2].text()), only_ids(reply[3].text())};
}

std::pair<std::string, std::vector<std::string>> as_scan(Reply reply) {
  std::vector<std::string> fields;
  for (std::size_t i = 0; i < reply[1].size(); i += 2) fields.push_back(as_text(reply[1][i]));
  return {as_text(reply[0]), fields};
}

PurgedIds as_purged_ids(Reply reply) { return {as_text(reply[0]), as_count(reply[1])}; }

Purged as_purged(Reply reply) { return {as_count(reply[0]), as_count(reply[1]), split(reply[2].text())}; }

}  // namespace

void Store::add_due(Pipeline& pipeline, const Due& due) const {
  if (due.delay) {
    pipeline.arg(due.delay->count()).arg("");
  } else {
    pipeline.arg("").arg(due.at_ms);
  }
}

Answer<Outcomes> Store::send(Pipeline& pipeline, const std::vector<NewMessage>& messages,
                             const SendTerms& terms) const {
  pipeline.script(scripts::send).key(keys_.pending).key(keys_.ready).key(keys_.count).key(keys_.garbage);
  pipeline.key(keys_.unack).key(keys_.dead).key(keys_.attempts).key(keys_.reason).key(keys_.stats).key(keys_.wake);
  pipeline.key(keys_.retry);
  for (const NewMessage& message : messages) pipeline.key(keys_.bodies, message.id);
  pipeline.arg(terms.fresh ? "1" : "0");
  add_due(pipeline, terms.due);
  pipeline.arg(terms.retries).arg(terms.ttl.count());
  for (const NewMessage& message : messages) pipeline.arg(message.payload);
  return {pipeline, as_sent};
}

Answer<bool> Store::is_first(Pipeline& pipeline) { return {pipeline, as_first}; }

void Store::wake(Pipeline& pipeline) const {
  pipeline.command("ZADD").key(keys_.wake).arg("0").arg(kMarker).repeatable();
}

void Store::clear_wake(Pipeline& pipeline) const { pipeline.command("UNLINK").key(keys_.wake).repeatable(); }

Answer<Promoted> Store::pending2ready(Pipeline& pipeline, bool with_ids, const Watcher& watcher) const {
  promote(pipeline, kBatch, with_ids, watcher);
  return {pipeline, as_promoted};
}

void Store::leave_watch(Pipeline& pipeline, std::string_view name) const { promote(pipeline, 0, false, {name, {}}); }

void Store::promote(Pipeline& pipeline, std::size_t most, bool with_ids, const Watcher& watcher) const {
  pipeline.script(scripts::pending2ready).key(keys_.pending).key(keys_.ready).key(keys_.watch).key(keys_.wake);
  pipeline.arg(most).arg(with_ids ? "1" : "0").arg(watcher.name);
  watcher.next_call ? pipeline.arg(microseconds(*watcher.next_call).count()) : pipeline.arg("");
}

Answer<Taken> Store::ready2unack(Pipeline& pipeline, const TakeLimits& limits, milliseconds lease) const {
  pipeline.script(scripts::ready2unack).key(keys_.ready).key(keys_.retry).key(keys_.unack).key(keys_.pending);
  pipeline.key(keys_.dead).key(keys_.count).key(keys_.attempts).key(keys_.garbage).key(keys_.paused).key(keys_.stats);
  pipeline.arg(std::min(limits.total, kBatch)).arg(limits.retry_share).arg(limits.retry_max);
  pipeline.arg(microseconds(lease).count()).arg(limits.poison_max).arg(std::min(limits.poison_skip, kBatch));
  return {pipeline, as_taken};
}

Answer<std::vector<std::optional<std::string>>> Store::bodies(Pipeline& pipeline,
                                                              const std::vector<std::string>& ids) const {
  pipeline.command("MGET");
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
  return {pipeline, as_bodies};
}

Answer<Outcomes> Store::ack(Pipeline& pipeline, const std::vector<Receipt>& receipts) const {
  return remove(pipeline, "acked", receipts);
}

Answer<Outcomes> Store::expire(Pipeline& pipeline, const std::vector<Receipt>& receipts) const {
  return remove(pipeline, "expired", receipts);
}

Answer<Outcomes> Store::remove_foreign(Pipeline& pipeline, const std::vector<Receipt>& receipts) const {
  return remove(pipeline, "foreign", receipts);
}

Answer<Outcomes> Store::remove(Pipeline& pipeline, std::string_view counted_as,
                               const std::vector<Receipt>& receipts) const {
  pipeline.script(scripts::ack).key(keys_.unack).key(keys_.count).key(keys_.attempts).key(keys_.reason);
  pipeline.key(keys_.pending).key(keys_.dead).key(keys_.garbage).key(keys_.stats);
  for (const Receipt& receipt : receipts) pipeline.key(keys_.bodies, receipt.id);
  pipeline.arg(counted_as);
  auto end = receipts.end();  // the script repeats the last receipt, so equal ones at the end are not sent
  while (end - receipts.begin() > 1 && (end - 1)->end_us == (end - 2)->end_us) --end;
  std::for_each(receipts.begin(), end, [&](const Receipt& receipt) { pipeline.arg(receipt.end_us); });
  return {pipeline, as_outcomes<'S'>};
}

Answer<Outcomes> Store::nack(Pipeline& pipeline, const std::vector<Nack>& nacks) const {
  pipeline.script(scripts::nack).key(keys_.unack).key(keys_.count).key(keys_.attempts).key(keys_.reason);
  pipeline.key(keys_.dead).key(keys_.garbage).key(keys_.stats);
  for (const Nack& nack : nacks) pipeline.key(keys_.bodies, nack.receipt.id);
  pipeline.arg(options_.keep_dead ? "1" : "0");
  for (const Nack& nack : nacks) {
    pipeline.arg(nack.receipt.end_us);
    nack.delay ? pipeline.arg(nack.delay->count()) : pipeline.arg("");
    pipeline.arg(nack.reason);
  }
  return {pipeline, as_text};
}

Answer<Renewed> Store::renew(Pipeline& pipeline, const std::vector<Receipt>& receipts, std::int64_t new_end_us) const {
  pipeline.script(scripts::renew).key(keys_.unack).arg(new_end_us);
  for (const Receipt& receipt : receipts) pipeline.arg(receipt.id).arg(receipt.end_us);
  return {pipeline, as_renewed};
}

Answer<Outcomes> Store::release(Pipeline& pipeline, const std::vector<Receipt>& receipts, milliseconds delay) const {
  pipeline.script(scripts::release).key(keys_.unack).key(keys_.ready).key(keys_.pending).key(keys_.count);
  pipeline.key(keys_.attempts).key(keys_.reason).key(keys_.garbage).key(keys_.dead);
  for (const Receipt& receipt : receipts) pipeline.key(keys_.bodies, receipt.id);
  pipeline.arg(delay.count());
  for (const Receipt& receipt : receipts) pipeline.arg(receipt.end_us);
  return {pipeline, as_text};
}

Answer<Outcomes> Store::release_waiting(Pipeline& pipeline, const std::vector<std::string>& ids, bool force) const {
  pipeline.script(scripts::release).key(keys_.unack).key(keys_.ready).key(keys_.pending).key(keys_.count);
  pipeline.key(keys_.attempts).key(keys_.reason).key(keys_.garbage).key(keys_.dead);
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
  pipeline.arg("0");
  for (std::size_t i = 0; i < ids.size(); ++i) pipeline.arg(force ? "*" : "-");
  return {pipeline, as_text};
}

Answer<Reclaimed> Store::unack2retry(Pipeline& pipeline, bool only_backoffs) const {
  pipeline.script(scripts::unack2retry).key(keys_.unack).key(keys_.retry).key(keys_.count).key(keys_.dead);
  pipeline.key(keys_.garbage).key(keys_.attempts).key(keys_.reason).key(keys_.stats);
  pipeline.arg(kReclaimBatch).arg(options_.keep_dead ? "1" : "0").arg(only_backoffs ? "1" : "0");
  return {pipeline, as_reclaimed};
}

Answer<std::size_t> Store::persist(Pipeline& pipeline, const std::vector<std::string>& ids) const {
  pipeline.script(scripts::persist).key(keys_.dead);
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
  return {pipeline, as_count};
}

Answer<std::vector<std::string>> Store::sample_garbage(Pipeline& pipeline) const {
  pipeline.command("SRANDMEMBER").key(keys_.garbage).arg(kBatch);
  return {pipeline, as_texts};
}

Answer<std::size_t> Store::gc(Pipeline& pipeline, const std::vector<std::string>& ids) const {
  pipeline.script(scripts::gc).key(keys_.garbage).key(keys_.unack).key(keys_.pending).key(keys_.dead);
  pipeline.key(keys_.count).key(keys_.attempts).key(keys_.reason);
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
  pipeline.arg(keys_.bodies.size());
  return {pipeline, as_count};
}

Answer<std::pair<std::string, std::vector<std::string>>> Store::scan_metadata(Pipeline& pipeline,
                                                                              const std::string& key,
                                                                              const std::string& cursor) const {
  pipeline.command("HSCAN").key(key).arg(cursor).arg("COUNT").arg(kBatch / 2);
  return {pipeline, as_scan};
}

Answer<std::size_t> Store::delete_orphaned_metadata(Pipeline& pipeline, const std::vector<std::string>& ids) const {
  pipeline.script(scripts::delete_orphaned_metadata)
      .key(keys_.count)
      .key(keys_.dead)
      .key(keys_.attempts)
      .key(keys_.reason);
  for (const std::string& id : ids) pipeline.arg(id);
  return {pipeline, as_count};
}

Answer<std::string> Store::cancel(Pipeline& pipeline, std::string_view id) const {
  pipeline.script(scripts::cancel).key(keys_.bodies, id).key(keys_.pending).key(keys_.unack).key(keys_.dead);
  pipeline.key(keys_.count).key(keys_.attempts).key(keys_.reason).key(keys_.garbage);
  pipeline.key(keys_.ready).key(keys_.retry).key(keys_.stats).arg(options_.search_lists);
  return {pipeline, as_text};
}

Answer<std::string> Store::reschedule(Pipeline& pipeline, std::string_view id, const Due& due) const {
  pipeline.script(scripts::reschedule).key(keys_.bodies, id).key(keys_.pending).key(keys_.unack).key(keys_.dead);
  pipeline.key(keys_.count).key(keys_.attempts).key(keys_.garbage).key(keys_.ready).key(keys_.retry);
  pipeline.key(keys_.wake);
  add_due(pipeline, due);
  pipeline.arg(options_.search_lists);
  return {pipeline, as_text};
}

Answer<Outcomes> Store::redrive(Pipeline& pipeline, const std::vector<std::string>& ids, int retries) const {
  pipeline.script(scripts::redrive).key(keys_.dead).key(keys_.ready).key(keys_.count).key(keys_.attempts);
  pipeline.key(keys_.reason).key(keys_.garbage).key(keys_.stats).key(keys_.retry);
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
  pipeline.arg(retries);
  return {pipeline, as_text};
}

Answer<Outcomes> Store::bury(Pipeline& pipeline, const std::vector<std::string>& ids, std::string_view reason,
                             bool force) const {
  pipeline.script(scripts::bury).key(keys_.unack).key(keys_.pending).key(keys_.dead).key(keys_.count);
  pipeline.key(keys_.attempts).key(keys_.reason).key(keys_.garbage).key(keys_.ready).key(keys_.retry).key(keys_.stats);
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
  pipeline.arg(force ? "1" : "0").arg(reason).arg(options_.search_lists);
  return {pipeline, as_text};
}

Answer<Outcomes> Store::extend(Pipeline& pipeline, const std::vector<std::string>& ids, milliseconds by,
                               bool force) const {
  pipeline.script(scripts::extend).key(keys_.unack).key(keys_.count);
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
  pipeline.arg(by.count()).arg(force ? "1" : "0");
  return {pipeline, as_text};
}

Answer<Outcomes> Store::restore(Pipeline& pipeline, const std::vector<RestoreRecord>& messages) const {
  pipeline.script(scripts::restore).key(keys_.pending).key(keys_.ready).key(keys_.count).key(keys_.garbage);
  pipeline.key(keys_.unack).key(keys_.dead).key(keys_.attempts).key(keys_.reason).key(keys_.stats).key(keys_.retry);
  for (const RestoreRecord& message : messages) pipeline.key(keys_.bodies, message.id);
  for (const RestoreRecord& message : messages) {
    pipeline.arg(message.dead ? "dead" : "alive").arg(message.at_us).arg(message.retries).arg(message.deliveries);
    pipeline.arg(message.ttl.count()).arg(message.reason).arg(message.payload);
  }
  return {pipeline, as_text};
}

Answer<PurgedIds> Store::purge_ids(Pipeline& pipeline, const std::string& state,
                                   const std::vector<std::string>& ids) const {
  const bool list = state == keys_.ready || state == keys_.retry;
  pipeline.script(scripts::purge_ids).key(keys_.pending).key(keys_.unack).key(keys_.dead).key(keys_.count);
  pipeline.key(keys_.attempts).key(keys_.reason).key(keys_.garbage).key(list ? state : keys_.ready).key(keys_.stats);
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
  pipeline.arg(std::string_view(state).substr(keys_.base.size() + 1));
  return {pipeline, as_purged_ids};
}

Answer<Purged> Store::purge_zset(Pipeline& pipeline, const std::string& state, std::size_t limit,
                                 std::optional<milliseconds> older_than, std::int64_t leave) const {
  pipeline.script(scripts::purge).key(state).key(keys_.pending).key(keys_.unack).key(keys_.dead).key(keys_.count);
  pipeline.key(keys_.attempts).key(keys_.reason).key(keys_.garbage).key(keys_.stats);
  pipeline.arg("zset").arg(std::min(limit, kBatch));
  older_than ? pipeline.arg(older_than->count()) : pipeline.arg("");
  pipeline.arg(leave);
  return {pipeline, as_purged};
}

Answer<Purged> Store::purge_list(Pipeline& pipeline, const std::string& state, std::size_t limit) const {
  return purge_some(pipeline, "list", state, limit);
}

Answer<Purged> Store::purge_hints(Pipeline& pipeline, const std::string& list) const {
  return purge_some(pipeline, "hints", list, kBatch);
}

Answer<Purged> Store::purge_some(Pipeline& pipeline, const char* what, const std::string& list,
                                 std::size_t limit) const {
  pipeline.script(scripts::purge).key(list).key(keys_.pending).key(keys_.unack).key(keys_.dead).key(keys_.count);
  pipeline.key(keys_.attempts).key(keys_.reason).key(keys_.garbage).key(keys_.stats);
  pipeline.arg(what).arg(std::min(limit, kBatch)).arg("0").arg("0");
  return {pipeline, as_purged};
}

Answer<bool> Store::forget(Pipeline& pipeline) const {
  pipeline.script(scripts::forget).key(keys_.pending).key(keys_.ready).key(keys_.unack).key(keys_.retry);
  pipeline.key(keys_.dead).key(keys_.count).key(keys_.garbage);
  pipeline.key(keys_.attempts).key(keys_.reason).key(keys_.stats).key(keys_.paused).key(keys_.wake);
  pipeline.key(keys_.watch).key(keys_.lock);
  return {pipeline, as_done};
}

Answer<bool> Store::lock(Pipeline& pipeline, std::string_view holder, milliseconds for_) const {
  pipeline.command("SET").key(keys_.lock).arg(holder).arg("NX").arg("PX").arg(for_.count());
  return {pipeline, as_set};
}

Answer<bool> Store::unlock(Pipeline& pipeline, std::string_view holder) const {
  pipeline.script(scripts::unlock).key(keys_.lock).arg(holder);
  return {pipeline, as_done};
}

}  // namespace delayqueue::store
