// Partitions: the parts of a queue. A queue may have several, each in another slot, so that several masters of a
// Cluster share its work. See QueueAdmin::set_partitions and docs/operations.md.
#pragma once

#include <delayqueue/counts.h>

#include <optional>
#include <string>

namespace delayqueue {

// The partitions of a queue are numbered from 0 on.
struct Layout {
  unsigned partitions = 1;  // the number of those that messages are sent to
  unsigned top = 1;         // the most that the queue ever had; consumers serve all of them
};

// One partition: see Inspector::partitions().
struct PartitionInfo {
  unsigned partition = 0;
  bool sent_to = true;        // false: the number was lowered since; consumers still serve it
  std::optional<int> slot{};  // in a Cluster
  std::string server{};       // the address of the server that has it; empty: unknown
  Counts counts{};            // empty if there is an error
  std::string error{};        // why it could not be read; empty: no error
};

}  // namespace delayqueue
