// Which partition gets the next messages, without Redis.
#include "support/test.h"

#include "producer/partition_turns.h"
#include "store/moves.h"

namespace delayqueue {
namespace {

constexpr unsigned kFour = 4;

struct Turns {
  EventSink sink{{"test", ""}, no_log(), {}, false};
  CircuitBreaker breaker{{[](unsigned) { return ""; }, [](unsigned) { return CircuitBreaker::Probe::refused; }}, sink};
  PartitionTurns turns{breaker};
};

TEST_CASE("partition turns: a partition gets messages until it has 200, then the next one does, and so on round") {
  Turns a;
  const unsigned first = a.turns.choose(1, kFour);
  CHECK(first < kFour);
  CHECK(a.turns.choose(store::kBatch - 2, kFour) == first);
  CHECK(a.turns.choose(1, kFour) == first);
  for (unsigned i = 1; i <= kFour; ++i) CHECK(a.turns.choose(store::kBatch, kFour) == (first + i) % kFour);
}

TEST_CASE("partition turns: the next one gets messages after a round trip to the current one, and no other") {
  Turns a;
  const unsigned first = a.turns.choose(1, kFour);
  a.turns.go_on_from((first + 1) % kFour, kFour);
  CHECK(a.turns.choose(1, kFour) == first);
  a.turns.go_on_from(first, kFour);
  CHECK(a.turns.choose(1, kFour) == (first + 1) % kFour);
}

TEST_CASE("partition turns: partitions that the circuit breaker does not allow get none, unless it allows none") {
  Turns a;
  for (const unsigned gone : {0U, 2U, 3U}) a.breaker.partition_failed(gone, "TRYAGAIN");
  for (unsigned i = 0; i < kFour; ++i) CHECK(a.turns.choose(store::kBatch, kFour) == 1);
  a.breaker.partition_failed(1, "TRYAGAIN");
  std::set<unsigned> used;
  for (unsigned i = 0; i < kFour; ++i) used.insert(a.turns.choose(store::kBatch, kFour));
  CHECK(used.size() == kFour);
}

TEST_CASE("partition turns: fewer partitions than before are used at once") {
  Turns a;
  while (a.turns.choose(store::kBatch, kFour) != 3) continue;
  for (int i = 0; i < 3; ++i) CHECK(a.turns.choose(store::kBatch, 2) < 2);
}

TEST_CASE("partition turns: producers do not all begin with the same one") {
  std::set<unsigned> begun;
  for (int i = 0; i < 100; ++i) begun.insert(Turns().turns.choose(1, kFour));
  CHECK(begun.size() > 1);
}

}  // namespace
}  // namespace delayqueue
