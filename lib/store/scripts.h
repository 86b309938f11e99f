// The Lua scripts of the moves, and how many ids one call takes. Each is the file scripts/lua/<name>.lua, which the
// build expands: see scripts/lua/README.md. store/script_calls.h declares each by its name.
#pragma once

#include "redis/script.h"

#include <cstddef>
#include <vector>

namespace delayqueue::store {

// Most ids in one call of a script that loops. With this limit each call takes less than 2 ms.
inline constexpr std::size_t kBatch = 200;
inline constexpr std::size_t kPlaces = 100;       // of correct_places
inline constexpr std::size_t kReclaimBatch = 50;  // of unack2retry, which writes to five keys for each id

namespace scripts {

const std::vector<const redis::Script*>& all();

}  // namespace scripts
}  // namespace delayqueue::store
