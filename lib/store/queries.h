// What can be seen of a queue without changing it. Like Store: each adds one request to a pipeline.
#pragma once

#include "redis/pipeline.h"
#include "store/keys.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::store {

using redis::Answer;
using redis::Pipeline;

// The fields of stats. Others that stand there are not read.
inline constexpr const char* kTotals[] = {"sent",    "delivered", "acked",    "nacked", "retried", "dead",
                                          "expired", "cancelled", "redriven", "purged", "foreign"};

// Whether a field's value is a count. Another program may have written something else there; the moves go on, and it
// counts as 0.
bool is_total(std::string_view value);

struct QueueCounts {
  std::int64_t now_us = 0;
  std::uint64_t pending = 0, ready = 0, unack = 0, retry = 0, dead = 0, garbage = 0, due = 0, overdue = 0;
  std::optional<std::int64_t> first_pending_us, first_unack_us;
  bool paused = false;
  std::map<std::string, std::uint64_t, std::less<>> stats;
};

struct Entry {
  std::string id;
  std::optional<std::int64_t> score_us;
  std::optional<int> retries;
  int deliveries = 0;
  bool undelivered = false;  // it is noted that deliveries are 0
  std::string reason;
};

struct Page {
  std::size_t passed = 0;  // ids looked at, hints that do not count included
  std::vector<Entry> entries;
};

struct Found {
  std::string state;
  Entry entry;
};

Answer<QueueCounts> counts(Pipeline& pipeline, const Keys& keys);

// state: one of the keys. At most kBatch at a time.
Answer<Page> page_of_zset(Pipeline& pipeline, const Keys& keys, const std::string& state, std::size_t from,
                          std::size_t most);
Answer<Page> page_of_list(Pipeline& pipeline, const Keys& keys, const std::string& state, std::size_t from,
                          std::size_t most);

Answer<Found> find(Pipeline& pipeline, const Keys& keys, std::string_view id);

}  // namespace delayqueue::store
