// The results of moves, as Moves returns them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue::store {

using std::chrono::microseconds;

// The outcome of each message of a call, one character per message: see the header of the script.
using Outcomes = std::string;

// The outcomes of send_keyed.
struct KeyedSent {
  Outcomes outcomes;             // one character per message
  std::vector<std::string> ids;  // for each message with 'U', 'R' or '?': of the message that has its key; else empty
  bool is_first = false;         // the first send since the queue was created or deleted by forget
};

// The answer to a change of the message that has a key.
struct ByKey {
  std::string answer;   // that of the script, as without a key
  std::string call_id;  // not empty: nothing was changed; call again with this id
};

struct Promoted {
  std::size_t moved = 0;
  std::optional<microseconds> next;  // time until the next message is due; unset: none is pending
  std::vector<std::string> ids;      // empty unless with_ids
  bool keeps_watch = false;          // the caller must call again within `next`: it keeps the watch for that message
};

// `total`, `poison_skip` and possible poison messages: see TakeLimits.
struct Taken {
  std::size_t popped = 0;                             // ids removed from the lists; `total` of them: there may be more
  std::int64_t lease_us = 0;                          // the end of the lease, and the receipt of all in `messages`
  std::int64_t now_us = 0;                            // time of Redis
  std::vector<std::pair<std::string, int>> messages;  // id (36 characters, not always a UUID) and delivery number
  int retries_left = 0;                               // of each in `messages`, except those in other_retries_left
  std::map<std::string, int> other_retries_left;      // by id
  std::size_t from_retry = 0;                         // how many of `popped` came from retry
  std::size_t retry_left = 0;                         // 0 while the queue is paused: none of them can be taken
  std::vector<std::string> possible_poison;           // possible poison messages among `messages`
  // Further ones that were found; if more than poison_skip, the script stopped at the last.
  std::size_t further_poison = 0;
  std::size_t foreign = 0;   // ids with a retry count that were not 36 characters long; moved to garbage
  std::string foreign_id;    // first 64 characters of the first of them
  bool has_headers = false;  // false: none of `messages` has any
  bool has_keys = false;     // false: none of `messages` has a unique key
  bool has_limits = false;   // the queue has some: ready2unack takes nothing then
  // Limits have kept the take from `total` messages. `next`: the caller watches, and takes again after this time;
  // unset: it does not, and a marker wakes a consumer when there is something to take.
  bool held_back = false;
  bool held_by_rate = false;  // only the next token ends that, no message that is settled
  std::optional<microseconds> next{};
  // One of `messages`, and for how long it had been due. Empty: not known of any of them; the message may also be
  // missing.
  std::string timed_id;
  microseconds late{0};
};

// The results of pending2ready and, if it took messages as ready2unack does, of ready2unack.
struct PromotedAndTaken {
  Promoted promoted;
  // Unset: ready or retry was not empty, the queue is paused, or pending had an empty member.
  std::optional<Taken> taken;
};

struct Renewed {
  std::int64_t now_us = 0;
  std::string outcomes;  // see renew.lua
};

struct Reclaimed {
  std::size_t moved = 0;
  std::optional<microseconds> next;  // time until the next lease ends; unset: there is none
  std::vector<std::string> retried;
  std::vector<std::string> dead_lettered;  // dead letters now
};

struct Purged {
  std::size_t removed = 0;           // ids removed from the list or zset
  std::size_t purged = 0;            // messages among them
  std::vector<std::string> garbage;  // ids that were moved there
};

struct PurgedIds {
  std::string outcomes;    // see purge_ids.lua
  std::size_t places = 0;  // how many entries were removed from the state's zset or list
};

}  // namespace delayqueue::store
