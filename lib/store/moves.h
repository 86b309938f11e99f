// The moves of a message, in the order of its life. Each adds one request to a pipeline; its answer can be read when
// the pipeline has run. One move is one script: atomic, bounded, and safe to repeat. Knows no threads and keeps no
// state but the names of the keys.
#pragma once

#include "redis/pipeline.h"
#include "store/keys.h"
#include "store/record.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace delayqueue::store {

using redis::Answer;
using redis::Pipeline;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Most ids in one call of a script that loops: keeps each under 2 ms.
inline constexpr std::size_t kBatch = 200;
inline constexpr const char* kMarker = "w";       // the member of `wake`
inline constexpr std::size_t kReclaimBatch = 50;  // of unack2retry, which writes five things for each

// When a message is due: a delay by Redis' clock, or a time in ms since 1970.
struct Due {
  std::optional<milliseconds> delay;
  std::int64_t at_ms = 0;
};

struct NewMessage {
  std::string_view id;
  std::string_view payload;
};

// How messages of one send are to be treated, all alike.
struct SendTerms {
  Due due;
  int retries = 3;
  milliseconds ttl{0};  // 0: none
  bool fresh = false;   // the ids were just made and never sent: no need to look whether they exist
};

struct Promoted {
  std::size_t moved = 0;
  std::optional<microseconds> next;  // until the next is due; nothing: none is pending
  std::vector<std::string> ids;      // only if asked for
  bool keeps = false;                // who asked is to ask again by then, for nobody else may
};

// Who asks for what is due, and what for others: see pending2ready.lua.
struct Watcher {
  std::string_view name;
  std::optional<milliseconds> asks_again{};  // by itself, not later than this; nothing: it has no free hands
};

// A suspect: a message in retry whose last delivery ended with its lease. It may have killed its process.
struct TakeLimits {
  std::size_t total = 0;            // most messages to take
  std::size_t retry_share = 0;      // of these, kept for retry if it has so many
  std::size_t retry_max = 0;        // most to take from retry
  std::size_t poison_max = kBatch;  // most suspects to take
  std::size_t poison_skip = 0;      // most other suspects to pass over, for what waits behind them
};

struct Taken {
  std::size_t popped = 0;                             // ids passed; as many as asked for: there may be more
  std::int64_t lease_us = 0;                          // the end of the lease, and the receipt of all in `messages`
  std::int64_t now_us = 0;                            // Redis' time
  std::vector<std::pair<std::string, int>> messages;  // id (36 characters, perhaps not one of ours) and delivery number
  std::size_t from_retry = 0;                         // of popped
  std::size_t retry_left = 0;
  std::vector<std::string> suspects;  // of the messages
  std::size_t met = 0;                // suspects met beyond those; more than were to be passed over: it stopped there
  std::size_t foreign = 0;            // what counted as messages but was no id by its length, and was removed
  std::string foreign_id;             // the beginning of the first
};

struct Receipt {
  std::string_view id;
  std::int64_t end_us = 0;
};

struct Nack {
  Receipt receipt;
  std::optional<milliseconds> delay;  // nothing: give it up
  std::string_view reason;
};

struct Renewed {
  std::int64_t now_us = 0;
  std::string outcomes;  // see renew.lua
};

struct Reclaimed {
  std::size_t moved = 0;
  std::optional<microseconds> next;  // until the next lease ends
  std::vector<std::string> retried;
  std::vector<std::string> given_up;
};

struct Purged {
  std::size_t passed = 0;
  std::size_t purged = 0;
  std::vector<std::string> garbage;
};

// A message as it was written down. Alive: ready when `at_us` has passed, else pending until then.
struct Saved {
  std::string_view id;
  bool dead = false;
  std::int64_t at_us = 0;  // when it is due, or was given up
  int retries = 0;
  int deliveries = 0;
  milliseconds ttl{0};  // that its body may stay; 0: for ever
  std::string_view reason;
  std::string_view payload;
};

struct Discarded {
  std::string outcomes;    // see discard.lua
  std::size_t places = 0;  // free now in the state's zset or list
};

// What became of each message of a call, one character a message: see the script's header.
using Outcomes = std::string;

class Store {
 public:
  struct Options {
    bool keep_dead = true;
    std::size_t search_lists = 0;  // cancel and reschedule remove ids from lists up to this long
  };

  explicit Store(Keys keys) : Store(std::move(keys), Options()) {}
  Store(Keys keys, Options options) : keys_(std::move(keys)), options_(options) {}

  const Keys& keys() const { return keys_; }
  std::size_t search_lists() const { return options_.search_lists; }

  // '1' created, '0' existed, 'C' cancelled and held still. At most kBatch messages.
  Answer<Outcomes> send(Pipeline& pipeline, const std::vector<NewMessage>& messages, const SendTerms& terms) const;
  // Whether the send that was just added is the first one since the queue came into being, or was forgotten.
  static Answer<bool> is_first(Pipeline& pipeline);

  // Leaves the marker that wakes one consumer with free hands. No move: beside one, and lost without harm.
  void wake(Pipeline& pipeline) const;
  // Removes what stands there, the marker included.
  void clear_wake(Pipeline& pipeline) const;

  Answer<Promoted> pending2ready(Pipeline& pipeline, bool with_ids, const Watcher& watcher) const;
  // The watcher goes; another should watch.
  void leave_watch(Pipeline& pipeline, std::string_view name) const;

  Answer<Taken> ready2unack(Pipeline& pipeline, const TakeLimits& limits, milliseconds lease) const;
  Answer<std::vector<std::optional<std::string>>> bodies(Pipeline& pipeline, const std::vector<std::string>& ids) const;

  Answer<Outcomes> ack(Pipeline& pipeline, const std::vector<Receipt>& receipts) const;
  Answer<Outcomes> expire(Pipeline& pipeline, const std::vector<Receipt>& receipts) const;
  // Removes what was taken with an id that is none (see is_id).
  Answer<Outcomes> remove_foreign(Pipeline& pipeline, const std::vector<Receipt>& receipts) const;
  Answer<Outcomes> nack(Pipeline& pipeline, const std::vector<Nack>& nacks) const;
  Answer<Renewed> renew(Pipeline& pipeline, const std::vector<Receipt>& receipts, std::int64_t new_end_us) const;
  Answer<Outcomes> release(Pipeline& pipeline, const std::vector<Receipt>& receipts, milliseconds delay) const;
  Answer<Outcomes> release_waiting(Pipeline& pipeline, const std::vector<std::string>& ids, bool force) const;

  // only_backoffs: ends of leases are left alone.
  Answer<Reclaimed> unack2retry(Pipeline& pipeline, bool only_backoffs = false) const;
  Answer<std::size_t> persist(Pipeline& pipeline, const std::vector<std::string>& ids) const;

  Answer<std::vector<std::string>> some_garbage(Pipeline& pipeline) const;
  Answer<std::size_t> gc(Pipeline& pipeline, const std::vector<std::string>& ids) const;
  Answer<std::pair<std::string, std::vector<std::string>>> some_notes(Pipeline& pipeline, const std::string& key,
                                                                      const std::string& cursor) const;
  Answer<std::size_t> sweep(Pipeline& pipeline, const std::vector<std::string>& ids) const;

  Answer<std::string> cancel(Pipeline& pipeline, std::string_view id) const;
  Answer<std::string> reschedule(Pipeline& pipeline, std::string_view id, const Due& due) const;
  Answer<Outcomes> redrive(Pipeline& pipeline, const std::vector<std::string>& ids, int retries) const;

  // All of at most kBatch messages; with search_lists one at a time.
  Answer<Outcomes> kill(Pipeline& pipeline, const std::vector<std::string>& ids, std::string_view reason,
                        bool force) const;
  Answer<Outcomes> extend(Pipeline& pipeline, const std::vector<std::string>& ids, milliseconds by, bool force) const;
  Answer<Outcomes> restore(Pipeline& pipeline, const std::vector<Saved>& messages) const;

  // state: keys().pending or keys().dead. Leaves the newest `leave`, and what is not so old.
  Answer<Purged> purge_zset(Pipeline& pipeline, const std::string& state, std::size_t limit,
                            std::optional<milliseconds> older_than, std::int64_t leave) const;
  // state: keys().ready or keys().retry.
  Answer<Purged> purge_list(Pipeline& pipeline, const std::string& state, std::size_t limit) const;
  // Ids that are no messages, at the end of the list where takes begin.
  Answer<Purged> purge_hints(Pipeline& pipeline, const std::string& list) const;
  // state: the key of pending, ready, retry or dead.
  Answer<Discarded> discard(Pipeline& pipeline, const std::string& state, const std::vector<std::string>& ids) const;

  // Whether it is forgotten; false: something is in the queue, or garbage.
  Answer<bool> forget(Pipeline& pipeline) const;
  // Whether it is ours until then.
  Answer<bool> lock(Pipeline& pipeline, std::string_view holder, milliseconds for_) const;
  Answer<bool> unlock(Pipeline& pipeline, std::string_view holder) const;

 private:
  Answer<Purged> purge_some(Pipeline& pipeline, const char* what, const std::string& list, std::size_t limit) const;
  Answer<Outcomes> remove(Pipeline& pipeline, std::string_view counted_as, const std::vector<Receipt>& receipts) const;
  void promote(Pipeline& pipeline, std::size_t most, bool with_ids, const Watcher& watcher) const;
  void add_due(Pipeline& pipeline, const Due& due) const;

  const Keys keys_;
  const Options options_;
};

}  // namespace delayqueue::store
