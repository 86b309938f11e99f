// The metrics of queues in the text form of Prometheus, for dqctl serve.
#pragma once

#include <string>

#include "context.h"

namespace dqctl {

// The text of dqctl metrics.
std::string metrics_text(Context& context);

}  // namespace dqctl
