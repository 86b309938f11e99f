// The names of the states, as the scripts return them.
#pragma once

#include <delayqueue/producer.h>

#include <string_view>

namespace delayqueue {

// The state with this name; State::unknown if there is none.
State state_of(std::string_view name);

}  // namespace delayqueue
