// The checks of a Schedule, which the library makes before it uses or stores one.
#pragma once

#include "schedules/slots.h"

#include <delayqueue/schedules.h>

#include <cstddef>

namespace delayqueue::schedules {

// A payload passes through Redis' Lua each time a message of the schedule is stored.
inline constexpr std::size_t kMostPayload = 64 * 1024;

// Of the headers of a schedule. Its messages get the library's headers besides, within Headers::kMost and kMostBytes.
inline constexpr std::size_t kMostHeaders = Headers::kMost - 4;
inline constexpr std::size_t kMostHeaderBytes = Headers::kMostBytes - 1024;

// Checks all members, and returns the slots, without regard to `until`. Throws std::invalid_argument with the member,
// its value and the reason, and SetupError if this machine cannot know the zone.
Slots checked(const Schedule& schedule);

}  // namespace delayqueue::schedules
