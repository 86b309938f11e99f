// The names of the states, as scripts answer them.
#pragma once

#include <delayqueue/producer.h>

#include <string_view>

namespace delayqueue {

// State::unknown for what is no state's name.
State state_of(std::string_view name);

}  // namespace delayqueue
