// SharedCapacity: how many messages each lane may take, computed from what all lanes use.
#include "support/test.h"

#include "consumer/shared_capacity.h"

namespace delayqueue {
namespace {

using LaneUse = SharedCapacity::LaneUse;
using Places = std::vector<std::size_t>;  // of each lane

run::WorkerLoad load_with(std::size_t idle, std::size_t waiting = 0, std::size_t running = 0) {
  run::WorkerLoad load;
  load.idle = idle;
  load.waiting = waiting;
  load.running = running;
  return load;
}

// One lane for each queue, with so many idle workers and places. All queues have work.
SharedCapacity idle_capacity(const std::vector<unsigned>& weights, bool strict = false, std::size_t idle = 10) {
  SharedCapacity capacity(weights, idle, 0, strict);
  for (std::size_t line = 0; line < weights.size(); ++line) capacity.add_lane(line);
  capacity.set(std::vector<run::WorkerLoad>(weights.size(), load_with(idle)), std::vector<LaneUse>(weights.size()));
  capacity.set_busy(std::vector<bool>(weights.size(), true));
  return capacity;
}

// One queue with three lanes and ten places.
SharedCapacity lanes_of_one_queue() {
  SharedCapacity capacity({1}, 10, 0, false);
  for (int lane = 0; lane < 3; ++lane) capacity.add_lane(0);
  capacity.set({load_with(10)}, std::vector<LaneUse>(3));
  capacity.set_busy({true});
  return capacity;
}

TEST_CASE("capacity: queues with the weights 6, 3 and 1 get 6, 3 and 1 of ten places") {
  const SharedCapacity capacity = idle_capacity({6, 3, 1});
  CHECK(capacity.divide({{0, 10, true}, {1, 10, true}, {2, 10, true}}) == Places{6, 3, 1});
}

TEST_CASE("capacity: places that a queue has no room for are for the others") {
  const SharedCapacity capacity = idle_capacity({6, 3, 1});
  CHECK(capacity.divide({{0, 2, true}, {1, 10, true}, {2, 10, true}}) == Places{2, 6, 2});
  CHECK(capacity.divide({{2, 10, true}}) == Places{0, 0, 10});
}

TEST_CASE("capacity: a queue that could take nothing for long catches up, but does not take all places for as long") {
  SharedCapacity capacity = idle_capacity({1, 1});
  const std::vector<SharedCapacity::Wish> wishes = {{0, 10, true}, {1, 10, true}};
  capacity.served(1, 1'000'000);
  CHECK(capacity.divide(wishes) == Places{10, 0});
  for (int i = 0; i < 4; ++i) capacity.served(0, 10);
  CHECK(capacity.divide(wishes) == Places{5, 5});
}

TEST_CASE("capacity: with strict priorities the queue of the highest weight is first") {
  const SharedCapacity capacity = idle_capacity({1, 2}, true);
  CHECK(capacity.divide({{0, 10, true}, {1, 10, true}}) == Places{0, 10});
  CHECK(capacity.divide({{0, 10, true}, {1, 4, true}}) == Places{6, 4});
}

TEST_CASE("capacity: queues that have messages are before those that look for some") {
  const SharedCapacity capacity = idle_capacity({1, 1000});
  CHECK(capacity.divide({{0, 4, true}, {1, 10, false}}) == Places{4, 6});
  CHECK(capacity.divide({{0, 10, true}, {1, 10, false}}) == Places{10, 0});
}

TEST_CASE("capacity: of a hundred queues with messages some get 50 of 1,000 places each, and then the others") {
  SharedCapacity capacity = idle_capacity(std::vector<unsigned>(100, 1), false, 1000);
  std::vector<SharedCapacity::Wish> wishes;
  for (std::size_t lane = 0; lane < 100; ++lane) wishes.push_back({lane, 200, true});
  Places all(100, 0);
  for (int round = 0; round < 5; ++round) {
    const Places places = capacity.divide(wishes);
    CHECK(std::count(places.begin(), places.end(), 50) == 20);
    for (std::size_t lane = 0; lane < 100; ++lane) {
      capacity.served(lane, places[lane]);
      all[lane] += places[lane];
    }
  }
  CHECK(all == Places(100, 50));
}

TEST_CASE("capacity: few places, which slow handlers leave, are divided among the queues that have messages") {
  const SharedCapacity capacity = idle_capacity(std::vector<unsigned>(8, 1), false, 16);
  std::vector<SharedCapacity::Wish> wishes;
  for (std::size_t lane = 0; lane < 8; ++lane) wishes.push_back({lane, 200, true});
  CHECK(capacity.divide(wishes) == Places(8, 2));
}

TEST_CASE("capacity: of many places one is kept for each lane that looks for messages") {
  const SharedCapacity capacity = idle_capacity({1, 1, 1}, false, 160);
  CHECK(capacity.divide({{0, 200, true}, {1, 10, false}, {2, 10, false}}) == Places{158, 1, 1});
}

TEST_CASE("capacity: the bound of prefetched messages is multiplied by the number of servers") {
  SharedCapacity capacity({1}, 10, 100, false);
  std::vector<LaneUse> uses(6);
  for (LaneUse& use : uses) {
    capacity.add_lane(0);
    use.prefetch = 100;
  }
  capacity.set({load_with(10)}, uses, 3);
  CHECK(capacity.places() == 310);
  CHECK(capacity.share_of(0).prefetch == 300);
}

TEST_CASE("capacity: a queue's places go to the lane whose turn it is; lanes that look for messages share them") {
  const SharedCapacity capacity = lanes_of_one_queue();
  CHECK(capacity.divide({{1, 10, true}, {2, 10, true}, {0, 10, true}}) == Places{0, 10, 0});
  CHECK(capacity.divide({{1, 10, false}, {2, 10, false}, {0, 10, false}}) == Places{4, 3, 3});
}

TEST_CASE("capacity: a lane gets places for the messages that it is expected to have; the next one gets the others") {
  const SharedCapacity capacity = lanes_of_one_queue();
  CHECK(capacity.divide({{1, 10, true, 1}, {2, 10, true, 4}, {0, 10, true}}) == Places{5, 1, 4});
  CHECK(capacity.divide({{1, 10, true, 1}, {2, 10, true, 2}}) == Places{0, 1, 2});
}

TEST_CASE("capacity: of four or more lanes one that looks for messages gets at most a quarter of the places") {
  SharedCapacity capacity({1}, 10, 0, false);
  for (int lane = 0; lane < 4; ++lane) capacity.add_lane(0);
  capacity.set({load_with(10)}, std::vector<LaneUse>(4));
  CHECK(capacity.divide({{2, 10, false}}) == Places{0, 0, 3, 0});
}

TEST_CASE("capacity: what many partitions prefetch adds up, though each handles a message now and then only") {
  SharedCapacity capacity({1}, 1, 100, false);
  std::vector<LaneUse> uses(32);
  for (LaneUse& use : uses) {
    capacity.add_lane(0);
    use.prefetch = 0.25;
  }
  capacity.set({load_with(1)}, uses);
  CHECK(capacity.places() == 9);
}

TEST_CASE("capacity: the servers of a queue hold equal parts, also while one of them is slow to answer") {
  const int servers[2] = {};
  SharedCapacity capacity({1}, 12, 0, false);
  for (int lane = 0; lane < 4; ++lane) capacity.add_lane(0);
  std::vector<LaneUse> uses(4);
  for (std::size_t lane = 0; lane < 4; ++lane) uses[lane].server = &servers[lane % 2];
  capacity.set({load_with(12)}, uses);
  capacity.set_busy({true});
  CHECK(capacity.divide({{0, 12, true}, {1, 12, true}, {2, 12, true}, {3, 12, true}}) == Places{6, 6, 0, 0});
  CHECK(capacity.divide({{2, 4, true}, {0, 12, true}, {1, 12, true}}) == Places{2, 6, 4, 0});
  CHECK(capacity.divide({{0, 12, true}}) == Places{12, 0, 0, 0});

  uses[1].held = 6;  // its take is under way
  capacity.set({load_with(12)}, uses);
  CHECK(capacity.divide({{0, 12, true}}) == Places{6, 0, 0, 0});
  uses[0].held = 4;
  capacity.set({load_with(12)}, uses);
  CHECK(capacity.divide({{2, 12, true}}) == Places{0, 0, 2, 0});
}

TEST_CASE("capacity: messages that may still come take places; those beyond the bound are the excess") {
  SharedCapacity capacity = idle_capacity({1, 1});
  CHECK(capacity.places() == 10);
  LaneUse use;
  use.held = 7;
  capacity.grow(0, use);
  CHECK(capacity.places() == 3);
  CHECK(capacity.divide({{1, 10, true}}) == Places{0, 3});
  use.held = 12;
  capacity.grow(0, use);
  CHECK(capacity.places() == 0);
  CHECK(capacity.excess() == 2);
  CHECK(capacity.divide({{1, 10, true}}) == Places{0, 0});
}

TEST_CASE("capacity: while messages of others wait in all places, a queue without one gets a place, at any turn") {
  SharedCapacity capacity({1, 1}, 2, 0, false);
  capacity.add_lane(0);
  capacity.add_lane(1);
  const auto update = [&](const run::WorkerLoad& other) { capacity.set({load_with(0, 3, 2), other}, {{}, {}}); };
  update(load_with(0));
  CHECK(capacity.places() == 0);
  CHECK(capacity.share_of(0).room == 0);
  CHECK(capacity.share_of(1).room == 1);
  CHECK(capacity.divide({{0, 10, true}, {1, 10, true}}) == Places{0, 1});

  update(load_with(0, 1));  // it has one
  CHECK(capacity.share_of(1).room == 0);

  capacity.set_busy({true, true});
  capacity.served(1, 1'000);  // the other one has taken less, but all its messages wait for slow handlers
  update(load_with(0));
  CHECK(capacity.share_of(1).room == 1);
  CHECK(capacity.divide({{0, 10, true}, {1, 10, true}}) == Places{0, 1});
}

TEST_CASE("capacity: while there are free places, they are divided by the turns only") {
  SharedCapacity capacity({1, 1}, 2, 3, false);
  capacity.add_lane(0);
  capacity.add_lane(1);
  std::vector<LaneUse> uses(2);
  uses[0].prefetch = 3;
  capacity.set({load_with(0, 2, 2), load_with(0)}, uses);
  capacity.set_busy({true, true});
  capacity.served(1, 1'000);
  CHECK(capacity.places() == 1);
  CHECK(capacity.divide({{0, 10, true}, {1, 10, true}}) == Places{1, 0});
}

TEST_CASE("capacity: the share of a lane counts what the other lanes of its queue and the other queues use") {
  SharedCapacity capacity({1, 1}, 8, 4, false);
  for (const std::size_t line : {0, 0, 1}) capacity.add_lane(line);
  capacity.set({load_with(5, 1, 2), load_with(5)}, {{3, 1, 2, false}, {2, 1, 1, true}, {1, 1, 4, false}});
  CHECK(capacity.places() == 2);  // 2 running, 5 idle workers, 4 to prefetch; 9 are held

  const WorkerShare first = capacity.share_of(0);
  CHECK(first.load.waiting == 1);
  CHECK(first.prefetch == 3);
  CHECK(first.room == 2);
  CHECK(first.claimed == 1);
  CHECK(first.siblings == 2);
  CHECK(first.siblings_claimed == 1);
  CHECK(first.has_others);
  CHECK(first.redelivers);

  CHECK_FALSE(capacity.share_of(1).redelivers);  // its own message does not count
  CHECK(capacity.share_of(2).prefetch == 4);
  CHECK(capacity.share_of(2).claimed == 3);
  CHECK(capacity.share_of(2).siblings == 0);
}

}  // namespace
}  // namespace delayqueue
