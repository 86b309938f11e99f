#include "partition_object.h"

#include <cstdint>
#include <utility>

namespace dqctl {

Object partition_object(const delayqueue::PartitionInfo& info) {
  Object object;
  object.add("partition", info.partition).add("slot", info.slot);
  info.server.empty() ? object.add_null("master") : object.add("master", info.server);
  object.add("sent_to", info.sent_to);
  const delayqueue::Counts& counts = info.counts;
  const std::pair<const char*, std::uint64_t> numbers[] = {
      {"pending", counts.pending}, {"ready", counts.ready}, {"unack", counts.unack},    {"retry", counts.retry},
      {"dead", counts.dead},       {"due", counts.due},     {"overdue", counts.overdue}};
  for (const auto& [name, number] : numbers) {
    info.error.empty() ? object.add(name, number) : object.add_null(name);
  }
  info.error.empty() ? object.add("paused", counts.paused) : object.add_null("paused");
  return info.error.empty() ? object.add_null("error") : object.add("error", printable(info.error));
}

}  // namespace dqctl
