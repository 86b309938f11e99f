// Read-only queries of a queue. Like Moves, each function adds one request to a pipeline.
#pragma once

#include "redis/pipeline.h"
#include "store/keys.h"
#include "store/limits.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::store {

using redis::Answer;
using redis::Pipeline;

// The fields of stats that are read.
inline constexpr const char* kTotals[] = {"sent",    "delivered", "acked",    "nacked", "retried", "dead",
                                          "expired", "cancelled", "redriven", "purged", "skipped", "foreign"};

// The other field of stats, which is no count: see docs/protocol.md.
inline constexpr const char kProbe[] = "probe";

// Whether the value of a field is a count. Another program may have written something else; moves ignore that, and
// queries read it as 0.
bool is_total(std::string_view value);

struct QueueCounts {
  std::int64_t now_us = 0;
  std::uint64_t pending = 0, ready = 0, unack = 0, retry = 0, dead = 0, garbage = 0, due = 0, overdue = 0;
  std::optional<std::int64_t> first_pending_us, first_unack_us;
  std::optional<std::int64_t> oldest_ready_us;  // since when the probe has been due; unset: none is known
  bool paused = false;
  std::optional<std::int64_t> pause_left_ms;  // unset: not paused, or without an end
  std::map<std::string, std::uint64_t, std::less<>> stats;
  Limits limits{};                          // without their generation
  std::uint64_t in_flight = 0;              // that count against limits.running
  std::chrono::microseconds next_token{0};  // until another message may be taken; 0: now, or there is no rate
  std::uint64_t alive = 0;                  // that count against limits.length
};

struct Entry {
  std::string id;
  std::optional<std::int64_t> score_us;
  std::optional<int> retries;
  int deliveries = 0;
  bool undelivered = false;                 // attempts has an entry, and it says 0
  std::optional<std::int64_t> last_end_us;  // of its last lease or backoff; unset: it had none, or it is not known
  std::string reason;
  std::size_t offset = 0;  // in a page of a list: how many of its ids_read are before it
  std::string score{};     // in a page of a zset: as Redis writes it
};

// Where a page begins.
struct PageStart {
  bool newest = false;  // the messages that arrived last come first: in a zset those with the highest scores
  // Empty: at the start. In a list a number of ids; in a zset a place_of().
  std::string after{};
};

struct Page {
  std::size_t ids_read = 0;  // including ids in lists that have no message there
  std::vector<Entry> entries;
};

struct Found {
  std::string state;
  Entry entry;
};

Answer<QueueCounts> counts(Pipeline& pipeline, const Keys& keys);

// state: the key of the state. At most kBatch ids per call.
Answer<Page> page_of_zset(Pipeline& pipeline, const Keys& keys, const std::string& state, const PageStart& start,
                          std::size_t most);
Answer<Page> page_of_list(Pipeline& pipeline, const Keys& keys, const std::string& state, const PageStart& start,
                          std::size_t most);

// The place of a message in a zset, which stays the same when others leave or arrive, or it leaves itself: its score
// and its id. Of an id longer than kPlaceBytes only the start, and "*": a page after that place begins behind all ids
// with this score and this start.
inline constexpr std::size_t kPlaceBytes = 100;
std::string place_of(const Entry& entry);

// Whether the text can be a place_of(). Accepts any bytes.
bool is_place(std::string_view text);

Answer<Found> find(Pipeline& pipeline, const Keys& keys, std::string_view id);

}  // namespace delayqueue::store
