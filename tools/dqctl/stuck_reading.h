// Takes the two readings of queues that dqctl stuck compares, with samples of their messages.
#pragma once

#include <delayqueue/inspector.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "context.h"
#include "output/json.h"
#include "row_error.h"
#include "stuck.h"

namespace dqctl {

// The two readings of one queue.
struct StuckReading {
  std::string queue{};
  Evidence evidence{};
  std::map<std::string, int> held{};  // ids held at the first reading, with their deliveries
  bool something_waits = false;
  std::vector<delayqueue::PartitionInfo> partitions{};  // at the first reading; empty: the queue has one
  std::vector<StuckFinding> unserved{};                 // findings of partitions that are not served while others are,
                                                        // or that the layout has lost
  bool has_lost = false;                                // such ones at the first reading
  std::optional<RowError> error{};
};

// Takes the first reading of all queues, waits once, then takes all second readings. A signal ends it early: see
// interrupted().
std::vector<StuckReading> read_stuck(Context& context, const std::vector<std::string>& queues,
                                     const StuckOptions& options);

// The worst first.
std::vector<StuckFinding> findings_of(const StuckReading& reading, const StuckOptions& options);

// The document of dqctl stuck QUEUE -o json.
Object stuck_object(const std::string& queue, Level level, const std::vector<StuckFinding>& findings);

}  // namespace dqctl
