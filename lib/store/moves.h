// The moves of a message between the states of a queue, in the order of its life. Each function adds one request to a
// pipeline; its answer can be read after the pipeline has run. One move is one script: atomic, bounded, and safe to
// repeat. A Moves has no state except the names of the keys and its options, and does not synchronize threads.
#pragma once

#include "redis/pipeline.h"
#include "store/keys.h"
#include "store/record.h"
#include "store/results.h"
#include "store/schedules.h"
#include "store/scripts.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace delayqueue::store {

using redis::Answer;
using redis::Pipeline;
using std::chrono::milliseconds;

// From this size on payloads do not pass through Lua, which hashes each byte: if the ids are new, the size of all
// payloads of a call, else their average. Below it, the commands beside the script cost Redis more.
inline constexpr std::size_t kStagedBytes = 4096;
inline constexpr std::chrono::seconds kStagedFor{60};  // a staged payload that no script takes is deleted after this

inline constexpr std::size_t kLongestKey = 128;  // bytes of a unique key

inline constexpr const char* kMarker = "w";  // the wake-up marker: the member of `wake`

// When a message is due: after a delay by the clock of Redis or, if that is unset, at `at_ms` since 1970.
struct Due {
  std::optional<milliseconds> delay;
  std::int64_t at_ms = 0;
};

struct NewMessage {
  std::string_view id;
  std::string_view payload;
  std::string_view headers{};  // packed: see headers.h; empty: none
  // For send_keyed: the unique key, empty: none; and the id that an earlier answer to this message has named.
  std::string_view key{}, holder{};
};

// What becomes of a send while another message holds its key: see UniqueOptions.
enum class Conflict { keep, replace, postpone };

// The options of a send whose messages have keys, or that must keep the length of the queue.
struct KeyTerms {
  Conflict conflict = Conflict::keep;
  bool while_in_flight = true;             // keep: a message holds its key also while a consumer has it
  milliseconds window{0};                  // keep: the key is held for so long after the send, in any case
  std::optional<milliseconds> max_wait{};  // postpone: the due time is at most so long after the first send
  std::optional<std::uint64_t> length{};   // most messages of the queue, without dead letters

  friend bool operator==(const KeyTerms& a, const KeyTerms& b) {
    return a.conflict == b.conflict && a.while_in_flight == b.while_in_flight && a.window == b.window &&
           a.max_wait == b.max_wait && a.length == b.length;
  }
};

// The options of one send; they hold for all its messages.
struct SendTerms {
  Due due;
  int retries = 3;
  milliseconds ttl{0};   // 0: none
  bool new_ids = false;  // the ids are new, so the script does not check whether they exist
  // If the ids are new: whether the bodies are stored before the script runs; unset: if they have kStagedBytes or more.
  std::optional<bool> bodies_first{};
  std::optional<KeyTerms> unique{};  // for send_keyed, if the messages have unique keys
};

// The consumer that calls pending2ready or pending2unack. Of all consumers one keeps the watch for the next due time:
// see pending2ready.lua.
struct Watcher {
  std::string_view name;
  std::optional<milliseconds> next_call{};  // its next call in any case, at the latest; unset: it has no free worker
};

// Limits of a take of due messages, both at most kBatch. Those that are moved and not taken go to ready.
struct DueLimits {
  std::size_t moved = 0;
  std::size_t taken = 0;
};

// A possible poison message (`possible_poison`, `poison_...`) is one in retry whose last lease ran out: the message may
// have crashed its process.
struct TakeLimits {
  std::size_t total = 0;            // most messages to take
  std::size_t retry_share = 0;      // how many of them are reserved for messages in retry; not for take_paced
  std::size_t retry_max = 0;        // most messages to take from retry
  std::size_t poison_max = kBatch;  // most possible poison messages to take
  std::size_t poison_skip = 0;      // most further ones to skip, to reach the messages behind them
  std::size_t since_retry = 0;      // for take_paced: messages taken since retry had its share
};

struct Receipt {
  std::string_view id;
  std::int64_t end_us = 0;
};

// Why messages that were taken are removed.
struct Removal {
  const char* counted_as = "acked";  // the field of stats: acked, expired or foreign
  bool paced = false;                // the queue has limits or keys: they free their places and their keys
};

struct Nack {
  Receipt receipt;
  std::optional<milliseconds> delay;  // until the next delivery; unset: the message becomes a dead letter
  std::string_view reason;
};

// A message as it was exported. If it is not dead, it is pending until `at_us`, or ready if that has passed.
struct RestoreRecord {
  std::string_view id;
  bool dead = false;
  std::int64_t at_us = 0;  // when it is due, or became a dead letter
  int retries = 0;
  int deliveries = 0;
  milliseconds ttl{0};  // of its body; 0: none
  std::string_view reason;
  std::string_view payload;
  std::string headers{};   // packed
  bool replaces = false;   // a message that exists and that no consumer holds; false: such a message stays as it is
  std::string_view key{};  // unique; empty: none
};

class Moves {
 public:
  struct Options {
    bool keep_dead = true;
    std::size_t search_lists = 0;  // cancel, reschedule and bury remove ids from lists up to this long
    std::size_t staged_bytes = kStagedBytes;
  };

  explicit Moves(Keys keys) : Moves(std::move(keys), Options()) {}
  Moves(Keys keys, Options options) : keys_(std::move(keys)), options_(options) {}

  const Keys& keys() const { return keys_; }
  std::size_t search_lists() const { return options_.search_lists; }

  // '1' created, '0' existed, 'C' was cancelled and a consumer still holds it. At most kBatch messages.
  // A single small message with a new id goes by send_one.lua. Large payloads do not pass through Lua. If the ids are
  // new, MSETNX stores the bodies and a token, in one transaction with send_new.lua. Else the payloads are staged: SET
  // stores them under keys with a TTL, and the script renames these to the bodies. So a call never changes a body that
  // another call has stored, however late it arrives. The payloads must live unchanged until the pipeline has run.
  Answer<Outcomes> send(Pipeline& pipeline, const std::vector<NewMessage>& messages, const SendTerms& terms) const;
  // Whether such a send stores the bodies by MSETNX. If it fails, they and the token may be left, and no message:
  // delete_bodies() deletes those of one call, whose ids it gets in the order of the messages.
  bool stores_bodies_first(const std::vector<NewMessage>& messages, const SendTerms& terms) const;
  void delete_bodies(Pipeline& pipeline, const std::vector<std::string>& ids) const;
  // send for messages with keys, and for a queue with a limit of its length. No key may be twice in a call. For each
  // message the outcome is one of send's or:
  //   'U'  nothing is stored: another message has the key, or the window of one is not over
  //   'R'  that message has its payload and headers now and, with postpone, its due time
  //   '?'  nothing is stored: call again with the id in `ids` as the holder of this message
  //   'F'  nothing is stored: the queue is full. Then nothing of the call is stored
  // `ids` of the answer: the ids of those other messages. A second call of one whose answer was lost must say that its
  // ids are not new: then 'U' with its own id says that the first call has stored it. Large payloads are staged.
  Answer<KeyedSent> send_keyed(Pipeline& pipeline, const std::vector<NewMessage>& messages, const SendTerms& terms,
                               const KeyTerms& key_terms) const;
  // Whether the send that was just added is the first one since the queue was created or deleted by forget.
  static Answer<bool> is_first(Pipeline& pipeline);

  // Adds the marker that wakes one consumer with a free worker. It accompanies a move; losing it does no harm.
  void wake(Pipeline& pipeline) const;
  // Deletes the wake key, with the marker.
  void clear_wake(Pipeline& pipeline) const;

  // The marker of another partition, in the key `wakes` of this one, which must be partition 0: for a message that is
  // due at this score, "0" for now. An earlier one that is there stays.
  void wake_for(Pipeline& pipeline, unsigned partition, std::string_view due) const;
  // Takes the marker out of `wake`, for wake_for(): its score; nullopt: there is none.
  Answer<std::optional<std::string>> take_marker(Pipeline& pipeline) const;
  // Deletes `wakes`.
  void clear_wakes(Pipeline& pipeline) const;

  Answer<Promoted> pending2ready(Pipeline& pipeline, bool with_ids, const Watcher& watcher) const;
  // Ends the watch of this consumer, which stops, and leaves the marker for another one to take it over, or to take
  // messages that are in ready.
  void leave_watch(Pipeline& pipeline, std::string_view name) const;

  Answer<Taken> ready2unack(Pipeline& pipeline, const TakeLimits& limits, milliseconds lease) const;
  // ready2unack in a queue with limits. `caller`: the name of the consumer, which watches for the next token of the
  // rate if this answers so.
  Answer<Taken> take_paced(Pipeline& pipeline, const TakeLimits& limits, milliseconds lease,
                           std::string_view caller) const;
  // pending2ready, followed by ready2unack unless ready or retry had ids, the queue is paused or has limits, or pending
  // had an empty member. The watcher must have a next_call.
  Answer<PromotedAndTaken> pending2unack(Pipeline& pipeline, bool with_ids, const Watcher& watcher,
                                         const DueLimits& limits, milliseconds lease) const;
  // The length of ready or retry, an upper bound of the messages there.
  Answer<std::size_t> length(Pipeline& pipeline, const std::string& list) const;
  Answer<std::size_t> body_size(Pipeline& pipeline, const std::string& id) const;
  Answer<std::vector<std::optional<std::string>>> bodies(Pipeline& pipeline, const std::vector<std::string>& ids) const;
  // Unique keys; unset: the message has none.
  Answer<std::vector<std::optional<std::string>>> unique_keys(Pipeline& pipeline,
                                                              const std::vector<std::string>& ids) const;
  // Packed; unset: the message has none.
  Answer<std::vector<std::optional<std::string>>> headers(Pipeline& pipeline,
                                                          const std::vector<std::string>& ids) const;

  // Removes messages that were handled, whose bodies have expired, or whose ids are no UUIDs (see is_id).
  Answer<Outcomes> remove(Pipeline& pipeline, Removal removal, const std::vector<Receipt>& receipts) const;
  Answer<Outcomes> ack(Pipeline& pipeline, const std::vector<Receipt>& receipts) const {
    return remove(pipeline, {"acked"}, receipts);
  }
  Answer<Outcomes> expire(Pipeline& pipeline, const std::vector<Receipt>& receipts) const {
    return remove(pipeline, {"expired"}, receipts);
  }
  Answer<Outcomes> nack(Pipeline& pipeline, const std::vector<Nack>& nacks) const;
  Answer<Renewed> renew(Pipeline& pipeline, const std::vector<Receipt>& receipts, std::int64_t new_end_us) const;
  Answer<Outcomes> release(Pipeline& pipeline, const std::vector<Receipt>& receipts, milliseconds delay) const;
  // Releases the messages at once, and pauses the queue for `after`, at least 1 ms, unless it is paused. 'P' instead of
  // one 'S': it was not paused before.
  Answer<Outcomes> release_and_pause(Pipeline& pipeline, const std::vector<Receipt>& receipts, milliseconds after,
                                     std::string_view why) const;
  Answer<Outcomes> release_waiting(Pipeline& pipeline, const std::vector<std::string>& ids, bool force) const;

  // only_backoffs: moves messages whose backoff has ended, and no message whose lease has.
  Answer<Reclaimed> unack2retry(Pipeline& pipeline, bool only_backoffs = false) const;
  Answer<std::size_t> persist(Pipeline& pipeline, const std::vector<std::string>& ids) const;

  Answer<std::vector<std::string>> sample_garbage(Pipeline& pipeline) const;
  Answer<std::size_t> gc(Pipeline& pipeline, const std::vector<std::string>& ids) const;
  // Ids of metadata, at random. key: keys().attempts, reason, headers or keys.
  Answer<std::vector<std::string>> sample_metadata(Pipeline& pipeline, const std::string& key) const;
  Answer<std::size_t> delete_orphaned_metadata(Pipeline& pipeline, const std::vector<std::string>& ids) const;
  // Unique keys, at random.
  Answer<std::vector<std::string>> sample_keys(Pipeline& pipeline) const;
  // Deletes the entries of these keys that no message holds. Returns how many.
  Answer<std::size_t> delete_orphaned_keys(Pipeline& pipeline, const std::vector<std::string>& keys) const;
  // Ids with one of the places that a limit of the number in flight gives, at most kPlaces, by the end of their leases.
  Answer<std::vector<std::string>> places_from(Pipeline& pipeline, std::size_t rank) const;
  // Corrects the places of these messages. Returns how many had one without a lease.
  Answer<std::size_t> correct_places(Pipeline& pipeline, const std::vector<std::string>& ids) const;

  Answer<std::string> cancel(Pipeline& pipeline, std::string_view id) const;
  Answer<std::string> reschedule(Pipeline& pipeline, std::string_view id, const Due& due) const;
  // The message that was last created with this key, if the entry is one that the library writes; else empty. It need
  // not have the key any more.
  Answer<std::string> last_with_key(Pipeline& pipeline, std::string_view key) const;
  // Change a message if it has this key: `id` as last_with_key() has returned it. If another message has it meanwhile,
  // nothing is changed, and the answer has its id: call again with that.
  Answer<ByKey> cancel_by_key(Pipeline& pipeline, std::string_view id, std::string_view key) const;
  Answer<ByKey> reschedule_by_key(Pipeline& pipeline, std::string_view id, std::string_view key, const Due& due) const;
  // '?': the message has a unique key that another one may have: redrive_one() then tells.
  Answer<Outcomes> redrive(Pipeline& pipeline, const std::vector<std::string>& ids, int retries) const;
  // holder: empty, or the `call_id` of the answer before.
  Answer<ByKey> redrive_one(Pipeline& pipeline, std::string_view id, std::string_view holder, int retries) const;

  // bury, extend and restore take at most kBatch messages; bury takes one if search_lists is set. restore stages large
  // payloads, as send does.
  Answer<Outcomes> bury(Pipeline& pipeline, const std::vector<std::string>& ids, std::string_view reason,
                        bool force) const;
  Answer<Outcomes> extend(Pipeline& pipeline, const std::vector<std::string>& ids, milliseconds by, bool force) const;
  // For restore, '?' is as for redrive.
  Answer<Outcomes> restore(Pipeline& pipeline, const std::vector<RestoreRecord>& messages) const;
  Answer<ByKey> restore_one(Pipeline& pipeline, const RestoreRecord& message, std::string_view holder) const;

  // state: keys().pending or keys().dead. Keeps the newest `leave` messages, and those younger than `older_than`.
  Answer<Purged> purge_zset(Pipeline& pipeline, const std::string& state, std::size_t limit,
                            std::optional<milliseconds> older_than, std::int64_t leave) const;
  // state: keys().ready or keys().retry.
  Answer<Purged> purge_list(Pipeline& pipeline, const std::string& state, std::size_t limit) const;
  // Removes ids without a message from the right end of the list, where ready2unack begins.
  Answer<Purged> purge_hints(Pipeline& pipeline, const std::string& list) const;
  // state: the key of pending, ready, retry or dead.
  Answer<PurgedIds> purge_ids(Pipeline& pipeline, const std::string& state, const std::vector<std::string>& ids) const;

  // Schedules: see schedules.h. Only in partition 0.
  Answer<ScheduleChanged> schedule(Pipeline& pipeline, const ScheduleChange& change) const;
  // Schedules that are due, at most `limit`, behind the first `offset` of them.
  Answer<ReadSchedules> due_schedules(Pipeline& pipeline, std::size_t limit, std::size_t offset) const;
  // Those with these names, due or not.
  Answer<ReadSchedules> read_schedules(Pipeline& pipeline, const std::vector<std::string>& names) const;
  // Names of schedules, at random.
  Answer<std::vector<std::string>> sample_schedules(Pipeline& pipeline) const;
  Answer<Advanced> advance(Pipeline& pipeline, const Advance& advance) const;
  // Whether this occurrence, of those that do not overlap, may be handled now.
  Answer<Begun> begin(Pipeline& pipeline, std::string_view name, std::int64_t slot_ms, std::string_view id) const;

  // Deletes the remaining keys of the queue. False: nothing was deleted, since messages or garbage are left.
  Answer<bool> forget(Pipeline& pipeline) const;
  // Takes the operators' lock for this long. False: another operator holds it.
  Answer<bool> lock(Pipeline& pipeline, std::string_view holder, milliseconds for_) const;
  // False: this operator did not hold it.
  Answer<bool> unlock(Pipeline& pipeline, std::string_view holder) const;

 private:
  template <class Messages>
  std::vector<std::string> stage(Pipeline& pipeline, const Messages& messages) const;
  Answer<Outcomes> send_one(Pipeline& pipeline, const NewMessage& message, const SendTerms& terms) const;
  Answer<Outcomes> send_new(Pipeline& pipeline, const std::vector<NewMessage>& messages, const SendTerms& terms) const;
  void add_restore(Pipeline& pipeline, const std::vector<RestoreRecord>& messages, std::string_view holder) const;
  Answer<Purged> purge_some(Pipeline& pipeline, const char* what, const std::string& list, std::size_t limit) const;
  void promote(Pipeline& pipeline, std::size_t most, bool with_ids, const Watcher& watcher) const;

  const Keys keys_;
  const Options options_;
};

}  // namespace delayqueue::store
