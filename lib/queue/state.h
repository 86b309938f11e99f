// The states of a message: their names, as the scripts return them, and their keys.
#pragma once

#include "store/keys.h"

#include <delayqueue/message.h>

#include <string>
#include <string_view>

namespace delayqueue {

// The state with this name; State::unknown if there is none.
State state_of(std::string_view name);

// The meaning of an answer of the script reschedule.
Outcome rescheduled_of(std::string_view answer);

// The zset or list with the ids of the messages in a state. Throws std::invalid_argument for State::unknown.
const std::string& key_of(const store::Keys& keys, State state);

inline bool is_list(State state) { return state == State::ready || state == State::retry; }

}  // namespace delayqueue
