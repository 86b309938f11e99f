// Reads what LayoutKeeper::probe() needs, one partition after the other.
#pragma once

#include "queue/layout_keeper.h"
#include "support/standard.h"

namespace test {

inline std::vector<std::optional<delayqueue::store::Examined>> examine_all(
    const std::string& queue, const delayqueue::store::KeyScheme& options,
    const delayqueue::LayoutKeeper::WithConnection& with_connection) {
  std::vector<std::optional<delayqueue::store::Examined>> all(delayqueue::store::kMostPartitions);
  for (unsigned partition = 0; partition < all.size(); ++partition) {
    with_connection(partition, [&](delayqueue::redis::Connection& connection) {
      const auto keys = delayqueue::store::make_keys(queue, options, partition);
      delayqueue::redis::Pipeline pipeline(connection);
      const auto copy = delayqueue::store::read_layout(pipeline, keys);
      const auto has_messages = delayqueue::store::has_messages(pipeline, keys);
      pipeline.run();
      all[partition] = delayqueue::store::Examined{copy.get(), has_messages.get()};
    });
  }
  return all;
}

}  // namespace test
