#include "store/moves.h"

#include "store/record.h"
#include "store/replies.h"
#include "store/script_calls.h"

#include <algorithm>
#include <numeric>

// calls::<script> and arg::<argument> are made by the build from the manifests of the scripts: see store/script_call.h.
namespace delayqueue::store {

namespace {

template <class Messages>
std::size_t payload_bytes(const Messages& messages) {
  return std::accumulate(messages.begin(), messages.end(), std::size_t{0},
                         [](std::size_t sum, const auto& message) { return sum + message.payload.size(); });
}

// When the consumer calls again in any case; unset: it has no free worker.
std::optional<microseconds> in_us(const Watcher& watcher) {
  return watcher.next_call ? std::optional<microseconds>(*watcher.next_call) : std::nullopt;
}

arg::due as_due(const Due& due) { return due.delay ? arg::due("") : arg::due(due.at_ms); }

const char* name_of(Conflict conflict) {
  switch (conflict) {
    case Conflict::keep:
      return "keep";
    case Conflict::replace:
      return "replace";
    case Conflict::postpone:
      break;
  }
  return "postpone";
}

bool have_headers(const std::vector<NewMessage>& messages) {
  return std::any_of(messages.begin(), messages.end(), [](const NewMessage& one) { return !one.headers.empty(); });
}

}  // namespace

// Adds a SET for each message, if they are large enough on average. Returns the names of the keys, without their
// prefix.
template <class Messages>
std::vector<std::string> Moves::stage(Pipeline& pipeline, const Messages& messages) const {
  if (payload_bytes(messages) < messages.size() * options_.staged_bytes) return {};
  std::vector<std::string> names = new_ids(messages.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    pipeline.command("SET").key(keys_.staged, names[i]).payload(messages[i].payload);
    pipeline.arg("PX").arg(milliseconds(kStagedFor).count());
  }
  return names;
}

Answer<Outcomes> Moves::send(Pipeline& pipeline, const std::vector<NewMessage>& messages,
                             const SendTerms& terms) const {
  if (stores_bodies_first(messages, terms)) return send_new(pipeline, messages, terms);
  if (terms.new_ids && messages.size() == 1) return send_one(pipeline, messages.front(), terms);
  const std::vector<std::string> staged = stage(pipeline, messages);
  calls::send call(pipeline, keys_);
  for (const NewMessage& message : messages) call.body({keys_.bodies, message.id});
  for (const std::string& name : staged) call.payload({keys_.staged, name});
  call.args(arg::new_ids(terms.new_ids), arg::delay(terms.due.delay), as_due(terms.due), arg::retries(terms.retries),
            arg::ttl(terms.ttl.count()));
  if (staged.empty()) {
    for (const NewMessage& message : messages) call.each(arg::payload(message.payload));
  }
  if (have_headers(messages)) {
    for (const NewMessage& message : messages) call.each(arg::headers(message.headers));
  }
  pipeline.needs(staged.size());
  return {pipeline, as_sent};
}

Answer<KeyedSent> Moves::send_keyed(Pipeline& pipeline, const std::vector<NewMessage>& messages, const SendTerms& terms,
                                    const KeyTerms& key_terms) const {
  const std::vector<std::string> staged = stage(pipeline, messages);
  calls::send_keyed call(pipeline, keys_);
  for (const NewMessage& message : messages) call.body({keys_.bodies, message.id});
  for (const std::string& name : staged) call.other({keys_.staged, name});
  for (const NewMessage& message : messages) {
    if (!message.holder.empty()) call.other({keys_.bodies, message.holder});
  }
  call.args(arg::new_ids(terms.new_ids), arg::delay(terms.due.delay), as_due(terms.due), arg::retries(terms.retries),
            arg::ttl(terms.ttl.count()), key_terms.length ? arg::most(*key_terms.length) : arg::most(""),
            arg::conflict(name_of(key_terms.conflict)), arg::in_flight(key_terms.while_in_flight),
            arg::window(key_terms.window.count()), arg::max_wait(key_terms.max_wait),
            arg::search_lists(options_.search_lists), arg::staged(!staged.empty()));
  for (const NewMessage& message : messages) {
    call.each(arg::payload(staged.empty() ? message.payload : std::string_view()), arg::key(message.key),
              arg::header(message.headers));
  }
  pipeline.needs(staged.size());
  return {pipeline, as_sent_keyed};
}

Answer<Outcomes> Moves::send_new(Pipeline& pipeline, const std::vector<NewMessage>& messages,
                                 const SendTerms& terms) const {
  const KeyName token(keys_.staged, messages.front().id);
  pipeline.command("MSETNX").key(token.front, token.back).arg("");
  for (const NewMessage& message : messages) pipeline.key(keys_.bodies, message.id).payload(message.payload);
  calls::send_new call(pipeline, keys_, token, Joins::last_command);
  if (terms.ttl.count() > 0) {
    for (const NewMessage& message : messages) call.body({keys_.bodies, message.id});
  }
  call.args(arg::delay(terms.due.delay), as_due(terms.due), arg::retries(terms.retries), arg::ttl(terms.ttl.count()),
            arg::messages(messages.size()));
  for (const NewMessage& message : messages) call.each(arg::id(message.id));
  if (have_headers(messages)) {
    for (const NewMessage& message : messages) call.each(arg::headers(message.headers));
  }
  return {pipeline, as_sent};
}

bool Moves::stores_bodies_first(const std::vector<NewMessage>& messages, const SendTerms& terms) const {
  return terms.new_ids && terms.bodies_first.value_or(payload_bytes(messages) >= options_.staged_bytes);
}

void Moves::delete_bodies(Pipeline& pipeline, const std::vector<std::string>& ids) const {
  pipeline.command("UNLINK").repeatable().key(keys_.staged, ids.front());
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
}

Answer<Outcomes> Moves::send_one(Pipeline& pipeline, const NewMessage& message, const SendTerms& terms) const {
  calls::send_one call(pipeline, keys_, {keys_.bodies, message.id});
  if (!message.headers.empty()) call.headers(keys_.headers);
  call.args(arg::delay(terms.due.delay), as_due(terms.due), arg::retries(terms.retries), arg::ttl(terms.ttl.count()),
            arg::payload(message.payload));
  if (!message.headers.empty()) call.each(arg::headers(message.headers));
  return {pipeline, as_sent};
}

Answer<bool> Moves::is_first(Pipeline& pipeline) { return {pipeline, as_first}; }

void Moves::wake(Pipeline& pipeline) const {
  pipeline.command("ZADD").key(keys_.wake).arg("0").arg(kMarker).repeatable();
}

void Moves::wake_for(Pipeline& pipeline, unsigned partition, std::string_view due) const {
  pipeline.command("ZADD").key(keys_.wakes).arg("LT").arg(due).arg(partition).repeatable();
}

Answer<std::optional<std::string>> Moves::take_marker(Pipeline& pipeline) const {
  // Repeatable, because a script that is sent again leaves its marker after the first ZPOPMIN.
  pipeline.command("ZPOPMIN").key(keys_.wake).repeatable();
  return {pipeline, as_score};
}

void Moves::clear_wakes(Pipeline& pipeline) const { pipeline.command("UNLINK").key(keys_.wakes).repeatable(); }

void Moves::clear_wake(Pipeline& pipeline) const { pipeline.command("UNLINK").key(keys_.wake).repeatable(); }

Answer<Promoted> Moves::pending2ready(Pipeline& pipeline, bool with_ids, const Watcher& watcher) const {
  promote(pipeline, kBatch, with_ids, watcher);
  return {pipeline, as_promoted};
}

void Moves::leave_watch(Pipeline& pipeline, std::string_view name) const { promote(pipeline, 0, false, {name, {}}); }

void Moves::promote(Pipeline& pipeline, std::size_t most, bool with_ids, const Watcher& watcher) const {
  calls::pending2ready call(pipeline, keys_);
  call.args(arg::limit(most), arg::with_ids(with_ids), arg::caller(watcher.name), arg::next_call(in_us(watcher)));
}

Answer<Taken> Moves::ready2unack(Pipeline& pipeline, const TakeLimits& limits, milliseconds lease) const {
  calls::ready2unack call(pipeline, keys_);
  call.args(arg::total(std::min(limits.total, kBatch)), arg::retry_share(limits.retry_share),
            arg::retry_max(limits.retry_max), arg::lease(microseconds(lease).count()),
            arg::poison_max(limits.poison_max), arg::poison_skip(std::min(limits.poison_skip, kBatch)));
  return {pipeline, as_taken};
}

Answer<Taken> Moves::take_paced(Pipeline& pipeline, const TakeLimits& limits, milliseconds lease,
                                std::string_view caller) const {
  calls::take_paced call(pipeline, keys_);
  call.args(arg::total(std::min(limits.total, kBatch)), arg::since_retry(limits.since_retry),
            arg::retry_max(limits.retry_max), arg::lease(microseconds(lease).count()),
            arg::poison_max(limits.poison_max), arg::poison_skip(std::min(limits.poison_skip, kBatch)),
            arg::caller(caller));
  return {pipeline, as_taken};
}

Answer<PromotedAndTaken> Moves::pending2unack(Pipeline& pipeline, bool with_ids, const Watcher& watcher,
                                              const DueLimits& limits, milliseconds lease) const {
  calls::pending2unack call(pipeline, keys_);
  call.args(arg::limit(std::min(limits.moved, kBatch)), arg::with_ids(with_ids), arg::caller(watcher.name),
            arg::next_call(microseconds(watcher.next_call.value()).count()), arg::total(std::min(limits.taken, kBatch)),
            arg::lease(microseconds(lease).count()));
  return {pipeline, as_promoted_and_taken};
}

Answer<std::size_t> Moves::length(Pipeline& pipeline, const std::string& list) const {
  pipeline.command("LLEN").key(list).repeatable();
  return {pipeline, as_count};
}

Answer<std::size_t> Moves::body_size(Pipeline& pipeline, const std::string& id) const {
  pipeline.command("STRLEN").key(keys_.bodies, id).repeatable();
  return {pipeline, as_count};
}

Answer<std::vector<std::optional<std::string>>> Moves::bodies(Pipeline& pipeline,
                                                              const std::vector<std::string>& ids) const {
  pipeline.command("MGET");
  for (const std::string& id : ids) pipeline.key(keys_.bodies, id);
  return {pipeline, as_bodies};
}

Answer<std::vector<std::optional<std::string>>> Moves::headers(Pipeline& pipeline,
                                                               const std::vector<std::string>& ids) const {
  pipeline.command("HMGET").key(keys_.headers);
  for (const std::string& id : ids) pipeline.arg(id);
  return {pipeline, as_bodies};
}

Answer<std::vector<std::optional<std::string>>> Moves::unique_keys(Pipeline& pipeline,
                                                                   const std::vector<std::string>& ids) const {
  pipeline.command("HMGET").key(keys_.keys);
  for (const std::string& id : ids) pipeline.arg(id);
  return {pipeline, as_bodies};
}

namespace {

// The script repeats the last receipt, so equal ones at the end are not sent.
template <class Call>
void add_removal(Call call, const Keys& keys, const char* counted_as, const std::vector<Receipt>& receipts) {
  for (const Receipt& receipt : receipts) call.body({keys.bodies, receipt.id});
  call.args(arg::counted_as(counted_as));
  auto end = receipts.end();
  while (end - receipts.begin() > 1 && (end - 1)->end_us == (end - 2)->end_us) --end;
  std::for_each(receipts.begin(), end, [&](const Receipt& receipt) { call.each(arg::receipt(receipt.end_us)); });
}

}  // namespace

Answer<Outcomes> Moves::remove(Pipeline& pipeline, Removal removal, const std::vector<Receipt>& receipts) const {
  if (removal.paced) {
    add_removal(calls::ack_paced(pipeline, keys_), keys_, removal.counted_as, receipts);
  } else {
    add_removal(calls::ack(pipeline, keys_), keys_, removal.counted_as, receipts);
  }
  return {pipeline, as_settled};
}

Answer<Outcomes> Moves::nack(Pipeline& pipeline, const std::vector<Nack>& nacks) const {
  calls::nack call(pipeline, keys_);
  for (const Nack& nack : nacks) call.body({keys_.bodies, nack.receipt.id});
  call.args(arg::keep_dead(options_.keep_dead));
  for (const Nack& nack : nacks) {
    call.each(arg::receipt(nack.receipt.end_us), arg::delay(nack.delay), arg::reason(nack.reason));
  }
  return {pipeline, as_text};
}

Answer<Renewed> Moves::renew(Pipeline& pipeline, const std::vector<Receipt>& receipts, std::int64_t new_end_us) const {
  calls::renew call(pipeline, keys_);
  call.args(arg::new_end(new_end_us));
  for (const Receipt& receipt : receipts) call.each(arg::id(receipt.id), arg::receipt(receipt.end_us));
  return {pipeline, as_renewed};
}

Answer<Outcomes> Moves::release(Pipeline& pipeline, const std::vector<Receipt>& receipts, milliseconds delay) const {
  calls::release call(pipeline, keys_);
  for (const Receipt& receipt : receipts) call.body({keys_.bodies, receipt.id});
  call.args(arg::delay(delay.count()), arg::pause(0), arg::why(""));
  for (const Receipt& receipt : receipts) call.each(arg::receipt(receipt.end_us));
  return {pipeline, as_text};
}

Answer<Outcomes> Moves::release_and_pause(Pipeline& pipeline, const std::vector<Receipt>& receipts, milliseconds after,
                                          std::string_view why) const {
  calls::release call(pipeline, keys_);
  for (const Receipt& receipt : receipts) call.body({keys_.bodies, receipt.id});
  call.args(arg::delay(0), arg::pause(after.count()), arg::why(why));
  for (const Receipt& receipt : receipts) call.each(arg::receipt(receipt.end_us));
  return {pipeline, as_text};
}

Answer<Outcomes> Moves::release_waiting(Pipeline& pipeline, const std::vector<std::string>& ids, bool force) const {
  calls::release call(pipeline, keys_);
  for (const std::string& id : ids) call.body({keys_.bodies, id});
  call.args(arg::delay(0), arg::pause(0), arg::why(""));
  for (std::size_t i = 0; i < ids.size(); ++i) call.each(arg::receipt(force ? "*" : "-"));
  return {pipeline, as_text};
}

Answer<Reclaimed> Moves::unack2retry(Pipeline& pipeline, bool only_backoffs) const {
  calls::unack2retry call(pipeline, keys_);
  call.args(arg::limit(kReclaimBatch), arg::keep_dead(options_.keep_dead), arg::only_backoffs(only_backoffs));
  return {pipeline, as_reclaimed};
}

Answer<std::size_t> Moves::persist(Pipeline& pipeline, const std::vector<std::string>& ids) const {
  calls::persist call(pipeline, keys_);
  for (const std::string& id : ids) call.body({keys_.bodies, id});
  return {pipeline, as_count};
}

Answer<std::vector<std::string>> Moves::sample_garbage(Pipeline& pipeline) const {
  pipeline.command("SRANDMEMBER").key(keys_.garbage).arg(kBatch);
  return {pipeline, as_texts};
}

Answer<std::size_t> Moves::gc(Pipeline& pipeline, const std::vector<std::string>& ids) const {
  calls::gc call(pipeline, keys_);
  for (const std::string& id : ids) call.body({keys_.bodies, id});
  call.args(arg::before_id(keys_.bodies.size()));
  return {pipeline, as_count};
}

Answer<std::vector<std::string>> Moves::sample_metadata(Pipeline& pipeline, const std::string& key) const {
  pipeline.command("HRANDFIELD").key(key).arg(kBatch / 2);
  return {pipeline, as_texts};
}

Answer<std::size_t> Moves::delete_orphaned_metadata(Pipeline& pipeline, const std::vector<std::string>& ids) const {
  calls::delete_orphaned_metadata call(pipeline, keys_);
  for (const std::string& id : ids) call.body({keys_.bodies, id});
  call.args(arg::before_id(keys_.bodies.size()));
  return {pipeline, as_count};
}

Answer<std::vector<std::string>> Moves::sample_keys(Pipeline& pipeline) const {
  return sample_metadata(pipeline, keys_.unique);
}

Answer<std::size_t> Moves::delete_orphaned_keys(Pipeline& pipeline, const std::vector<std::string>& keys) const {
  calls::delete_orphaned_keys call(pipeline, keys_);
  for (const std::string& key : keys) call.each(arg::name(key));
  return {pipeline, as_count};
}

Answer<std::vector<std::string>> Moves::places_from(Pipeline& pipeline, std::size_t rank) const {
  pipeline.command("ZRANGE").key(keys_.running).arg(rank).arg(rank + kPlaces - 1);
  return {pipeline, as_texts};
}

Answer<std::size_t> Moves::correct_places(Pipeline& pipeline, const std::vector<std::string>& ids) const {
  calls::correct_places call(pipeline, keys_);
  for (const std::string& id : ids) call.body({keys_.bodies, id});
  call.args(arg::before_id(keys_.bodies.size()));
  return {pipeline, as_count};
}

Answer<std::string> Moves::cancel(Pipeline& pipeline, std::string_view id) const {
  calls::cancel(pipeline, keys_, {keys_.bodies, id}).args(arg::search_lists(options_.search_lists));
  return {pipeline, as_text};
}

Answer<std::string> Moves::reschedule(Pipeline& pipeline, std::string_view id, const Due& due) const {
  calls::reschedule call(pipeline, keys_, {keys_.bodies, id});
  call.args(arg::delay(due.delay), as_due(due), arg::search_lists(options_.search_lists));
  return {pipeline, as_text};
}

Answer<std::string> Moves::last_with_key(Pipeline& pipeline, std::string_view key) const {
  pipeline.command("HGET").key(keys_.unique).arg(key).repeatable();
  return {pipeline, as_entry_id};
}

Answer<ByKey> Moves::cancel_by_key(Pipeline& pipeline, std::string_view id, std::string_view key) const {
  calls::cancel call(pipeline, keys_, {keys_.bodies, id});
  call.args(arg::search_lists(options_.search_lists));
  call.each(arg::key(key));
  return {pipeline, as_by_key};
}

Answer<ByKey> Moves::reschedule_by_key(Pipeline& pipeline, std::string_view id, std::string_view key,
                                       const Due& due) const {
  calls::reschedule call(pipeline, keys_, {keys_.bodies, id});
  call.args(arg::delay(due.delay), as_due(due), arg::search_lists(options_.search_lists));
  call.each(arg::key(key));
  return {pipeline, as_by_key};
}

Answer<Outcomes> Moves::redrive(Pipeline& pipeline, const std::vector<std::string>& ids, int retries) const {
  calls::redrive call(pipeline, keys_);
  for (const std::string& id : ids) call.body({keys_.bodies, id});
  call.args(arg::retries(retries), arg::messages(ids.size()));
  return {pipeline, as_first_word};
}

Answer<ByKey> Moves::redrive_one(Pipeline& pipeline, std::string_view id, std::string_view holder, int retries) const {
  calls::redrive call(pipeline, keys_);
  call.body({keys_.bodies, id});
  if (!holder.empty()) call.other({keys_.bodies, holder});
  call.args(arg::retries(retries), arg::messages(1));
  return {pipeline, as_one_by_key};
}

Answer<Outcomes> Moves::bury(Pipeline& pipeline, const std::vector<std::string>& ids, std::string_view reason,
                             bool force) const {
  calls::bury call(pipeline, keys_);
  for (const std::string& id : ids) call.body({keys_.bodies, id});
  call.args(arg::force(force), arg::reason(reason), arg::search_lists(options_.search_lists));
  return {pipeline, as_text};
}

Answer<Outcomes> Moves::extend(Pipeline& pipeline, const std::vector<std::string>& ids, milliseconds by,
                               bool force) const {
  calls::extend call(pipeline, keys_);
  for (const std::string& id : ids) call.body({keys_.bodies, id});
  call.args(arg::extension(by.count()), arg::force(force));
  return {pipeline, as_text};
}

Answer<Outcomes> Moves::restore(Pipeline& pipeline, const std::vector<RestoreRecord>& messages) const {
  add_restore(pipeline, messages, {});
  return {pipeline, as_first_word};
}

Answer<ByKey> Moves::restore_one(Pipeline& pipeline, const RestoreRecord& message, std::string_view holder) const {
  add_restore(pipeline, {message}, holder);
  return {pipeline, as_one_by_key};
}

void Moves::add_restore(Pipeline& pipeline, const std::vector<RestoreRecord>& messages, std::string_view holder) const {
  const std::vector<std::string> staged = stage(pipeline, messages);
  calls::restore call(pipeline, keys_);
  for (const RestoreRecord& message : messages) call.body({keys_.bodies, message.id});
  for (const std::string& name : staged) call.other({keys_.staged, name});
  if (!holder.empty()) call.other({keys_.bodies, holder});
  call.args(arg::staged(!staged.empty()));
  for (const RestoreRecord& message : messages) {
    call.each(arg::state(message.dead       ? message.replaces ? "dead!" : "dead"
                         : message.replaces ? "alive!"
                                            : "alive"),
              arg::at(message.at_us), arg::retries(message.retries), arg::deliveries(message.deliveries),
              arg::ttl(message.ttl.count()), arg::reason(message.reason), arg::headers(message.headers),
              arg::payload(staged.empty() ? message.payload : std::string_view()), arg::key(message.key));
  }
  pipeline.needs(staged.size());
}

Answer<PurgedIds> Moves::purge_ids(Pipeline& pipeline, const std::string& state,
                                   const std::vector<std::string>& ids) const {
  const bool list = state == keys_.ready || state == keys_.retry;
  calls::purge_ids call(pipeline, keys_, list ? state : keys_.ready);
  for (const std::string& id : ids) call.body({keys_.bodies, id});
  call.args(arg::state(std::string_view(state).substr(keys_.base.size() + 1)));
  return {pipeline, as_purged_ids};
}

Answer<Purged> Moves::purge_zset(Pipeline& pipeline, const std::string& state, std::size_t limit,
                                 std::optional<milliseconds> older_than, std::int64_t leave) const {
  calls::purge call(pipeline, keys_, state);
  call.args(arg::type("zset"), arg::limit(std::min(limit, kBatch)), arg::age(older_than), arg::leave(leave));
  return {pipeline, as_purged};
}

Answer<Purged> Moves::purge_list(Pipeline& pipeline, const std::string& state, std::size_t limit) const {
  return purge_some(pipeline, "list", state, limit);
}

Answer<Purged> Moves::purge_hints(Pipeline& pipeline, const std::string& list) const {
  return purge_some(pipeline, "hints", list, kBatch);
}

Answer<Purged> Moves::purge_some(Pipeline& pipeline, const char* what, const std::string& list,
                                 std::size_t limit) const {
  calls::purge call(pipeline, keys_, list);
  call.args(arg::type(what), arg::limit(std::min(limit, kBatch)), arg::age(0), arg::leave(0));
  return {pipeline, as_purged};
}

namespace {

const char* name_of(ScheduleMode mode) {
  switch (mode) {
    case ScheduleMode::set:
      return "set";
    case ScheduleMode::pause:
      return "pause";
    case ScheduleMode::resume:
      return "resume";
    case ScheduleMode::remove:
      break;
  }
  return "remove";
}

// The id of the occurrence of a slot; without one an id that is not used.
std::string waiting_id(const Keys& keys, std::string_view name, std::optional<std::int64_t> slot_ms) {
  return slot_ms ? occurrence_id(keys, name, *slot_ms) : "00000000-0000-0000-0000-000000000000";
}

arg::slot slot_arg(std::optional<std::int64_t> slot_ms) { return slot_ms ? arg::slot(*slot_ms) : arg::slot(""); }

template <class Call>
void add_bodies(Call& call, const Keys& keys, std::string_view name, const Occurrences& occurrences) {
  for (const std::int64_t slot : occurrences.slots_ms) call.body({keys.bodies, occurrence_id(keys, name, slot)});
}

template <class Call>
void add_occurrences(Call& call, std::string_view name, const Occurrences& occurrences) {
  for (const std::int64_t slot : occurrences.slots_ms) {
    call.each(arg::occurrence(slot), arg::header(occurrence_headers(occurrences, name, slot)));
  }
}

}  // namespace

Answer<ScheduleChanged> Moves::schedule(Pipeline& pipeline, const ScheduleChange& change) const {
  const Occurrences& occurrences = change.occurrences;
  calls::schedule call(pipeline, keys_, {keys_.bodies, waiting_id(keys_, change.name, change.slot_ms)});
  add_bodies(call, keys_, change.name, occurrences);
  call.args(arg::name(change.name), arg::mode(name_of(change.mode)), arg::generation(change.generation),
            slot_arg(change.slot_ms), arg::definition(change.definition), arg::most(kMostSchedules),
            arg::retries(occurrences.retries), arg::ttl(occurrences.ttl.count()), arg::payload(occurrences.payload));
  add_occurrences(call, change.name, occurrences);
  return {pipeline, as_schedule_changed};
}

Answer<ReadSchedules> Moves::due_schedules(Pipeline& pipeline, std::size_t limit, std::size_t offset) const {
  calls::read_schedules(pipeline, keys_).args(arg::limit(std::min(limit, kMostOccurrences)), arg::offset(offset));
  return {pipeline, as_read_schedules};
}

Answer<ReadSchedules> Moves::read_schedules(Pipeline& pipeline, const std::vector<std::string>& names) const {
  calls::read_schedules call(pipeline, keys_);
  call.args(arg::limit(0), arg::offset(0));
  for (const std::string& name : names) call.each(arg::name(name));
  return {pipeline, as_read_schedules};
}

Answer<std::vector<std::string>> Moves::sample_schedules(Pipeline& pipeline) const {
  constexpr int kSampled = 10;
  pipeline.command("HRANDFIELD").key(keys_.schedules).arg(kSampled).repeatable();
  return {pipeline, as_texts};
}

Answer<Advanced> Moves::advance(Pipeline& pipeline, const Advance& advance) const {
  const Occurrences& occurrences = advance.occurrences;
  calls::advance call(pipeline, keys_, {keys_.bodies, waiting_id(keys_, advance.name, advance.slot_ms)});
  add_bodies(call, keys_, advance.name, occurrences);
  call.args(arg::name(advance.name), arg::generation(advance.generation), slot_arg(advance.slot_ms),
            advance.last_ms ? arg::last(*advance.last_ms) : arg::last(""), arg::takes_back(advance.takes_back),
            arg::stays(advance.stays), arg::skips(occurrences.skips), arg::is_ahead(advance.is_ahead),
            arg::retries(occurrences.retries), arg::ttl(occurrences.ttl.count()), arg::payload(occurrences.payload));
  add_occurrences(call, advance.name, occurrences);
  return {pipeline, as_advanced};
}

Answer<Begun> Moves::begin(Pipeline& pipeline, std::string_view name, std::int64_t slot_ms, std::string_view id) const {
  calls::begin(pipeline, keys_).args(arg::name(name), arg::slot(slot_ms), arg::id(id));
  return {pipeline, as_begun};
}

Answer<bool> Moves::forget(Pipeline& pipeline) const {
  calls::forget call(pipeline, keys_);
  for (const std::string* key :
       {&keys_.attempts, &keys_.reason, &keys_.headers, &keys_.stats, &keys_.paused, &keys_.wake, &keys_.wakes,
        &keys_.watch, &keys_.lock, &keys_.limits, &keys_.running, &keys_.unique, &keys_.keys, &keys_.slots, &keys_.open,
        &keys_.consumers, &keys_.actions}) {
    call.deleted(*key);
  }
  return {pipeline, as_done};
}

Answer<bool> Moves::lock(Pipeline& pipeline, std::string_view holder, milliseconds for_) const {
  pipeline.command("SET").key(keys_.lock).arg(holder).arg("NX").arg("PX").arg(for_.count());
  return {pipeline, as_set};
}

Answer<bool> Moves::unlock(Pipeline& pipeline, std::string_view holder) const {
  calls::unlock(pipeline, keys_).args(arg::holder(holder));
  return {pipeline, as_done};
}

}  // namespace delayqueue::store
