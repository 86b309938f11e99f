// Every move there is, on one queue that has something for each: for what must hold for all of them.
#pragma once

#include "support/moves.h"

#include <string>
#include <vector>

namespace test {

// A move with arguments that succeed: of every kind there is, on messages of a scene made by `everything`.
struct AnyMove {
  std::string name;
  void (*run)(Scene&);
};
const std::vector<AnyMove>& all_moves();

// The script that a move of this name runs.
std::string script_of(const std::string& move_name);

// Messages for all_moves(), one or more in every state, some due, some over.
void everything(Scene& scene);

}  // namespace test
