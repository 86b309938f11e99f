// Turns: members that have work are served in proportion to their weights.
#include "support/test.h"

#include "run/turns.h"

namespace delayqueue::run {
namespace {

// Serves `times` members, one unit each, and returns how often each was served. All members have work.
std::vector<std::size_t> serve(Turns& turns, std::size_t times, const std::vector<bool>& busy) {
  std::vector<std::size_t> served(turns.size(), 0);
  for (std::size_t i = 0; i < turns.size(); ++i) turns.set_busy(i, busy[i]);
  for (std::size_t i = 0; i < times; ++i) {
    const std::size_t next = turns.next([&](std::size_t member) { return busy[member]; });
    REQUIRE(next < turns.size());
    turns.serve(next);
    ++served[next];
  }
  return served;
}

TEST_CASE("turns: members with the weights 6, 3 and 1 are served 6, 3 and 1 times in ten") {
  Turns turns({6, 3, 1});
  for (int round = 0; round < 100; ++round) {
    CHECK(serve(turns, 10, {true, true, true}) == std::vector<std::size_t>{6, 3, 1});
  }
}

TEST_CASE("turns: large services count as much as many small ones") {
  Turns turns({1, 1});
  serve(turns, 2, {true, true});
  turns.serve(0, 100);
  CHECK(serve(turns, 100, {true, true}) == std::vector<std::size_t>{0, 100});
  CHECK(serve(turns, 10, {true, true}) == std::vector<std::size_t>{5, 5});
}

TEST_CASE("turns: a member that had no work gains nothing by that") {
  Turns turns({1, 1, 1});
  serve(turns, 900, {true, true, false});
  CHECK(serve(turns, 9, {true, true, true}) == std::vector<std::size_t>{3, 3, 3});
}

TEST_CASE("turns: a member that was served alone loses nothing") {
  Turns turns({1, 1});
  serve(turns, 1000, {true, false});
  CHECK(serve(turns, 10, {false, true}) == std::vector<std::size_t>{0, 10});
  CHECK(serve(turns, 10, {true, true}) == std::vector<std::size_t>{5, 5});
}

TEST_CASE("turns: a member that is far behind another one catches up only so much as the limit allows") {
  Turns turns({1, 1});
  serve(turns, 2, {true, true});
  turns.serve(0, 1000);
  turns.limit_lag(0, 10);
  CHECK(serve(turns, 20, {true, true}) == std::vector<std::size_t>{5, 15});
  turns.serve(0, 10);
  turns.limit_lag(0, 10);
  CHECK(serve(turns, 20, {true, true}) == std::vector<std::size_t>{5, 15});
}

TEST_CASE("turns: with strict priorities the highest weight goes first, and equal weights take turns") {
  Turns turns({1, 5, 5}, true);
  CHECK(serve(turns, 10, {true, true, true}) == std::vector<std::size_t>{0, 5, 5});
  CHECK(serve(turns, 10, {true, false, true}) == std::vector<std::size_t>{0, 0, 10});
  CHECK(serve(turns, 10, {true, false, false}) == std::vector<std::size_t>{10, 0, 0});
}

TEST_CASE("turns: no member may be next") {
  const Turns turns({1, 2});
  CHECK(turns.next([](std::size_t) { return false; }) == turns.size());
}

}  // namespace
}  // namespace delayqueue::run
