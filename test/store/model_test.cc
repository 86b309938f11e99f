// Random sequences of moves on a real Redis. After every step the promises about each message are checked.
//
// DELAYQUEUE_SEEDS=n runs n sequences; DELAYQUEUE_SEED=n runs only sequence n.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "support/model_mixed.h"
#include "support/model_moves.h"
#include "support/seeds.h"

namespace {

using namespace test::model;

// The log of the moves: all of them if one seed was given, else the last 30.
std::string last_moves(const std::vector<std::string>& log) {
  const std::size_t most = test::setting("DELAYQUEUE_SEED", 0) != 0 ? log.size() : 30;
  std::string out;
  for (std::size_t i = log.size() > most ? log.size() - most : 0; i < log.size(); ++i) {
    out += std::to_string(i) + "  " + log[i] + '\n';
  }
  return out;
}

// Runs one sequence; on a failure prints its log.
template <class Game, class Check>
void play(Game game, std::uint64_t seed, Check check) {
  try {
    for (int i = 0; i < 200; ++i) {
      game.step();
      if (i % 50 == 49) check(game);
    }
    game.drain();
  } catch (const std::exception& error) {
    FAIL("seed " << seed << ": " << std::string(error.what()) << "\n" << last_moves(game.log()));
  }
}

// Calls `one` with every selected seed.
template <class One>
void for_seeds(One one) {
  const std::uint64_t alone = test::setting("DELAYQUEUE_SEED", 0);
  const std::uint64_t first = alone != 0 ? alone : 1;
  const std::uint64_t last = alone != 0 ? alone : test::seeds(300);
  MESSAGE("seeds " << first << " to " << last << ", 200 moves each");
  load_scripts();
  auto connection = connect();
  for (std::uint64_t seed = first; seed <= last; ++seed) one(seed, connection);
}

}  // namespace

TEST_CASE("any sequence of moves: never early, one holder, at most retries + 1, nothing lost, nothing left over") {
  for_seeds([](std::uint64_t seed, delayqueue::redis::Connection& connection) {
    Play::Options options;
    options.keep_dead = seed % 4 != 0;
    options.go_interference = seed % 2 == 0;
    play(Play(seed, connection, options), seed, [](Play& game) { game.check_finds_nothing(); });
  });
}

TEST_CASE("any sequence of moves of this and the Go library: loses only messages that a Go worker finished") {
  for_seeds([](std::uint64_t seed, delayqueue::redis::Connection& connection) {
    play(Mixed(seed, connection, seed % 2 == 0 ? 5000 : 0), seed, [](Mixed&) {});
  });
}
