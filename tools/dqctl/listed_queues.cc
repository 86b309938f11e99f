#include "listed_queues.h"

#include <algorithm>

namespace dqctl {

std::uint64_t limit_names(std::vector<std::string>& names, std::size_t most) {
  const std::size_t all = names.size();
  const auto is_long = [](const std::string& name) { return name.size() > kLongestListed; };
  names.erase(std::remove_if(names.begin(), names.end(), is_long), names.end());
  if (names.size() > most) names.resize(most);
  return all - names.size();
}

}  // namespace dqctl
