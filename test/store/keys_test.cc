#include "store/keys.h"

#include <doctest/doctest.h>

#include <string>

namespace delayqueue::store {
namespace {

TEST_CASE("keys: have the names of the Go library, plus those of this library") {
  const Keys keys = make_keys("orders", {});
  CHECK(keys.base == "dp:orders");
  CHECK(keys.pending == "dp:orders:pending");
  CHECK(keys.ready == "dp:orders:ready");
  CHECK(keys.unack == "dp:orders:unack");
  CHECK(keys.retry == "dp:orders:retry");
  CHECK(keys.count == "dp:orders:retry:cnt");
  CHECK(keys.garbage == "dp:orders:garbage");
  CHECK(keys.bodies == "dp:orders:msg:");
  CHECK(keys.attempts == "dp:orders:attempts");
  CHECK(keys.reason == "dp:orders:reason");
  CHECK(keys.dead == "dp:orders:dead");
  CHECK(keys.stats == "dp:orders:stats");
  CHECK(keys.paused == "dp:orders:paused");
  CHECK(keys.wake == "dp:orders:wake");
  CHECK(keys.watch == "dp:orders:watch");
  CHECK(keys.queues == "dp:queues");
  CHECK(keys.channel == "dq:orders:reportEvents");
}

TEST_CASE("keys: all begin with the prefix, bodies too, except the channel") {
  const Keys keys = make_keys("orders", {"shop", false, false});
  for (const std::string* key : {&keys.base, &keys.pending, &keys.ready, &keys.unack, &keys.retry, &keys.count,
                                 &keys.garbage, &keys.attempts, &keys.reason, &keys.dead, &keys.stats, &keys.paused,
                                 &keys.wake, &keys.watch, &keys.lock, &keys.settings, &keys.bodies}) {
    CHECK(key->find("shop:orders") == 0);
  }
  CHECK(keys.queues == "shop:queues");
  CHECK(keys.channel == "dq:orders:reportEvents");
}

TEST_CASE("keys: with bodies_under_dp bodies are under dp: with any prefix, as in the Go library") {
  CHECK(make_keys("orders", {"shop", false, true}).bodies == "dp:orders:msg:");
  CHECK(make_keys("orders", {"shop", true, true}).bodies == "{dp:orders}:msg:");
  CHECK(make_keys("orders", {"shop", false, true}).pending == "shop:orders:pending");
}

TEST_CASE("keys: a hash tag contains prefix and queue, and all keys of a move share it") {
  const Keys keys = make_keys("orders", {"shop", true, false});
  for (const std::string* key :
       {&keys.base, &keys.pending, &keys.ready, &keys.unack, &keys.retry, &keys.count, &keys.garbage, &keys.attempts,
        &keys.reason, &keys.dead, &keys.stats, &keys.paused, &keys.wake, &keys.watch, &keys.bodies}) {
    CHECK(key->find("{shop:orders}") == 0);
  }
  CHECK(keys.bodies == "{shop:orders}:msg:");
  CHECK(keys.queues == "shop:queues");
}

TEST_CASE("keys: the name of a queue can be read from its base") {
  for (const std::string queue : {"orders", "a:b", "{x}", "dp", "dp:", "with space", "\xc3\xa4", "}"}) {
    for (const bool tag : {false, true}) {
      CAPTURE(queue);
      CHECK(queue_of(make_keys(queue, {"dp", tag, false}).base, "dp") == queue);
      CHECK(queue_of(make_keys(queue, {"shop", tag, false}).base, "shop") == queue);
    }
  }
}

TEST_CASE("keys: a base with another prefix is returned unchanged") {
  CHECK(queue_of("other:orders", "dp") == "other:orders");
  CHECK(queue_of("{other:orders}", "dp") == "{other:orders}");
  CHECK(queue_of("dporders", "dp") == "dporders");
  CHECK(queue_of("", "dp") == "");
  CHECK(queue_of("{}", "dp") == "{}");
}

}  // namespace
}  // namespace delayqueue::store
