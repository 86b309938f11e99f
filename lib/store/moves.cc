#include "store/moves.h"

#include "store/record.h"
#include "store/replies.h"
#include "store/scripts.h"

#include <algorithm>
#include <numeric>

namespace delayqueue::store {

void Store::add_due(Pipeline& pipeline, const Due& due) const {
  if (due.delay) {
    pipeline.arg(due.delay->count()).arg("");
  } else {
    pipeline.arg("").arg(due.at_ms);
  }
}

namespace {

template <class Messages>
std::size_t payload_bytes(const Messages& messages) {
  return std::accumulate(messages.begin(), messages.end(), std::size_t{0},
                         [](std::size_t sum, const auto& message) { return sum + message.payload.size(); });
}

bool have_headers(const std::vector<NewMessage>& messages) {
  return std::any_of(messages.begin(), messages.end(), [](const NewMessage& one) { return !one.headers.empty(); });
}

}  // namespace

// Adds a SET for each message, if they are large enough on average. Returns the names of the keys, without their
// prefix.
template <class Messages>
std::vector<std::string> Store::stage(Pipeline& pipeline, const Messages& messages) const {
  if (payload_bytes(messages) < messages.size() * options_.staged_bytes) return {};
  std::vector<std::string> names = new_ids(messages.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    pipeline.command("SET").key(keys_.staged, names[i]).payload(messages[i].payload);
    pipeline.arg("PX").arg(milliseconds(kStagedFor).count());
  }
  return names;
}

Answer<Outcomes> Store::send(Pipeline& pipeline, const std::vector<NewMessage>& messages,
                             const SendTerms& terms) const {
  if (stores_bodies_first(messages, terms)) return send_new(pipeline, messages, terms);
  if (terms.fresh && messages.size() == 1) return send_one(pipeline, messages.front(), terms);
  const std::vector<std::string> staged = stage(pipeline, messages);
  pipeline.script(scripts::send).key(keys_.pending).key(keys_.ready).key(keys_.count).key(keys_.garbage);
  pipeline.key(keys_.unack).key(keys_.dead).key(keys_.attempts).key(keys_.reason).key(keys_.stats).key(keys_.wake);
  pipeline.key(keys_.retry).key(keys_.headers);
  for (const NewMessage& message : messages) pipeline.key(keys_.bodies, message.id);
  for (const std::string& name : staged) pipeline.key(keys_.staged, name);
  pipeline.arg(terms.fresh ? "1" : "0");
  add_due(pipeline, terms.due);
  pipeline.arg(terms.retries).arg(terms.ttl.count());
  if (staged.empty()) {
    for (const NewMessage& message : messages) pipeline.payload(message.payload);
  }
  if (have_headers(messages)) {
    for (const NewMessage& message : messages) pipeline.arg(message.headers);
  }
  pipeline.needs(staged.size());
  return {pipeline, as_sent};
}

Answer<Outcomes> Store::send_new(Pipeline& pipeline, const std::vector<NewMessage>& messages,
                                 const SendTerms& terms) const {
  const std::string_view token = messages.front().id;
  pipeline.command("MSETNX").key(keys_.staged, token).arg("");
  for (const NewMessage& message : messages) pipeline.key(keys_.bodies, message.id).payload(message.payload);
  pipeline.in_transaction_with(scripts::send_new).key(keys_.pending).key(keys_.ready).key(keys_.count).key(keys_.stats);
  pipeline.key(keys_.wake).key(keys_.headers).key(keys_.staged, token);
  if (terms.ttl.count() > 0) {
    for (const NewMessage& message : messages) pipeline.key(keys_.bodies, message.id);
  }
  add_due(pipeline, terms.due);
  pipeline.arg(terms.retries).arg(terms.ttl.count()).arg(messages.size());
  for (const NewMessage& message : messages) pipeline.arg(message.id);
  if (have_headers(messages)) {
    for (const NewMessage& message : messages) pipeline.arg(message.headers);
  }
  return {pipeline, as_sent};
}

bool Store::stores_bodies_first(const std::vector<NewMessage>& messages, const SendTerms& terms) const {
  return terms.fresh && terms.bodies_first.value_or(payload_bytes(messages) >= options_.staged_bytes);
}

void Store::delete_bodies(Pipeline& pipeline, const std::vector<std::string>& ids) const {
  pipeline.command("UNLINK").repeatable().key(keys_.staged, ids.front());
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
}

Answer<Outcomes> Store::send_one(Pipeline& pipeline, const NewMessage& message, const SendTerms& terms) const {
  pipeline.script(scripts::send_one).key(keys_.pending).key(keys_.ready).key(keys_.count).key(keys_.stats);
  pipeline.key(keys_.wake).key(keys_.bodies, message.id);
  if (!message.headers.empty()) pipeline.key(keys_.headers);
  add_due(pipeline, terms.due);
  pipeline.arg(terms.retries).arg(terms.ttl.count()).payload(message.payload);
  if (!message.headers.empty()) pipeline.arg(message.headers);
  return {pipeline, as_sent};
}

Answer<bool> Store::is_first(Pipeline& pipeline) { return {pipeline, as_first}; }

void Store::wake(Pipeline& pipeline) const {
  pipeline.command("ZADD").key(keys_.wake).arg("0").arg(kMarker).repeatable();
}

void Store::wake_for(Pipeline& pipeline, unsigned partition, std::string_view due) const {
  pipeline.command("ZADD").key(keys_.wakes).arg("LT").arg(due).arg(partition).repeatable();
}

Answer<std::optional<std::string>> Store::take_marker(Pipeline& pipeline) const {
  // Repeatable, because a script that is sent again leaves its marker after the first ZPOPMIN.
  pipeline.command("ZPOPMIN").key(keys_.wake).repeatable();
  return {pipeline, as_score};
}

void Store::clear_wakes(Pipeline& pipeline) const { pipeline.command("UNLINK").key(keys_.wakes).repeatable(); }

void Store::clear_wake(Pipeline& pipeline) const { pipeline.command("UNLINK").key(keys_.wake).repeatable(); }

Answer<Promoted> Store::pending2ready(Pipeline& pipeline, bool with_ids, const Watcher& watcher) const {
  promote(pipeline, kBatch, with_ids, watcher);
  return {pipeline, as_promoted};
}

void Store::leave_watch(Pipeline& pipeline, std::string_view name) const { promote(pipeline, 0, false, {name, {}}); }

void Store::promote(Pipeline& pipeline, std::size_t most, bool with_ids, const Watcher& watcher) const {
  pipeline.script(scripts::pending2ready).key(keys_.pending).key(keys_.ready).key(keys_.watch).key(keys_.wake);
  pipeline.key(keys_.stats).arg(most).arg(with_ids ? "1" : "0").arg(watcher.name);
  watcher.next_call ? pipeline.arg(microseconds(*watcher.next_call).count()) : pipeline.arg("");
}

Answer<Taken> Store::ready2unack(Pipeline& pipeline, const TakeLimits& limits, milliseconds lease) const {
  pipeline.script(scripts::ready2unack).key(keys_.ready).key(keys_.retry).key(keys_.unack).key(keys_.pending);
  pipeline.key(keys_.dead).key(keys_.count).key(keys_.attempts).key(keys_.garbage).key(keys_.paused).key(keys_.stats);
  pipeline.key(keys_.headers);
  pipeline.arg(std::min(limits.total, kBatch)).arg(limits.retry_share).arg(limits.retry_max);
  pipeline.arg(microseconds(lease).count()).arg(limits.poison_max).arg(std::min(limits.poison_skip, kBatch));
  return {pipeline, as_taken};
}

Answer<PromotedAndTaken> Store::pending2unack(Pipeline& pipeline, bool with_ids, const Watcher& watcher,
                                              const DueLimits& limits, milliseconds lease) const {
  pipeline.script(scripts::pending2unack).key(keys_.pending).key(keys_.ready).key(keys_.retry).key(keys_.unack);
  pipeline.key(keys_.dead).key(keys_.count).key(keys_.attempts).key(keys_.garbage).key(keys_.paused).key(keys_.stats);
  pipeline.key(keys_.watch).key(keys_.headers);
  pipeline.arg(std::min(limits.moved, kBatch)).arg(with_ids ? "1" : "0").arg(watcher.name);
  pipeline.arg(microseconds(watcher.next_call.value()).count());
  pipeline.arg(std::min(limits.taken, kBatch)).arg(microseconds(lease).count());
  return {pipeline, as_promoted_and_taken};
}

Answer<std::size_t> Store::length(Pipeline& pipeline, const std::string& list) const {
  pipeline.command("LLEN").key(list).repeatable();
  return {pipeline, as_count};
}

Answer<std::size_t> Store::body_size(Pipeline& pipeline, const std::string& id) const {
  pipeline.command("STRLEN").key(keys_.bodies, id).repeatable();
  return {pipeline, as_count};
}

Answer<std::vector<std::optional<std::string>>> Store::bodies(Pipeline& pipeline,
                                                              const std::vector<std::string>& ids) const {
  pipeline.command("MGET");
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
  return {pipeline, as_bodies};
}

Answer<std::vector<std::optional<std::string>>> Store::headers(Pipeline& pipeline,
                                                               const std::vector<std::string>& ids) const {
  pipeline.command("HMGET").key(keys_.headers);
  for (const std::string& id : ids) pipeline.arg(id);
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
  pipeline.key(keys_.pending).key(keys_.dead).key(keys_.garbage).key(keys_.stats).key(keys_.headers);
  for (const Receipt& receipt : receipts) pipeline.key(keys_.bodies, receipt.id);
  pipeline.arg(counted_as);
  auto end = receipts.end();  // the script repeats the last receipt, so equal ones at the end are not sent
  while (end - receipts.begin() > 1 && (end - 1)->end_us == (end - 2)->end_us) --end;
  std::for_each(receipts.begin(), end, [&](const Receipt& receipt) { pipeline.arg(receipt.end_us); });
  return {pipeline, as_settled};
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
  pipeline.key(keys_.count).key(keys_.attempts).key(keys_.reason).key(keys_.headers);
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
  pipeline.arg(keys_.bodies.size());
  return {pipeline, as_count};
}

Answer<std::vector<std::string>> Store::sample_metadata(Pipeline& pipeline, const std::string& key) const {
  pipeline.command("HRANDFIELD").key(key).arg(kBatch / 2);
  return {pipeline, as_texts};
}

Answer<std::size_t> Store::delete_orphaned_metadata(Pipeline& pipeline, const std::vector<std::string>& ids) const {
  pipeline.script(scripts::delete_orphaned_metadata).key(keys_.count).key(keys_.dead).key(keys_.attempts);
  pipeline.key(keys_.reason).key(keys_.headers);
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
  pipeline.arg(keys_.bodies.size());
  return {pipeline, as_count};
}

Answer<std::string> Store::cancel(Pipeline& pipeline, std::string_view id) const {
  pipeline.script(scripts::cancel).key(keys_.bodies, id).key(keys_.pending).key(keys_.unack).key(keys_.dead);
  pipeline.key(keys_.count).key(keys_.attempts).key(keys_.reason).key(keys_.garbage);
  pipeline.key(keys_.ready).key(keys_.retry).key(keys_.stats).key(keys_.headers).arg(options_.search_lists);
  return {pipeline, as_text};
}

Answer<std::string> Store::reschedule(Pipeline& pipeline, std::string_view id, const Due& due) const {
  pipeline.script(scripts::reschedule).key(keys_.bodies, id).key(keys_.pending).key(keys_.unack).key(keys_.dead);
  pipeline.key(keys_.count).key(keys_.attempts).key(keys_.garbage).key(keys_.ready).key(keys_.retry);
  pipeline.key(keys_.wake).key(keys_.stats);
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
  const std::vector<std::string> staged = stage(pipeline, messages);
  pipeline.script(scripts::restore).key(keys_.pending).key(keys_.ready).key(keys_.count).key(keys_.garbage);
  pipeline.key(keys_.unack).key(keys_.dead).key(keys_.attempts).key(keys_.reason).key(keys_.stats).key(keys_.retry);
  pipeline.key(keys_.headers);
  for (const RestoreRecord& message : messages) pipeline.key(keys_.bodies, message.id);
  for (const std::string& name : staged) pipeline.key(keys_.staged, name);
  for (const RestoreRecord& message : messages) {
    pipeline.arg(message.dead ? message.replaces ? "dead!" : "dead" : message.replaces ? "alive!" : "alive");
    pipeline.arg(message.at_us).arg(message.retries).arg(message.deliveries);
    pipeline.arg(message.ttl.count()).arg(message.reason).arg(message.headers);
    pipeline.arg(staged.empty() ? message.payload : std::string_view());
  }
  pipeline.needs(staged.size());
  return {pipeline, as_text};
}

Answer<PurgedIds> Store::purge_ids(Pipeline& pipeline, const std::string& state,
                                   const std::vector<std::string>& ids) const {
  const bool list = state == keys_.ready || state == keys_.retry;
  pipeline.script(scripts::purge_ids).key(keys_.pending).key(keys_.unack).key(keys_.dead).key(keys_.count);
  pipeline.key(keys_.attempts).key(keys_.reason).key(keys_.garbage).key(list ? state : keys_.ready).key(keys_.stats);
  pipeline.key(keys_.headers);
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
  pipeline.key(keys_.dead).key(keys_.count).key(keys_.garbage).key(keys_.settings);
  pipeline.key(keys_.attempts).key(keys_.reason).key(keys_.headers).key(keys_.stats).key(keys_.paused).key(keys_.wake);
  pipeline.key(keys_.wakes).key(keys_.watch).key(keys_.lock).key(keys_.consumers).key(keys_.actions);
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
