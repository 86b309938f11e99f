// The metrics of queues in Redis as a page for Prometheus.
#pragma once

#include <string>
#include <vector>

#include "context.h"
#include "row_error.h"

namespace dqctl {

struct MetricsPage {
  std::string text{};
  std::vector<std::string> errors{};  // of the queues that could not be read, printable; their delayqueue_up is 0
  RowErrors rows{};
};

// Reads these queues, each once; none: all known ones. The number of requests for a queue depends on its partitions only.
// Throws what Inspector::queues() throws.
MetricsPage read_metrics(Context& context, std::vector<std::string> queues);

}  // namespace dqctl
