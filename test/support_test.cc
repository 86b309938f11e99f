// What the tests of faults and topologies stand on: does it do what it says?
#include <doctest/doctest.h>

#include "support/cluster.h"
#include "support/sentinels.h"

namespace test {
namespace {

TEST_CASE("a Sentinel trio") {
  Sentinels sentinels;
  Node& first = sentinels.master();
  CHECK(&first == &sentinels.node(0));
  CHECK(first.cmd({"SET", "key", "value"}) == "OK");
  Node& second = sentinels.failover();
  CHECK(&second != &first);
  CHECK(&sentinels.master() == &second);
  CHECK(second.cmd({"GET", "key"}) == "value");
}

TEST_CASE("a Cluster") {
  Cluster cluster;
  Node& first = cluster.owner("key");
  CHECK(first.cmd({"SET", "key", "value"}) == "OK");
  Node& second = cluster.failover("key");
  CHECK(&second != &first);
  CHECK(second.cmd({"GET", "key"}) == "value");
}

}  // namespace
}  // namespace test
