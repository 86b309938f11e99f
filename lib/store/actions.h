// The list of what operators have done with a queue: the latest actions, the last one first. It is written on request
// only, and no move reads it. An element is "<us> <messages> <outcome> <who> <what>"; messages is "-" for a change of
// the queue as such, and only the last field may have spaces.
#pragma once

#include "redis/pipeline.h"
#include "store/keys.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue::store {

using redis::Answer;
using redis::Pipeline;

inline constexpr std::size_t kMostActions = 100;

struct ActionEntry {
  std::optional<std::int64_t> at_us{};  // unset: another program has written the element, whose bytes are in `what`
  std::optional<std::uint64_t> messages{};
  std::string outcome{}, who{}, what{};
};

// Adds an entry, which has a time, and removes those beyond the last kMostActions. Cuts its texts to 32, 256 and 1,024
// bytes; in the first two other characters stand for spaces and control characters.
Answer<bool> add_action(Pipeline& pipeline, const Keys& keys, const ActionEntry& entry);

// At most kMostActions, the latest first.
Answer<std::vector<ActionEntry>> read_actions(Pipeline& pipeline, const Keys& keys);

}  // namespace delayqueue::store
