// The limits of a queue. Partition 0 has them, and the other partitions have copies, as they have of the pause. All
// copies have the limits of the whole queue; the scripts compute the share of their partition.
#pragma once

#include "redis/pipeline.h"
#include "store/keys.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::store {

using redis::Answer;
using redis::Pipeline;

struct RateLimit {
  std::uint64_t messages = 0;  // leased in a period
  std::chrono::microseconds period{0};
  std::uint64_t burst = 0;  // most that are leased at once
};

struct Limits {
  std::int64_t generation = 0;  // of the last setting; 0: there was none
  unsigned parts = 1;           // the limits are divided among so many partitions
  std::optional<RateLimit> rate{};
  std::optional<std::uint64_t> running{}, length{};

  bool any() const { return rate || running || length; }
};

// The limits of a partition after a call of limits.lua.
struct StoredLimits {
  bool done = true;  // false: it has a later generation than the caller has read, and was not changed
  Limits limits;
};

// keys: of the partition. Values that no client writes count as absent.
Answer<StoredLimits> read_limits(Pipeline& pipeline, const Keys& keys);
// Sets these limits in partition 0, in a new generation, unless it has one after wanted.generation.
Answer<StoredLimits> set_limits(Pipeline& pipeline, const Keys& keys, const Limits& wanted);
// Sets these limits in a partition, unless it has this generation or a later one.
Answer<StoredLimits> copy_limits(Pipeline& pipeline, const Keys& keys, const Limits& limits, unsigned partition);

// A limit, or a rate, as it is stored; unset: there is none, or no client writes such a value.
std::optional<std::uint64_t> limit_of(std::string_view text);
std::optional<RateLimit> rate_of(std::string_view messages, std::string_view period, std::string_view burst);

// The fields of `limits` with values that count as absent.
Answer<std::vector<std::string>> invalid_limits(Pipeline& pipeline, const Keys& keys);

// One step of a scan of the messages in flight: for those that were leased before their number was limited.
struct ScannedLeases {
  std::string cursor;  // "0": that was the last step
  std::vector<std::string> ids;
};
Answer<ScannedLeases> scan_leases(Pipeline& pipeline, const Keys& keys, const std::string& cursor);

}  // namespace delayqueue::store
