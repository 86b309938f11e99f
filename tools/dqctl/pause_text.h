// A pause of a queue in texts and documents.
#pragma once

#include <delayqueue/inspector.h>

#include <string>

#include "output/json.h"

namespace dqctl {

// Who has set it, and when, behind another text: ", set by anna@host7 2m ago". Empty if neither is known.
std::string pauser_text(const delayqueue::Pause& pause, Time now);

// paused_why, paused_until, paused_by and paused_since.
void add_pause(Object& object, const delayqueue::Pause& pause);

}  // namespace dqctl
