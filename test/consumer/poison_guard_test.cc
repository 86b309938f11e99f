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
using Clock = Suspects::Clock;
using store::Places;
using store::Taken;

Places planned(const Suspects& suspects) {
  Places places{100, 0, 4};
  suspects.plan(places);
  return places;
}

// A take of what is planned: the suspects it took, how many it met, how many messages it left in retry.
void take(Suspects& suspects, const std::vector<DeliveryPtr>& deliveries, std::size_t met, std::size_t left) {
  Taken taken;
  for (const auto& one : deliveries) taken.suspects.push_back(one->message.id);
  taken.met = met;
  taken.retry_left = left;
  suspects.read(planned(suspects), taken, deliveries);
}

DeliveryPtr delivery(const std::string& id) { return std::make_shared<Delivery>(id, 2, 0, Clock::now() + 1h); }

// One in hand, and 300 others were passed over.
DeliveryPtr look_behind(Suspects& suspects) {
  const DeliveryPtr one = delivery("a");
  take(suspects, {one}, 1, 300);
  CHECK(suspects.fill_retry());
  CHECK(suspects.look_due() <= Clock::now() + 100ms);
  REQUIRE(test::eventually([&] { return !suspects.fill_retry(); }));
  CHECK_FALSE(suspects.go_on());
  take(suspects, {}, 1, 300);
  for (std::size_t left = 300; left > 0;) {
    REQUIRE(suspects.go_on());
    const Places places = planned(suspects);
    CHECK(places.suspects == 0);
    CHECK(places.pass > 0);
    CHECK(places.pass <= left);
    CHECK(places.total + places.pass <= store::kBatch);
    left -= places.pass;
    take(suspects, {}, left > 0 ? places.pass + 1 : places.pass, 300);
  }
  CHECK_FALSE(suspects.go_on());
  CHECK(suspects.fill_retry());
  return one;
}

TEST_CASE("suspects: one is taken, the next when it was handled, or has run for a lease") {
  Suspects suspects(50ms);
  CHECK(planned(suspects).suspects == 1);
  CHECK(planned(suspects).pass == 0);
  const DeliveryPtr one = delivery("a");
  take(suspects, {one}, 0, 5);
  CHECK(planned(suspects).suspects == 0);
  suspects.forget({delivery("b")});
  CHECK(planned(suspects).suspects == 0);
  suspects.forget({one});
  CHECK(planned(suspects).suspects == 1);

  const DeliveryPtr hangs = delivery("c");
  take(suspects, {hangs}, 0, 5);
  CHECK_FALSE(suspects.may_take());
  hangs->begin();
  CHECK(test::eventually([&] { return suspects.may_take(); }));
  CHECK(hangs->replace_hand());  // its lease is gone, and it runs on
  CHECK(suspects.may_take());
}

TEST_CASE("suspects: retry is passed over once, and then left alone until it grows") {
  Suspects suspects(1h);
  look_behind(suspects);
  CHECK(suspects.look_due() == Clock::time_point::max());
  suspects.retry_grew();
  CHECK(suspects.look_due() <= Clock::now() + 100ms);
}

TEST_CASE("suspects: who was handled while others were passed over is followed at once") {
  Suspects suspects(1h);
  const DeliveryPtr one = look_behind(suspects);
  suspects.forget({one});
  CHECK(suspects.go_on());
  CHECK_FALSE(suspects.fill_retry());
  CHECK(planned(suspects).suspects == 1);
  take(suspects, {delivery("b")}, 1, 299);
  CHECK_FALSE(suspects.go_on());
}

TEST_CASE("suspects: a queue that is paused, or empty again, ends the look behind them") {
  Suspects suspects(1h);
  take(suspects, {delivery("a")}, 1, 300);
  REQUIRE(test::eventually([&] { return !suspects.fill_retry(); }));
  take(suspects, {}, 1, 300);
  REQUIRE(suspects.go_on());
  take(suspects, {}, 0, 300);
  CHECK_FALSE(suspects.go_on());
  CHECK_FALSE(suspects.fill_retry());
}

}  // namespace
}  // namespace delayqueue
