#include "support/test.h"

#include "redis/slot.h"
#include "store/keys.h"

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
  CHECK(keys.headers == "dp:orders:headers");
  CHECK(keys.dead == "dp:orders:dead");
  CHECK(keys.stats == "dp:orders:stats");
  CHECK(keys.paused == "dp:orders:paused");
  CHECK(keys.wake == "dp:orders:wake");
  CHECK(keys.watch == "dp:orders:watch");
  CHECK(keys.wakes == "dp:orders:wakes");
  CHECK(keys.limits == "dp:orders:limits");
  CHECK(keys.running == "dp:orders:running");
  CHECK(keys.unique == "dp:orders:unique");
  CHECK(keys.keys == "dp:orders:keys");
  CHECK(keys.schedules == "dp:orders:schedules");
  CHECK(keys.slots == "dp:orders:schedules:next");
  CHECK(keys.open == "dp:orders:schedules:open");
  CHECK(keys.consumers == "dp:orders:consumers");
  CHECK(keys.actions == "dp:orders:actions");
  CHECK(keys.queues == "dp:queues");
  CHECK(keys.channel == "dq:orders:reportEvents");
}

TEST_CASE("keys: all begin with the prefix, bodies too, except the channel") {
  const Keys keys = make_keys("orders", {"shop", false, false});
  for (const std::string* key :
       {&keys.base,    &keys.pending,  &keys.ready,  &keys.unack,   &keys.retry,    &keys.count,
        &keys.garbage, &keys.attempts, &keys.reason, &keys.headers, &keys.dead,     &keys.stats,
        &keys.paused,  &keys.wake,     &keys.watch,  &keys.lock,    &keys.settings, &keys.limits,
        &keys.running, &keys.unique,   &keys.keys,   &keys.actions, &keys.bodies}) {
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
       {&keys.base,     &keys.pending, &keys.ready,   &keys.unack,  &keys.retry, &keys.count,   &keys.garbage,
        &keys.attempts, &keys.reason,  &keys.headers, &keys.dead,   &keys.stats, &keys.paused,  &keys.wake,
        &keys.watch,    &keys.limits,  &keys.running, &keys.unique, &keys.keys,  &keys.actions, &keys.bodies}) {
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

// ---- Partitions ----

unsigned slot_of_base(const std::string& base) {
  REQUIRE(base.front() == '{');
  REQUIRE(base.find('}') == base.size() - 1);
  return redis::crc16(base.substr(1, base.size() - 2)) % redis::kSlots;
}

std::vector<std::string> names() {
  std::vector<std::string> names = {"orders", "mails", "a", "shop:payments:eu", "with space"};
  for (int i = 0; i < 55; ++i) names.push_back("queue" + std::to_string(i));
  return names;
}

// The slots of all partitions that a queue can have.
std::vector<unsigned> slots_of(const std::string& queue) {
  std::vector<unsigned> slots;
  for (unsigned k = 0; k < kMostPartitions; ++k) {
    slots.push_back(slot_of_base(make_keys(queue, {"dp", true, false}, k).base));
  }
  return slots;
}

// The most partitions on one master against the mean, if `masters` share the slots evenly.
double most_against_mean(const std::vector<unsigned>& slots, unsigned partitions, unsigned masters) {
  std::vector<unsigned> counts(masters);
  for (unsigned k = 0; k < partitions; ++k) ++counts[slots[k] * masters / redis::kSlots];
  return static_cast<double>(*std::max_element(counts.begin(), counts.end())) * masters / partitions;
}

TEST_CASE("partitions: have these names, with and without a hash tag in partition 0, which is the queue") {
  const auto base = [](const std::string& queue, const std::string& prefix, unsigned partition) {
    const std::string tagged = make_keys(queue, {prefix, true, false}, partition).base;
    if (partition > 0) CHECK(make_keys(queue, {prefix, false, false}, partition).base == tagged);
    return tagged;
  };
  CHECK(base("orders", "dp", 0) == "{dp:orders}");
  CHECK(base("orders", "dp", 1) == "{dp:orders#1.88}");
  CHECK(base("orders", "dp", 2) == "{dp:orders#2.13}");
  CHECK(base("orders", "dp", 3) == "{dp:orders#3.367}");
  CHECK(base("orders", "dp", 4) == "{dp:orders#4.401}");
  CHECK(base("orders", "dp", 255) == "{dp:orders#255.232}");
  CHECK(base("orders", "shop", 1).rfind("{shop:orders#1.", 0) == 0);
}

TEST_CASE("partitions: all keys of one share its hash tag; the list of queues and the channel are the queue's") {
  const Keys keys = make_keys("orders", {"shop", false, false}, 5);
  for (const std::string* key :
       {&keys.pending,  &keys.ready,  &keys.unack,   &keys.retry,    &keys.count,  &keys.garbage,
        &keys.attempts, &keys.reason, &keys.headers, &keys.dead,     &keys.stats,  &keys.paused,
        &keys.wake,     &keys.watch,  &keys.lock,    &keys.settings, &keys.limits, &keys.running,
        &keys.unique,   &keys.keys,   &keys.actions, &keys.bodies,   &keys.staged}) {
    CHECK(key->rfind(keys.base + ":", 0) == 0);
  }
  CHECK(keys.bodies == keys.base + ":msg:");
  CHECK(keys.queues == "shop:queues");
  CHECK(keys.channel == "dq:orders:reportEvents");
}

TEST_CASE("partitions: each is within 32 slots of its place, and more partitions move none") {
  for (const std::string& queue : names()) {
    CAPTURE(queue);
    const std::vector<unsigned> slots = slots_of(queue);
    const auto past_home = [&](unsigned k) { return (slots[k] + redis::kSlots + 32 - slots[0]) % redis::kSlots; };
    // For every p the first p partitions have one place in each p-th part of the ring.
    for (unsigned p = 1; p < kMostPartitions; p *= 2) {
      const unsigned part = redis::kSlots / p;
      std::set<unsigned> places;
      for (unsigned k = 0; k < p; ++k) {
        CHECK(past_home(k) % part <= 64);
        places.insert(past_home(k) / part);
      }
      CHECK(places.size() == p);
    }
    std::set<unsigned> between;  // the other half of 256 partitions
    for (unsigned k = kMostPartitions / 2; k < kMostPartitions; ++k) {
      CHECK((past_home(k) + 64) % 128 <= 64);
      between.insert((past_home(k) + 64) % redis::kSlots / 128);
    }
    CHECK(between.size() == kMostPartitions / 2);
  }
}

TEST_CASE("partitions: 32 and 64 of them spread evenly over the masters of a Cluster") {
  struct Spread {
    unsigned masters;
    double most_of_32;
    double most_of_64;
  };
  const Spread spreads[] = {{2, 1.07, 1.04}, {3, 1.04, 1.04}, {4, 1.13, 1.07},
                            {5, 1.10, 1.02}, {6, 1.13, 1.04}, {8, 1.25, 1.13}};
  for (const std::string& queue : names()) {
    CAPTURE(queue);
    const std::vector<unsigned> slots = slots_of(queue);
    for (const Spread& spread : spreads) {
      CAPTURE(spread.masters);
      CHECK(most_against_mean(slots, 32, spread.masters) <= spread.most_of_32);
      CHECK(most_against_mean(slots, 64, spread.masters) <= spread.most_of_64);
    }
  }
}

TEST_CASE("partitions: a name is found after about 210 numbers on average, and always") {
  std::size_t tries = 0, found = 0;
  for (const std::string& queue : names()) {
    for (unsigned k = 1; k < kMostPartitions; ++k, ++found) {
      const std::string base = make_keys(queue, {}, k).base;
      tries += std::stoul(base.substr(base.rfind('.') + 1)) + 1;
    }
  }
  const double mean = static_cast<double>(tries) / static_cast<double>(found);
  CHECK(mean > 190);
  CHECK(mean < 230);
  // What precedes a number of six digits only permutes the slots, since the CRC is linear.
  std::set<unsigned> reached;
  for (int s = 100'000; s < 1'000'000; ++s) reached.insert(redis::crc16(std::to_string(s)) % redis::kSlots);
  CHECK(reached.size() == redis::kSlots);
}

TEST_CASE("partitions: there are at most 256, and one only with bodies under dp:") {
  CHECK_THROWS_WITH_AS(make_keys("orders", {}, 256), "partition: 256; expected 0 to 255", std::invalid_argument);
  CHECK_THROWS_AS(make_keys("orders", {"dp", false, true}, 1), std::invalid_argument);
  CHECK(make_keys("orders", {"dp", false, true}, 0).base == "dp:orders");
}

TEST_CASE("partitions: names of queues that end like those of partitions are told apart") {
  for (const std::string queue : {"orders#1.83", "#0.0", "a#b#12.345", "#1.2#3.4"}) CHECK(is_partition_name(queue));
  for (const std::string queue : {"orders", "orders#1", "orders1.83", "orders#1.", "orders#.83", "orders#1.83x", "v1.2",
                                  "orders#x1.83", "orders#1.83 ", "#.", "1.2", ""}) {
    CHECK_FALSE(is_partition_name(queue));
  }
  for (unsigned k = 1; k < kMostPartitions; ++k) {
    CHECK(is_partition_name(queue_of(make_keys("orders", {}, k).base, "dp")));
  }
}

}  // namespace
}  // namespace delayqueue::store
