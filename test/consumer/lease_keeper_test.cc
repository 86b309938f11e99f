// Renewals whose answers get lost, or are refused.
#include "consumer/lease_keeper.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "support/server.h"

namespace delayqueue {
namespace {

using Clock = LeaseKeeper::Clock;

// One message in a consumer's workers.
struct Scene {
  Scene() {
    const auto time = test::redis().cmd({"TIME"}).strings();
    const std::int64_t now_us = std::stoll(time[0]) * 1'000'000 + std::stoll(time[1]);
    delivery = std::make_shared<Delivery>(id, 1, now_us / 1000 * 1000 + 30'000'001, Clock::now());
    set_end(delivery->receipt_us);
    held.observe_clock(now_us, Clock::now());
    held.add(delivery);
  }

  void set_end(std::int64_t us) {
    char score[40];
    std::snprintf(score, sizeof score, "%lld.%06lld", static_cast<long long>(us / 1'000'000),
                  static_cast<long long>(us % 1'000'000));
    test::redis().cmd({"ZADD", store.keys().unack, score, id});
  }

  // Sends a renewal; its answer is in `pipeline`, and LeaseKeeper still waits for it.
  void renew() {
    pipeline = std::make_unique<redis::Pipeline>(connection);
    held.renew(*pipeline, store);
    pipeline->run();
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
  LeaseKeeper held{milliseconds(30'000)};
  DeliveryPtr delivery;
  std::unique_ptr<redis::Pipeline> pipeline;
};

TEST_CASE("renewal: one whose answer was lost is repeated as it was, and the next follows at once") {
  Scene scene;
  CHECK(scene.held.renewal_due() > Clock::now());
  scene.renew();
  REQUIRE(scene.held.is_unconfirmed());  // nobody read the answer
  scene.renew();
  CHECK(scene.held.read_renewals().empty());
  CHECK_FALSE(scene.held.is_unconfirmed());
  CHECK(scene.receipt_is_right());
  // It confirmed an end chosen earlier, of which much may have passed.
  CHECK(scene.held.renewal_due() <= Clock::now());
  scene.renew();
  CHECK(scene.held.read_renewals().empty());
  CHECK(scene.held.renewal_due() > Clock::now());
}

TEST_CASE("renewal: one that was repeated and refused is not forgotten") {
  Scene scene;
  scene.renew();  // it ran; its answer is lost
  const std::string unack = scene.store.keys().unack;
  test::redis().cmd({"RENAME", unack, unack + ":away"});
  test::redis().cmd({"SET", unack, "of a wrong type"});
  scene.renew();
  CHECK_THROWS_AS(scene.held.read_renewals(), ReplyError);
  CHECK(scene.held.is_unconfirmed());
  test::redis().cmd({"RENAME", unack + ":away", unack});
  scene.renew();
  CHECK(scene.held.read_renewals().empty());
  CHECK(scene.held.size() == 1);
  CHECK_FALSE(scene.delivery->lease->lost());
  CHECK(scene.receipt_is_right());
}

}  // namespace
}  // namespace delayqueue
