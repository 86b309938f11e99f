// The layout of a queue: how many partitions it has, and ever had. Each partition keeps a copy of it in `settings`.
#pragma once

#include "redis/pipeline.h"
#include "store/keys.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue::store {

using redis::Answer;
using redis::Pipeline;

struct Layout {
  std::int64_t generation = 0;  // of `partitions`: each setting of this number has a later one; 0: it was never set
  unsigned partitions = 1;      // that messages are sent to; a power of two
  unsigned top = 1;             // most partitions that the queue ever had; consumers serve all of them
};

bool operator==(const Layout& a, const Layout& b);
inline bool operator!=(const Layout& a, const Layout& b) { return !(a == b); }

// What two copies tell together: the number of the higher generation (of two numbers of one generation, the larger
// one), and the larger top. So it does not matter in which order copies are read, nor how often.
Layout merged(const Layout& a, const Layout& b);

// Whether this number of partitions is possible: a power of two up to kMostPartitions.
bool is_partition_count(unsigned partitions);

// keys: of the partition that has the copy. Fields that no layout can have count as absent.
Answer<Layout> read_layout(Pipeline& pipeline, const Keys& keys);

// What a sender reads when it connects, and from time to time.
struct SenderSettings {
  Layout layout;
  std::optional<std::uint64_t> length{};  // the limit of the queue's length; that of partition 0 counts
};
Answer<SenderSettings> read_sender_settings(Pipeline& pipeline, const Keys& keys);

// From this number on, 2^53, Lua cannot add 1 to a generation: such ones, of the layout, the pause and the limits,
// count as absent.
inline constexpr std::int64_t kNoGeneration = std::int64_t{1} << 53;

// The fields of `settings` whose values count as absent.
Answer<std::vector<std::string>> invalid_settings(Pipeline& pipeline, const Keys& keys);

// What a partition has.
struct Examined {
  Layout copy;
  bool has_messages = false;  // or what is left of some
};

// Whether the partition has messages, or what is left of some.
Answer<bool> has_messages(Pipeline& pipeline, const Keys& keys);

// The layout of a copy after a call of layout.lua.
struct StoredLayout {
  bool done = true;  // false: it has a later generation than the caller has read, and was not changed
  Layout copy;
};

// Updates the copy where it is behind `known`.
Answer<StoredLayout> copy_layout(Pipeline& pipeline, const Keys& keys, const Layout& known);
// Sets the number of partitions, in a generation after that of `known`.
Answer<StoredLayout> set_layout(Pipeline& pipeline, const Keys& keys, const Layout& known, unsigned partitions);

}  // namespace delayqueue::store
