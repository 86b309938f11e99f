// LeaseKeeper: renewals whose answers are lost, or that Redis refuses.
#include "support/test.h"

#include "consumer/holdings.h"

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
    keeper.observe_clock(now_us, Clock::now());
    hold(delivery);
  }

  void hold(const InFlightPtr& one) {
    const std::int64_t us = one->receipt_us;
    char score[40];
    std::snprintf(score, sizeof score, "%lld.%06lld", static_cast<long long>(us / 1'000'000),
                  static_cast<long long>(us % 1'000'000));
    test::redis().cmd({"ZADD", moves.keys().unack, score, one->message.id()});
    keeper.add(one);
  }

  void renew(std::size_t most = 1000) {
    RoundTrip round_trip(connection, kSettle);
    keeper.renew(round_trip, moves, most);
    round_trip.send();
    round_trip.receive();
    round_trip.finish();
  }

  // Redis executes it.
  void renew_and_lose_the_answer() {
    {
      RoundTrip round_trip(connection, kSettle);
      keeper.renew(round_trip, moves);
      round_trip.pipeline().run();
    }
    REQUIRE(keeper.is_unconfirmed());
  }

  bool receipt_is_right() {
    const auto renewed = std::make_unique<redis::Pipeline>(connection);
    const auto answer = moves.renew(*renewed, {{id, delivery->receipt_us}}, delivery->receipt_us);
    renewed->run();
    return answer.get().outcomes == "N";
  }

  static redis::Address address() {
    redis::Address to;
    to.path = test::server().socket();
    return to;
  }

  const std::string id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  const store::Moves moves{store::make_keys(test::fresh_queue(), {})};
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
  const std::string unack = scene.moves.keys().unack;
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

TEST_CASE("renewal: many leases are renewed in parts, one directly after the other, and then all are again in time") {
  HeldDelivery scene;
  const std::int64_t before = scene.delivery->receipt_us;
  std::vector<InFlightPtr> all{scene.delivery};
  for (char digit = '0'; digit < '4'; ++digit) {
    all.push_back(std::make_shared<InFlightMessage>(
        InFlightMessage::Taken{"0197f3a4-5b6c-7d8e-9f01-00000000000" + std::string(1, digit), nullptr, 1, 0, before},
        Clock::now()));
    scene.hold(all.back());
  }
  const auto renewed = [&] {
    return std::count_if(all.begin(), all.end(), [&](const auto& one) { return one->receipt_us != before; });
  };
  scene.renew(2);
  CHECK(renewed() == 2);
  CHECK(scene.keeper.renewal_due() <= Clock::now());
  const InFlightPtr settled =
      *std::find_if(all.begin(), all.end(), [&](const auto& one) { return one->receipt_us == before; });
  scene.keeper.remove(settled);
  for (int i = 0; i < 3 && scene.keeper.renewal_due() <= Clock::now(); ++i) scene.renew(2);
  CHECK(renewed() == 4);
  CHECK(settled->receipt_us == before);
  CHECK(scene.keeper.renewal_due() > Clock::now());
  CHECK(scene.lost.empty());
  for (const InFlightPtr& one : all) {
    if (one != settled) CHECK_FALSE(one->lease->lost());
  }
}

TEST_CASE("renewal: after a lost answer to a part, that part is repeated and renewed again, and then the others") {
  HeldDelivery scene;
  const std::int64_t before = scene.delivery->receipt_us;
  const auto other = std::make_shared<InFlightMessage>(
      InFlightMessage::Taken{"0197f3a4-5b6c-7d8e-9f01-000000000001", nullptr, 1, 0, before}, Clock::now());
  scene.hold(other);
  {
    RoundTrip round_trip(scene.connection, kSettle);
    scene.keeper.renew(round_trip, scene.moves, 1);
    round_trip.pipeline().run();
  }
  REQUIRE(scene.keeper.is_unconfirmed());
  scene.renew(1);
  CHECK_FALSE(scene.keeper.is_unconfirmed());
  CHECK((scene.delivery->receipt_us == before) != (other->receipt_us == before));
  CHECK(scene.keeper.renewal_due() <= Clock::now());
  scene.renew(1);
  scene.renew(1);
  CHECK(scene.delivery->receipt_us != before);
  CHECK(other->receipt_us != before);
  CHECK(scene.keeper.renewal_due() > Clock::now());
  CHECK(scene.lost.empty());
}

}  // namespace
}  // namespace delayqueue
