// Limits the names of all queues for pages that show each of them: any client of Redis can add names to their list, of
// any length and number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dqctl {

inline constexpr std::size_t kLongestListed = 1024;  // bytes

// Removes the names that are longer, and then those after the first `most`. Returns how many it has removed.
std::uint64_t limit_names(std::vector<std::string>& names, std::size_t most);

}  // namespace dqctl
