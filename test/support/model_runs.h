// What the tests of random sequences share: which ones run, and what a failed one prints.
#pragma once

#include <doctest/doctest.h>

#include "support/model_moves.h"
#include "support/seeds.h"

namespace test::model {

inline void demand(bool promise, const std::string& breach) {
  if (!promise) throw Mismatch(breach);
}

// Calls `one` with the numbers of all sequences that run: `usually` so many.
template <class One>
void for_seeds(std::uint64_t usually, One one) {
  const std::uint64_t alone = setting("DELAYQUEUE_SEED", 0);
  const std::uint64_t first = alone != 0 ? alone : 1;
  const std::uint64_t last = alone != 0 ? alone : seeds(usually);
  MESSAGE("seeds " << first << " to " << last);
  for (std::uint64_t seed = first; seed <= last; ++seed) one(seed);
}

// Runs one sequence; on a failure prints its log: all of it if one seed was given, else the last 30 lines.
template <class Game, class Run>
void play(Game&& game, std::uint64_t seed, Run run) {
  try {
    run(game);
  } catch (const std::exception& error) {
    const auto& lines = game.log();
    const std::size_t most = setting("DELAYQUEUE_SEED", 0) != 0 ? lines.size() : 30;
    std::string log;
    for (std::size_t i = lines.size() > most ? lines.size() - most : 0; i < lines.size(); ++i) {
      log += std::to_string(i) + "  " + lines[i] + '\n';
    }
    FAIL("seed " << seed << ": " << std::string(error.what()) << "\n" << log);
  }
}

}  // namespace test::model
