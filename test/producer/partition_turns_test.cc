// Which partition gets the next messages, without Redis.
#include "support/test.h"

#include "producer/router.h"
#include "store/moves.h"

namespace delayqueue {
namespace {

constexpr unsigned kFour = 4;

struct Turns {
  unsigned choose(std::size_t messages, unsigned count) { return turns.choose(messages, count, allows()); }
  void go_on_from(unsigned partition, unsigned count) { turns.go_on_from(partition, count, allows()); }
  std::function<bool(unsigned)> allows() const {
    return [this](unsigned partition) { return gone.count(partition) == 0; };
  }

  PartitionTurns turns;
  std::set<unsigned> gone;
};

TEST_CASE("partition turns: a partition gets messages until it has 200, then the next one does, and so on round") {
  Turns a;
  const unsigned first = a.choose(1, kFour);
  CHECK(first < kFour);
  CHECK(a.choose(store::kBatch - 2, kFour) == first);
  CHECK(a.choose(1, kFour) == first);
  for (unsigned i = 1; i <= kFour; ++i) CHECK(a.choose(store::kBatch, kFour) == (first + i) % kFour);
}

TEST_CASE("partition turns: the next one gets messages after a round trip to the current one, and no other") {
  Turns a;
  const unsigned first = a.choose(1, kFour);
  a.go_on_from((first + 1) % kFour, kFour);
  CHECK(a.choose(1, kFour) == first);
  a.go_on_from(first, kFour);
  CHECK(a.choose(1, kFour) == (first + 1) % kFour);
}

TEST_CASE("partition turns: partitions that the circuit breaker does not allow get none, unless it allows none") {
  Turns a;
  a.gone = {0, 2, 3};
  for (unsigned i = 0; i < kFour; ++i) CHECK(a.choose(store::kBatch, kFour) == 1);
  a.gone.insert(1);
  std::set<unsigned> used;
  for (unsigned i = 0; i < kFour; ++i) used.insert(a.choose(store::kBatch, kFour));
  CHECK(used.size() == kFour);
}

TEST_CASE("partition turns: fewer partitions than before are used at once") {
  Turns a;
  while (a.choose(store::kBatch, kFour) != 3) continue;
  for (int i = 0; i < 3; ++i) CHECK(a.choose(store::kBatch, 2) < 2);
}

TEST_CASE("partition turns: producers do not all begin with the same one") {
  std::set<unsigned> begun;
  for (int i = 0; i < 100; ++i) begun.insert(Turns().choose(1, kFour));
  CHECK(begun.size() > 1);
}

}  // namespace
}  // namespace delayqueue
