// Reads what operators have recorded of their changes: see audit.h.
#pragma once

#include <delayqueue/inspector.h>

#include <string>
#include <vector>

#include "context.h"
#include "output/json.h"
#include "row_error.h"

namespace dqctl {

struct ActionRow {
  std::string queue{};
  delayqueue::Action action{};
};

Object action_object(const ActionRow& row);

void sort_by_time(std::vector<ActionRow>& rows);

struct ActionReading {
  std::vector<ActionRow> rows{};  // the latest first; entries without a time are last
  RowErrors errors{};
  std::vector<std::string> error_lines{};  // the same, printable
};

// The actions of all these queues, until a signal arrives.
ActionReading read_actions(Context& context, const std::vector<std::string>& queues);

}  // namespace dqctl
