// What the registries of consumers tell, for dqctl workers and dqctl serve.
#pragma once

#include <delayqueue/inspector.h>

#include <string>
#include <utility>
#include <vector>

#include "context.h"
#include "output/json.h"
#include "row_error.h"

namespace dqctl {

// A consumer, with what its entries in the registries of its queues tell.
struct WorkerRow {
  delayqueue::Worker worker{};  // `in_flight`: of all the queues that were read
  std::vector<std::pair<std::string, delayqueue::RunningMessage>> longest{};  // with their queues
};

struct WorkerReading {
  std::vector<WorkerRow> rows{};  // by host and process
  Time now{};                     // by Redis' clock
  RowErrors errors{};
  std::vector<Object> error_objects{};     // of the queues that could not be read
  std::vector<std::string> error_lines{};  // the same, printable
};

// Reads the registries of these queues, until a signal arrives. only_one: throws if the queue does not exist, or cannot
// be read.
WorkerReading read_registries(Context& context, const std::vector<std::string>& queues, bool only_one);

// now: by Redis' clock.
Object worker_object(const WorkerRow& row, Time now);

}  // namespace dqctl
