// The dead letters of a queue by their reasons, for dqctl serve.
#pragma once

#include <string>

#include "context.h"
#include "output/json.h"

namespace dqctl {

// The most frequent 100 reasons of the newest 10,000 dead letters. Throws Failure if there is no such queue.
Object reasons_object(Context& context, const std::string& queue);

}  // namespace dqctl
