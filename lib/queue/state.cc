#include "queue/state.h"

#include <stdexcept>

namespace delayqueue {

const char* DELAYQUEUE_ABI::to_string(State state) {
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

Outcome rescheduled_of(std::string_view answer) {
  return answer == "moved"  ? Outcome::done
         : answer == "held" ? Outcome::held
         : answer == "dead" ? Outcome::wrong_state
                            : Outcome::unknown;
}

const std::string& key_of(const store::Keys& keys, State state) {
  switch (state) {
    case State::pending:
      return keys.pending;
    case State::ready:
      return keys.ready;
    case State::unack:
      return keys.unack;
    case State::retry:
      return keys.retry;
    case State::dead:
      return keys.dead;
    case State::unknown:
      break;
  }
  throw std::invalid_argument("state: unknown; expected pending, ready, unack, retry or dead");
}

}  // namespace delayqueue
