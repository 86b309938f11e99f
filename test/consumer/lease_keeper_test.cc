// LeaseKeeper: renewals whose answers are lost, or that Redis refuses.
#include "consumer/lease_keeper.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "support/server.h"

namespace delayqueue {
namespace {

using Clock = LeaseKeeper::Clock;

// A LeaseKeeper with one delivery.
struct HeldDelivery {
  HeldDelivery() {
    const auto time = test::redis().cmd({"TIME"}).strings();
    const std::int64_t now_us = std::stoll(time[0]) * 1'000'000 + std::stoll(time[1]);
    delivery = std::make_shared<InFlightMessage>(
        InFlightMessage::Taken{id, nullptr, 1, 0, now_us / 1000 * 1000 + 30'000'001}, Clock::now());
    set_end(delivery->receipt_us);
    keeper.observe_clock(now_us, Clock::now());
    keeper.add(delivery);
  }

  void set_end(std::int64_t us) {
    char score[40];
    std::snprintf(score, sizeof score, "%lld.%06lld", static_cast<long long>(us / 1'000'000),
                  static_cast<long long>(us % 1'000'000));
    test::redis().cmd({"ZADD", store.keys().unack, score, id});
  }

  void renew() {
    RoundTrip round_trip(connection, kSettle);
    keeper.renew(round_trip, store);
    round_trip.send();
    round_trip.receive();
    round_trip.finish();
  }

  // Redis executes it.
  void renew_and_lose_the_answer() {
    {
      RoundTrip round_trip(connection, kSettle);
      keeper.renew(round_trip, store);
      round_trip.pipeline().run();
    }
    REQUIRE(keeper.is_unconfirmed());
  }

  bool receipt_is_right() {
    const auto renewed = std::make_unique<redis::Pipeline>(connection);
    const auto answer = store.renew(*renewed, {{id, delivery->receipt_us}}, delivery->receipt_us);
    renewed->run();
    return answer.get().outcomes == "N";
  }

  static redis::Address address() {
    redis::Address to;
    to.path = test::server().socket();
    return to;
  }

  const std::string id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  const store::Store store{store::make_keys(test::fresh_queue(), {})};
  redis::Connection connection{address(), {{}, {}, "held", 0}, {}};
  std::vector<InFlightPtr> lost{};
  LeaseKeeper keeper{milliseconds(30'000),
                     [this](const auto& some) { lost.insert(lost.end(), some.begin(), some.end()); }};
  InFlightPtr delivery;
};

TEST_CASE("renewal: after a lost answer the same renewal is sent again, and the next one follows at once") {
  HeldDelivery scene;
  CHECK(scene.keeper.renewal_due() > Clock::now());
  scene.renew_and_lose_the_answer();
  scene.renew();
  CHECK(scene.lost.empty());
  CHECK_FALSE(scene.keeper.is_unconfirmed());
  CHECK(scene.receipt_is_right());
  // It confirmed an end that was chosen earlier and may be near.
  CHECK(scene.keeper.renewal_due() <= Clock::now());
  scene.renew();
  CHECK(scene.lost.empty());
  CHECK(scene.keeper.renewal_due() > Clock::now());
}

TEST_CASE("renewal: a repeated renewal that Redis refuses stays unconfirmed") {
  HeldDelivery scene;
  scene.renew_and_lose_the_answer();
  const std::string unack = scene.store.keys().unack;
  test::redis().cmd({"RENAME", unack, unack + ":away"});
  test::redis().cmd({"SET", unack, "of a wrong type"});
  CHECK_THROWS_AS(scene.renew(), ReplyError);
  CHECK(scene.keeper.is_unconfirmed());
  test::redis().cmd({"RENAME", unack + ":away", unack});
  scene.renew();
  CHECK(scene.lost.empty());
  CHECK(scene.keeper.size() == 1);
  CHECK_FALSE(scene.delivery->lease->lost());
  CHECK(scene.receipt_is_right());
}

}  // namespace
}  // namespace delayqueue
