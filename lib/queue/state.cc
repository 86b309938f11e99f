#include "queue/state.h"

namespace delayqueue {

const char* to_string(State state) {
  switch (state) {
    case State::pending:
      return "pending";
    case State::ready:
      return "ready";
    case State::unack:
      return "unack";
    case State::retry:
      return "retry";
    case State::dead:
      return "dead";
    case State::unknown:
      break;
  }
  return "unknown";
}

State state_of(std::string_view name) {
  for (const State state : {State::pending, State::ready, State::unack, State::retry, State::dead}) {
    if (name == to_string(state)) return state;
  }
  return State::unknown;
}

}  // namespace delayqueue
