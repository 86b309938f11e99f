// The consumers that run, for dqctl serve.
#pragma once

#include "context.h"
#include "output/json.h"

namespace dqctl {

// The document of dqctl workers.
Object workers_object(Context& context);

}  // namespace dqctl
