// When a consumer takes possible poison messages, and when it scans retry behind them.
#include "support/test.h"

#include "consumer/intake.h"

namespace delayqueue {
namespace {

using Clock = PoisonGuard::Clock;
using store::TakeLimits;
using store::Taken;

// The plan of a lane with this guard, which has four free workers. `takes`: it may take now.
planning::Plan plan_with(const PoisonGuard& guard, bool takes) {
  planning::Snapshot snapshot;
  snapshot.limits = {4, 0, guard.may_take()};
  snapshot.queues.resize(1);
  snapshot.queues[0].limit = snapshot.queues[0].load.idle = 4;
  snapshot.servers.resize(1);
  planning::LaneView& lane = snapshot.lanes.emplace_back();
  lane.retry_left = 300;
  lane.may_send = takes;
  guard.describe(lane);
  return planning::plan(snapshot, run::Turns({1})).plan;
}

TakeLimits planned(const PoisonGuard& guard) {
  const std::vector<planning::Take> takes = plan_with(guard, true).takes;
  return takes.empty() ? TakeLimits{0, 0, 0, 0} : takes[0].first;
}

// Whether another take is to follow at once.
bool goes_on(const PoisonGuard& guard) { return plan_with(guard, false).goes_on[0]; }

// Reads the answer of a take with the planned limits: the possible poison messages it took, how many further ones
// it found, and how many messages it left in retry.
void take(PoisonGuard& guard, const std::vector<InFlightPtr>& deliveries, std::size_t further_poison,
          std::size_t left) {
  Taken taken;
  for (const auto& one : deliveries) taken.possible_poison.push_back(one->message.id());
  taken.further_poison = further_poison;
  taken.retry_left = left;
  guard.read(planned(guard), taken, deliveries);
}

InFlightPtr delivery(const std::string& id) {
  return std::make_shared<InFlightMessage>(InFlightMessage::Taken{id, nullptr, 2, 0, 0}, Clock::now() + 1h);
}

// A handler runs one possible poison message, and the scan has skipped 300 others.
InFlightPtr scan_retry(PoisonGuard& guard) {
  const InFlightPtr one = delivery("a");
  take(guard, {one}, 1, 300);
  CHECK(guard.blocks_retry());
  CHECK(guard.rescan_due() <= Clock::now() + 100ms);
  REQUIRE(test::eventually([&] { return !guard.blocks_retry(); }));
  CHECK_FALSE(goes_on(guard));
  take(guard, {}, 1, 300);
  for (std::size_t left = 300; left > 0;) {
    REQUIRE(goes_on(guard));
    const TakeLimits limits = planned(guard);
    CHECK(limits.poison_max == 0);
    CHECK(limits.poison_skip > 0);
    CHECK(limits.poison_skip <= left);
    CHECK(limits.total + limits.poison_skip <= store::kBatch);
    left -= limits.poison_skip;
    take(guard, {}, left > 0 ? limits.poison_skip + 1 : limits.poison_skip, 300);
  }
  CHECK_FALSE(goes_on(guard));
  CHECK(guard.blocks_retry());
  return one;
}

TEST_CASE("poison guard: it takes the next possible poison message once the last was handled or has run for a lease") {
  PoisonRuns runs;
  PoisonGuard guard(50ms, runs);
  CHECK(planned(guard).poison_max == 1);
  CHECK(planned(guard).poison_skip == 0);
  const InFlightPtr one = delivery("a");
  take(guard, {one}, 0, 5);
  CHECK(planned(guard).poison_max == 0);
  guard.remove({delivery("b")});
  CHECK(planned(guard).poison_max == 0);
  guard.remove({one});
  CHECK(planned(guard).poison_max == 1);

  const InFlightPtr hangs = delivery("c");
  take(guard, {hangs}, 0, 5);
  CHECK_FALSE(guard.may_take());
  hangs->begin();
  CHECK(test::eventually([&] { return guard.may_take(); }));
  CHECK(hangs->lose_place());  // its lease is lost, its handler still runs
  CHECK(hangs->replace_worker());
  CHECK(guard.may_take());
}

TEST_CASE("poison guard: it scans retry once, and then not again until retry grows") {
  PoisonRuns runs;
  PoisonGuard guard(1h, runs);
  scan_retry(guard);
  CHECK(guard.rescan_due() == Clock::time_point::max());
  guard.retry_grew();
  CHECK(guard.rescan_due() <= Clock::now() + 100ms);
}

TEST_CASE("poison guard: a message handled during the scan is followed by the next one at once") {
  PoisonRuns runs;
  PoisonGuard guard(1h, runs);
  const InFlightPtr one = scan_retry(guard);
  guard.remove({one});
  CHECK(goes_on(guard));
  CHECK_FALSE(guard.blocks_retry());
  CHECK(planned(guard).poison_max == 1);
  take(guard, {delivery("b")}, 1, 299);
  CHECK_FALSE(goes_on(guard));
}

TEST_CASE("poison guard: a paused queue ends the scan, and so does an empty one") {
  PoisonRuns runs;
  PoisonGuard guard(1h, runs);
  take(guard, {delivery("a")}, 1, 300);
  REQUIRE(test::eventually([&] { return !guard.blocks_retry(); }));
  take(guard, {}, 1, 300);
  REQUIRE(goes_on(guard));
  take(guard, {}, 0, 300);
  CHECK_FALSE(goes_on(guard));
  CHECK_FALSE(guard.blocks_retry());
}

TEST_CASE("poison guard: of several queues in one consumer, only one runs a possible poison message") {
  PoisonRuns runs;
  PoisonGuard one(50ms, runs), other(50ms, runs);
  const TakeLimits limits = planned(one);
  REQUIRE(limits.poison_max == 1);
  one.sent(limits);
  CHECK(planned(other).poison_max == 0);  // the take of `one` may return one
  one.ended();
  CHECK(planned(other).poison_max == 1);
  const InFlightPtr running = delivery("a");
  take(one, {running}, 0, 0);
  CHECK(planned(other).poison_max == 0);
  running->begin();
  CHECK(test::eventually([&] { return planned(other).poison_max == 1; }));  // after a lease
  const InFlightPtr next = delivery("b");
  take(other, {next}, 0, 0);
  CHECK(planned(one).poison_max == 0);
  other.remove({next});
  CHECK(planned(one).poison_max == 1);
}

}  // namespace
}  // namespace delayqueue
