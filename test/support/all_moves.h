// Calls of the store that cover each script that moves messages, and a queue with a message for each, for tests of
// properties that all moves share.
#pragma once

#include "support/moves.h"

namespace test {

// A move with arguments for which it succeeds in the scene that put_messages_for() prepares.
struct AnyMove {
  std::string name;
  void (*run)(Scene&);
  void (*prepare)(Scene&) = nullptr;  // after put_messages_for_all_moves()
};
const std::vector<AnyMove>& all_moves();

// The name of the script that a move of this name runs.
std::string script_of(const std::string& move_name);

// Puts messages for all_moves(): at least one in every state, some due, some with an ended lease.
void put_messages_for_all_moves(Scene& scene);
// The same, and what this move needs besides.
void put_messages_for(Scene& scene, const AnyMove& move);

}  // namespace test
