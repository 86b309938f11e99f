// Random sequences of moves on a real Redis. After every step the promises about each message are checked.
//
// DELAYQUEUE_SEEDS=n runs n sequences; DELAYQUEUE_SEED=n runs only sequence n.
#include "support/test.h"

#include "support/model_mixed.h"
#include "support/model_moves.h"
#include "support/model_runs.h"

namespace {

using namespace test::model;

// Runs one sequence.
template <class Game, class Check>
void play_moves(Game game, std::uint64_t seed, Check check) {
  play(game, seed, [&](Game& one) {
    for (int i = 0; i < 200; ++i) {
      one.step();
      if (i % 50 == 49) check(one);
    }
    one.drain();
  });
}

// Calls `one` with every selected seed.
template <class One>
void for_moves(One one) {
  load_scripts();
  auto connection = connect();
  for_seeds(300, [&](std::uint64_t seed) { one(seed, connection); });
}

}  // namespace

TEST_CASE("any sequence of moves: never early, one holder, at most retries + 1, nothing lost, nothing left over") {
  for_moves([](std::uint64_t seed, delayqueue::redis::Connection& connection) {
    Play::Options options;
    options.keep_dead = seed % 4 != 0;
    options.go_interference = seed % 2 == 0;
    play_moves(Play(seed, connection, options), seed, [](Play& game) { game.check_finds_nothing(); });
  });
}

TEST_CASE("any sequence of moves of this and the Go library: loses only messages that a Go worker finished") {
  for_moves([](std::uint64_t seed, delayqueue::redis::Connection& connection) {
    play_moves(Mixed(seed, connection, seed % 2 == 0 ? 5000 : 0), seed, [](Mixed&) {});
  });
}
