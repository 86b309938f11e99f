// The metrics of queues in Redis as a page for Prometheus.
#pragma once

#include <string>
#include <vector>

#include "context.h"
#include "row_error.h"

namespace dqctl {

struct MetricsPage {
  std::string text{};
  // Of the queues that could not be read, whose delayqueue_up is 0; and how many are left out. Printable.
  std::vector<std::string> errors{};
  RowErrors rows{};
};

// Reads these queues, each once; none: all known ones, at most 10,000, with names of at most 1,024 bytes. The number of
// requests for a queue depends on its partitions only. Throws what Inspector::queues() throws.
MetricsPage read_metrics(Context& context, std::vector<std::string> queues);

}  // namespace dqctl
