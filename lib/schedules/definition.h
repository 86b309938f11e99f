// The stored text of a schedule: lines "<key>=<value>", then the payload.
#pragma once

#include "schedules/slots.h"

#include <delayqueue/schedules.h>

#include <string>
#include <string_view>

namespace delayqueue::schedules {

// The definition of a schedule, as it was stored.
struct Definition {
  Schedule schedule;
  Slots slots;
};

// The same text for equal schedules. The schedule must have been checked.
std::string text_of(const Schedule& schedule);

// Throws std::invalid_argument with the reason for a text that this version does not write: a later version, or another
// program, may have stored any bytes. Throws SetupError if this machine cannot know the zone.
Definition definition_of(std::string_view text);

}  // namespace delayqueue::schedules
