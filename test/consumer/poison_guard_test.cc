// When a consumer takes suspects, and looks behind those that wait.
#include "consumer/poison_guard.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/server.h"

namespace delayqueue {
namespace {

using namespace std::chrono_literals;
using Clock = PoisonGuard::Clock;
using store::TakeLimits;
using store::Taken;

TakeLimits planned(const PoisonGuard& suspects) {
  TakeLimits limits{100, 0, 4};
  suspects.plan(limits);
  return limits;
}

// A take of what is planned: the suspects it took, how many it met, how many messages it left in retry.
void take(PoisonGuard& suspects, const std::vector<DeliveryPtr>& deliveries, std::size_t met, std::size_t left) {
  Taken taken;
  for (const auto& one : deliveries) taken.suspects.push_back(one->message.id);
  taken.met = met;
  taken.retry_left = left;
  suspects.read(planned(suspects), taken, deliveries);
}

DeliveryPtr delivery(const std::string& id) { return std::make_shared<Delivery>(id, 2, 0, Clock::now() + 1h); }

// One in worker, and 300 others were passed over.
DeliveryPtr look_behind(PoisonGuard& suspects) {
  const DeliveryPtr one = delivery("a");
  take(suspects, {one}, 1, 300);
  CHECK(suspects.blocks_retry());
  CHECK(suspects.rescan_due() <= Clock::now() + 100ms);
  REQUIRE(test::eventually([&] { return !suspects.blocks_retry(); }));
  CHECK_FALSE(suspects.should_rescan());
  take(suspects, {}, 1, 300);
  for (std::size_t left = 300; left > 0;) {
    REQUIRE(suspects.should_rescan());
    const TakeLimits limits = planned(suspects);
    CHECK(limits.poison_max == 0);
    CHECK(limits.poison_skip > 0);
    CHECK(limits.poison_skip <= left);
    CHECK(limits.total + limits.poison_skip <= store::kBatch);
    left -= limits.poison_skip;
    take(suspects, {}, left > 0 ? limits.poison_skip + 1 : limits.poison_skip, 300);
  }
  CHECK_FALSE(suspects.should_rescan());
  CHECK(suspects.blocks_retry());
  return one;
}

TEST_CASE("suspects: one is taken, the next when it was handled, or has run for a lease") {
  PoisonGuard suspects(50ms);
  CHECK(planned(suspects).poison_max == 1);
  CHECK(planned(suspects).poison_skip == 0);
  const DeliveryPtr one = delivery("a");
  take(suspects, {one}, 0, 5);
  CHECK(planned(suspects).poison_max == 0);
  suspects.forget({delivery("b")});
  CHECK(planned(suspects).poison_max == 0);
  suspects.forget({one});
  CHECK(planned(suspects).poison_max == 1);

  const DeliveryPtr hangs = delivery("c");
  take(suspects, {hangs}, 0, 5);
  CHECK_FALSE(suspects.may_take());
  hangs->begin();
  CHECK(test::eventually([&] { return suspects.may_take(); }));
  CHECK(hangs->replace_worker());  // its lease is gone, and it runs on
  CHECK(suspects.may_take());
}

TEST_CASE("suspects: retry is passed over once, and then left alone until it grows") {
  PoisonGuard suspects(1h);
  look_behind(suspects);
  CHECK(suspects.rescan_due() == Clock::time_point::max());
  suspects.retry_grew();
  CHECK(suspects.rescan_due() <= Clock::now() + 100ms);
}

TEST_CASE("suspects: who was handled while others were passed over is followed at once") {
  PoisonGuard suspects(1h);
  const DeliveryPtr one = look_behind(suspects);
  suspects.forget({one});
  CHECK(suspects.should_rescan());
  CHECK_FALSE(suspects.blocks_retry());
  CHECK(planned(suspects).poison_max == 1);
  take(suspects, {delivery("b")}, 1, 299);
  CHECK_FALSE(suspects.should_rescan());
}

TEST_CASE("suspects: a queue that is paused, or empty again, ends the look behind them") {
  PoisonGuard suspects(1h);
  take(suspects, {delivery("a")}, 1, 300);
  REQUIRE(test::eventually([&] { return !suspects.blocks_retry(); }));
  take(suspects, {}, 1, 300);
  REQUIRE(suspects.should_rescan());
  take(suspects, {}, 0, 300);
  CHECK_FALSE(suspects.should_rescan());
  CHECK_FALSE(suspects.blocks_retry());
}

}  // namespace
}  // namespace delayqueue
