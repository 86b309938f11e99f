// plan(): the rules by which the lanes of a consumer take messages, each on a small snapshot; and what holds for every
// plan, on random snapshots.
#include "support/test.h"

#include "consumer/plan.h"
#include "store/scripts.h"

#include "support/seeds.h"

namespace delayqueue::planning {
namespace {

using run::minus;
using Places = std::vector<std::size_t>;  // of each lane
using Flags = std::vector<bool>;

std::size_t places_of(const Take& take) { return take.first.total + take.further * store::kBatch; }

// A consumer between two steps: one server, and one lane for each queue, all of which have messages.
struct Consumer {
  explicit Consumer(const std::vector<unsigned>& weights, std::size_t idle = 10, bool strict = false)
      : turns(weights, strict) {
    shot.limits.concurrency = idle;
    shot.servers.resize(1);
    for (std::size_t queue = 0; queue < weights.size(); ++queue) {
      shot.queues.emplace_back().limit = idle;
      set_idle(queue, idle);
      add_lane(queue);
    }
  }

  void set_idle(std::size_t queue, std::size_t idle) { shot.queues[queue].load.idle = idle; }

  LaneView& add_lane(std::size_t queue, std::size_t server = 0) {
    LaneView& lane = shot.lanes.emplace_back();
    lane.queue = queue;
    lane.server = server;
    lane.more_ready = true;
    lane.expected = 1'000;
    return lane;
  }

  LaneView& lane(std::size_t i) { return shot.lanes[i]; }
  QueueView& queue(std::size_t i) { return shot.queues[i]; }
  ServerView& server(std::size_t i = 0) { return shot.servers[i]; }

  // A lane that has messages, one that looks for some, and one that does neither.
  void has_more(std::size_t i, std::size_t expected = 1'000) { set_work(i, true, expected, false); }
  void looks(std::size_t i) { set_work(i, false, 0, true); }
  void rests(std::size_t i) { set_work(i, false, 0, false); }
  void set_work(std::size_t i, bool more_ready, std::size_t expected, bool looks) {
    lane(i).more_ready = more_ready;
    lane(i).expected = expected;
    lane(i).promote_due = looks;
  }

  // A queue that holds so many messages, for which there is no worker.
  void waits(std::size_t i, std::size_t running, std::size_t waiting) {
    queue(i).load.running = running;
    queue(i).load.waiting = waiting;
  }

  Plan plan() {
    Result result = planning::plan(shot, turns);
    turns = std::move(result.turns);
    for (QueueView& queue : shot.queues) queue.taken = 0;
    return std::move(result.plan);
  }

  Places places() {
    Places places(shot.lanes.size(), 0);
    for (const Take& take : plan().takes) places[take.lane] = places_of(take);
    return places;
  }

  // What one lane does; one that does nothing if it is not in the plan.
  Take take(std::size_t i = 0) {
    for (const Take& take : plan().takes) {
      if (take.lane == i) return take;
    }
    return {};
  }

  Snapshot shot;
  run::Turns turns;
};

// ---- How the places are divided among the queues

TEST_CASE("plan: queues with the weights 6, 3 and 1 get 6, 3 and 1 of ten places") {
  CHECK(Consumer({6, 3, 1}).places() == Places{6, 3, 1});
}

TEST_CASE("plan: places that a queue has no room for are for the others") {
  Consumer consumer({6, 3, 1});
  consumer.queue(0).limit = 2;
  CHECK(consumer.places() == Places{2, 6, 2});

  Consumer alone({6, 3, 1});
  alone.rests(0);
  alone.rests(1);
  CHECK(alone.places() == Places{0, 0, 10});
}

TEST_CASE("plan: a queue that could take nothing for long catches up, but does not take all places for as long") {
  Consumer consumer({1, 1});
  consumer.plan();
  consumer.queue(1).taken = 1'000'000;
  CHECK(consumer.places() == Places{10, 0});
  for (int i = 0; i < 4; ++i) {
    consumer.queue(0).taken = 10;
    consumer.plan();
  }
  CHECK(consumer.places() == Places{5, 5});
}

TEST_CASE("plan: with strict priorities the queue of the highest weight is first") {
  Consumer consumer({1, 2}, 10, true);
  CHECK(consumer.places() == Places{0, 10});
  consumer.queue(1).limit = 4;
  CHECK(consumer.places() == Places{6, 4});
}

TEST_CASE("plan: queues that have messages are before those that look for some") {
  Consumer consumer({1, 1000});
  consumer.looks(1);
  CHECK(consumer.places() == Places{10, 0});
  consumer.queue(0).limit = 4;
  CHECK(consumer.places() == Places{4, 6});
}

TEST_CASE("plan: of a hundred queues with messages some get 50 of 1,000 places each, and then the others") {
  Consumer consumer(std::vector<unsigned>(100, 1), 1000);
  Places all(100, 0);
  for (int round = 0; round < 5; ++round) {
    const Places places = consumer.places();
    CHECK(std::count(places.begin(), places.end(), 50) == 20);
    for (std::size_t i = 0; i < 100; ++i) {
      consumer.queue(i).taken = places[i];
      all[i] += places[i];
    }
  }
  CHECK(all == Places(100, 50));
}

TEST_CASE("plan: few places, which slow handlers leave, are divided among the queues that have messages") {
  CHECK(Consumer(std::vector<unsigned>(8, 1), 16).places() == Places(8, 2));
}

TEST_CASE("plan: of many places one is kept for each lane that looks for messages") {
  Consumer consumer({1, 1, 1}, 160);
  consumer.looks(1);
  consumer.looks(2);
  CHECK(consumer.places() == Places{158, 1, 1});
}

// ---- The bound

TEST_CASE("plan: the bound of prefetched messages is multiplied by the number of servers that are used") {
  Consumer consumer({1});
  consumer.shot.limits.prefetch = 100;
  consumer.shot.servers.resize(4);
  consumer.server(3).usable = false;
  for (std::size_t server = 1; server < 4; ++server) consumer.add_lane(0, server);
  for (LaneView& lane : consumer.shot.lanes) lane.prefetch = 100;
  const Places places = consumer.places();
  CHECK(std::accumulate(places.begin(), places.end(), std::size_t{0}) == 310);
  CHECK(places[3] == 0);
}

TEST_CASE("plan: what many partitions prefetch adds up, though each handles a message now and then only") {
  Consumer consumer({1}, 1);
  consumer.shot.limits.prefetch = 100;
  for (int i = 1; i < 32; ++i) consumer.add_lane(0);
  for (std::size_t i = 0; i < 32; ++i) {
    consumer.lane(i).prefetch = 0.25;
    if (i > 0) consumer.rests(i);
  }
  CHECK(consumer.take().first.total == 9);
}

TEST_CASE("plan: messages that may still come take places; what is late beyond the bound is released") {
  Consumer consumer({1, 1});
  consumer.rests(0);
  consumer.server().takes = 1;
  consumer.lane(0).coming = 7;
  CHECK(consumer.places() == Places{0, 3});
  consumer.lane(0).coming = 12;
  CHECK(consumer.places() == Places{0, 0});
  CHECK(consumer.plan().releases_late == Places{0, 0});
  consumer.lane(0).coming = 0;
  consumer.lane(0).fetching = 8;
  consumer.lane(1).fetching = 4;
  consumer.lane(0).came_late = 1;
  consumer.lane(1).came_late = 4;
  CHECK(consumer.plan().releases_late == Places{1, 1});
}

TEST_CASE("plan: places promised to a server whose answers are late are free for the others") {
  Consumer consumer({1});
  consumer.shot.servers.resize(2);
  consumer.add_lane(0, 1);
  consumer.server(1).takes = 1;
  consumer.lane(1).coming = 10;
  CHECK(consumer.places() == Places{0, 0});
  consumer.lane(1).late = true;
  CHECK(consumer.places() == Places{10, 0});
}

TEST_CASE("plan: while messages of others wait in all places, a queue without one gets a place, at any turn") {
  Consumer consumer({1, 1}, 2);
  for (std::size_t i = 0; i < 2; ++i) consumer.set_idle(i, 0);
  consumer.waits(0, 2, 3);
  CHECK(consumer.places() == Places{0, 1});
  consumer.queue(1).taken = 1'000;  // the other one has taken less, but all its messages wait for slow handlers
  CHECK(consumer.places() == Places{0, 1});
  consumer.waits(1, 0, 1);  // it has one
  CHECK(consumer.places() == Places{0, 0});
}

TEST_CASE("plan: while there are free places, they are divided by the turns only") {
  Consumer consumer({1, 1}, 2);
  for (std::size_t i = 0; i < 2; ++i) consumer.set_idle(i, 0);
  consumer.shot.limits.prefetch = 3;
  consumer.lane(0).prefetch = 3;
  consumer.waits(0, 2, 2);
  consumer.plan();
  consumer.queue(1).taken = 1'000;
  CHECK(consumer.places() == Places{1, 0});
}

TEST_CASE("plan: deliveries that outlive their handlers take no more than the places of their queue") {
  Consumer consumer({1});
  consumer.queue(0).load.places = 4;
  consumer.lane(0).fetching = 1;
  CHECK(consumer.take().first.total == 3);
}

// ---- The lanes of a queue

TEST_CASE("plan: a queue's places go to the lane whose turn it is; lanes that look for messages share them") {
  Consumer consumer({1});
  for (int i = 1; i < 3; ++i) consumer.add_lane(0);
  consumer.lane(0).turn = 2;
  consumer.lane(2).turn = 1;
  CHECK(consumer.places() == Places{0, 10, 0});
  for (std::size_t i = 0; i < 3; ++i) consumer.looks(i);
  CHECK(consumer.places() == Places{4, 3, 3});
}

TEST_CASE("plan: a lane gets places for the messages that it is expected to have; the next one gets the others") {
  Consumer consumer({1});
  for (int i = 1; i < 3; ++i) consumer.add_lane(0);
  consumer.lane(0).turn = 2;
  consumer.lane(2).turn = 1;
  consumer.has_more(1, 1);
  consumer.has_more(2, 4);
  CHECK(consumer.places() == Places{5, 1, 4});
  consumer.rests(0);
  CHECK(consumer.places() == Places{0, 1, 4});
}

TEST_CASE("plan: of four or more lanes one that looks for messages gets at most a quarter of the places") {
  Consumer consumer({1});
  for (int i = 1; i < 4; ++i) consumer.add_lane(0);
  for (std::size_t i = 0; i < 4; ++i) consumer.rests(i);
  consumer.looks(2);
  CHECK(consumer.places() == Places{0, 0, 3, 0});
}

TEST_CASE(
    "plan: a lane that looks for messages gets no place beyond the limit of its queue, which another lane fills") {
  Consumer consumer({1, 1}, 20);
  consumer.rests(1);
  consumer.queue(0).limit = 10;
  consumer.add_lane(0);
  consumer.looks(2);
  CHECK(consumer.places() == Places{10, 0, 0});
  consumer.has_more(0, 4);
  CHECK(consumer.places() == Places{4, 0, 6});
}

TEST_CASE("plan: the servers of a queue hold equal parts, also while one of them is slow to answer") {
  Consumer consumer({1}, 12);
  consumer.shot.servers.resize(2);
  for (std::size_t i = 1; i < 4; ++i) consumer.add_lane(0, i % 2);
  CHECK(consumer.places() == Places{6, 6, 0, 0});
  consumer.has_more(0, 4);
  CHECK(consumer.places() == Places{4, 6, 2, 0});

  consumer.has_more(0);
  consumer.lane(1).coming = 6;
  consumer.server(1).takes = 1;
  CHECK(consumer.places() == Places{6, 0, 0, 0});
  for (std::size_t i = 1; i < 4; ++i) consumer.rests(i);
  consumer.lane(1).coming = 0;
  CHECK(consumer.places() == Places{12, 0, 0, 0});
}

TEST_CASE("plan: a lane's turn ends after 1,000 places, at once with slow handlers or while retry waits") {
  struct Row {
    std::size_t places, used, retry_left;
    bool ends;
  };
  const Row rows[] = {
      {49, 0, 0, true}, {50, 0, 0, false}, {200, 700, 0, false}, {200, 800, 0, true}, {200, 0, 1, true}};
  for (const Row& row : rows) {
    CAPTURE(row.places);
    CAPTURE(row.used);
    Consumer consumer({1, 1}, row.places);
    consumer.rests(1);
    consumer.lane(0).used = row.used;
    consumer.lane(0).retry_left = row.retry_left;
    const Take take = consumer.take();
    CHECK(take.places == row.places);
    CHECK(take.ends_turn == row.ends);
  }
}

// ---- Retry

TEST_CASE("plan: redelivered messages are taken only for free workers, and no other message has a claim on these") {
  struct Row {
    std::size_t idle, waiting, fetching, others_waiting, others_coming;
    std::size_t retry_max;
  };
  const Row rows[] = {{10, 0, 0, 0, 0, 10}, {10, 3, 0, 0, 0, 7}, {10, 3, 2, 0, 0, 5},
                      {10, 3, 2, 4, 0, 1},  {10, 3, 2, 4, 1, 0}, {0, 0, 0, 0, 0, 0}};
  for (const Row& row : rows) {
    CAPTURE(row.retry_max);
    Consumer consumer({1, 1}, 10);
    consumer.shot.limits.prefetch = 100;
    for (std::size_t i = 0; i < 2; ++i) consumer.set_idle(i, row.idle);
    consumer.lane(0).prefetch = 100;
    consumer.lane(0).retry_left = 100;
    consumer.lane(0).since_retry = 6;
    consumer.lane(0).fetching = row.fetching;
    consumer.waits(0, 0, row.waiting);
    consumer.waits(1, 0, row.others_waiting);
    consumer.rests(1);
    consumer.lane(1).coming = consumer.lane(1).coming_retries = row.others_coming;
    if (row.others_coming > 0) consumer.server().takes = 1;
    CHECK(consumer.take().first.retry_max == row.retry_max);
  }
}

TEST_CASE("plan: one of eight messages is for retry while it waits, also if more places are free") {
  struct Row {
    std::size_t idle, since_retry;
    std::size_t total, retry_share;
  };
  const Row rows[] = {{1, 0, 1, 0}, {1, 7, 1, 1}, {100, 0, 100, 12}, {1, 20, 1, 1}};
  for (const Row& row : rows) {
    CAPTURE(row.idle);
    CAPTURE(row.since_retry);
    Consumer consumer({1}, row.idle);
    consumer.lane(0).retry_left = 1'000;
    consumer.lane(0).since_retry = row.since_retry;
    const Take take = consumer.take();
    CHECK(take.first.total == row.total);
    CHECK(take.first.retry_share == row.retry_share);
    CHECK(take.first.retry_max == row.idle);
  }
  Consumer consumer({1}, 1);  // no worker is free, so no more first deliveries than its share allows
  consumer.set_idle(0, 0);
  consumer.waits(0, 1, 0);
  consumer.shot.limits.prefetch = 100;
  consumer.lane(0).prefetch = 100;
  consumer.lane(0).retry_left = 1;
  consumer.lane(0).since_retry = 3;
  CHECK(consumer.take().first.total == 4);
}

TEST_CASE("plan: a worker is kept free for a queue whose retry is due, and takes no first deliveries") {
  struct Row {
    const char* name;
    void (*change)(Consumer&);
    bool keeps;
  };
  const Row rows[] = {
      {"due", [](Consumer&) {}, true},
      {"by handled messages", [](Consumer& c) { c.lane(0).since_retry = 0, c.queue(0).handled = 7; }, true},
      {"not due", [](Consumer& c) { c.lane(0).since_retry = 6; }, false},
      {"retry empty", [](Consumer& c) { c.lane(0).retry_left = 0; }, false},
      {"the lane has failed", [](Consumer& c) { c.lane(0).works = false; }, false},
      {"it may not take", [](Consumer& c) { c.lane(0).may_take = false; }, false},
      {"all may be poison", [](Consumer& c) { c.lane(0).resting = true, c.shot.limits.poison_allowed = false; }, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Consumer consumer({1, 1}, 10);
    consumer.lane(0).retry_left = 5;
    consumer.lane(0).since_retry = 7;
    row.change(consumer);
    CHECK(consumer.plan().keeps_one_free == Flags{row.keeps, false});
  }

  Consumer consumer({1, 1}, 1);  // the idle worker has a claim on it
  consumer.waits(1, 0, 5);
  consumer.lane(0).retry_left = 5;
  consumer.lane(0).since_retry = 7;
  CHECK(consumer.take().first.retry_max == 1);
  consumer.lane(0).fetches_redelivered = true;  // that one has the worker
  consumer.lane(0).fetching = 1;
  CHECK(consumer.take().first.retry_max == 0);
  consumer.lane(0).fetches_redelivered = false;
  consumer.lane(0).fetching = 0;
  consumer.lane(1).fetches_redelivered = true;
  consumer.lane(1).fetching = 1;
  CHECK(consumer.take().first.retry_max == 0);
}

TEST_CASE("plan: while a take is under way another one returns nothing from retry") {
  Consumer consumer({1, 1}, 100);
  consumer.rests(1);
  consumer.lane(0).retry_left = 10;
  consumer.lane(0).coming = 1;
  CHECK(consumer.take().first.retry_max == 0);
}

// ---- Possible poison messages

TEST_CASE("plan: of all lanes only the first one in turn may take a possible poison message") {
  Consumer consumer({1});
  consumer.add_lane(0);
  for (LaneView& lane : consumer.shot.lanes) {
    lane.retry_left = lane.expected = 3;
    lane.more_ready = false;
  }
  consumer.lane(0).turn = 1;
  const std::vector<Take> takes = consumer.plan().takes;
  REQUIRE(takes.size() == 2);
  CHECK(takes[0].lane == 1);
  CHECK(takes[0].first.poison_max == 1);
  CHECK(takes[1].first.poison_max == 0);

  consumer.lane(0).expects_poison = true;  // its take is under way
  CHECK(consumer.take(1).first.poison_max == 0);
  consumer.lane(0).expects_poison = false;
  consumer.shot.limits.poison_allowed = false;  // one runs
  CHECK(consumer.take(1).first.poison_max == 0);
}

TEST_CASE("plan: a lane whose retry may hold nothing but poison leaves it alone, scans it, and goes on at once") {
  Consumer consumer({1});
  consumer.rests(0);
  consumer.lane(0).retry_left = 1'000;
  consumer.shot.limits.poison_allowed = false;
  consumer.lane(0).resting = true;
  CHECK(consumer.take().first.total == 0);
  CHECK_FALSE(consumer.plan().goes_on[0]);

  consumer.lane(0).resting = false;
  consumer.lane(0).scanning = true;
  consumer.lane(0).to_skip = 300;
  CHECK(consumer.take().first.poison_max == 0);
  CHECK(consumer.take().first.poison_skip == 190);
  consumer.lane(0).to_skip = 30;
  CHECK(consumer.take().first.poison_skip == 30);

  consumer.lane(0).may_send = false;
  CHECK(consumer.plan().goes_on[0]);
  consumer.lane(0).scanning = false;
  CHECK_FALSE(consumer.plan().goes_on[0]);
  consumer.lane(0).owes_poison = true;
  CHECK_FALSE(consumer.plan().goes_on[0]);
  consumer.shot.limits.poison_allowed = true;
  CHECK(consumer.plan().goes_on[0]);
}

// ---- Round trips

TEST_CASE("plan: the only queue that can take any takes one batch, and further takes overlap with it") {
  Consumer consumer({1, 1}, 1'000);
  consumer.rests(1);
  consumer.lane(0).full = true;
  CHECK(consumer.places() == Places{200, 0});
  consumer.lane(0).coming = 200;
  for (const std::size_t takes : {1, 2}) {
    consumer.server().takes = takes;
    CHECK(consumer.places() == Places{200, 0});
  }
  consumer.server().takes = 3;
  CHECK_FALSE(consumer.plan().starts[0]);
}

TEST_CASE("plan: a take overlaps with one of its lane only if messages for a whole batch are known and have room") {
  struct Row {
    const char* name;
    void (*change)(Consumer&);
    bool starts;
  };
  const Row rows[] = {
      {"full", [](Consumer&) {}, true},
      {"the last one was not full", [](Consumer& c) { c.lane(0).full = false; }, false},
      {"late", [](Consumer& c) { c.lane(0).late = true; }, false},
      {"retry waits", [](Consumer& c) { c.lane(0).retry_left = 1; }, false},
      {"no room for a batch", [](Consumer& c) { c.lane(0).fetching = 801; }, false},
      {"bodies have to be fetched", [](Consumer& c) { c.lane(0).full = false, c.lane(0).has_to_fetch = true; }, true},
      {"a marker has arrived", [](Consumer& c) { c.lane(0).full = false, c.lane(0).woken = true; }, true},
      {"too many verdicts wait", [](Consumer& c) { c.lane(0).too_many_verdicts = true; }, false},
      {"the server takes no more", [](Consumer& c) { c.server().may_start = false; }, false},
      {"the lane may not take", [](Consumer& c) { c.lane(0).may_take = false; }, false},
      {"another lane has messages", [](Consumer& c) { c.lane(0).full = false, c.has_more(1); }, false},
      {"another lane looks", [](Consumer& c) { c.lane(0).full = false, c.looks(1); }, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Consumer consumer({1, 1}, 1'001);
    consumer.rests(1);
    consumer.lane(0).full = true;
    consumer.lane(0).coming = 1;
    consumer.server().takes = 1;
    row.change(consumer);
    CHECK(consumer.plan().starts[0] == row.starts);
  }
}

TEST_CASE("plan: queues that have messages take up to four batches in the same round trip") {
  Consumer consumer({3, 1}, 1'000);
  for (LaneView& lane : consumer.shot.lanes) lane.full = true;
  const std::vector<Take> takes = consumer.plan().takes;
  REQUIRE(takes.size() == 2);
  CHECK(takes[0].further == 3);
  CHECK(places_of(takes[0]) == doctest::Approx(750).epsilon(0.01));
  CHECK(takes[1].further == 1);
  CHECK(places_of(takes[1]) == doctest::Approx(250).epsilon(0.01));
}

TEST_CASE("plan: beside a queue that had a message lately another one takes 50 for each millisecond of a round trip") {
  struct Row {
    double round_trip_ms;
    std::size_t total;
  };
  for (const Row& row : {Row{0, 50}, Row{0.5, 50}, Row{2, 100}, Row{30, 200}}) {
    CAPTURE(row.round_trip_ms);
    Consumer consumer({1, 1}, 1'000);
    consumer.rests(1);
    consumer.queue(1).active = true;
    consumer.lane(0).round_trip_ms = row.round_trip_ms;
    CHECK(consumer.take().first.total == row.total);
  }
}

TEST_CASE("plan: beside a take of its queue a lane takes whole batches, or all that a partition is expected to have") {
  Consumer consumer({1}, 150);
  consumer.shot.limits.prefetch = 300;
  consumer.add_lane(0);
  consumer.lane(0).prefetch = 300;
  consumer.rests(0);
  consumer.lane(0).coming = 300;
  consumer.server().takes = 1;
  CHECK(consumer.places() == Places{0, 0});
  consumer.has_more(1, 120);
  CHECK(consumer.places() == Places{0, 120});
  consumer.has_more(1);
  consumer.lane(1).reclaim_due = true;  // must not wait
  CHECK(consumer.places() == Places{0, 150});
}

TEST_CASE("plan: a lane that has failed takes in the round trip that settles, and with no other") {
  Consumer consumer({1, 1});
  consumer.server().may_start = false;
  consumer.lane(0).works = false;
  CHECK(consumer.places() == Places{10, 0});
  consumer.lane(0).may_send = false;
  CHECK(consumer.places() == Places{0, 0});
}

TEST_CASE("plan: while too many verdicts wait a lane takes nothing, but its queue keeps its turn") {
  Consumer consumer({1, 1}, 10);
  consumer.lane(0).too_many_verdicts = true;
  consumer.plan();
  for (int i = 0; i < 3; ++i) {
    consumer.queue(1).taken = 10;
    CHECK(consumer.places() == Places{0, 10});
  }
  consumer.lane(0).too_many_verdicts = false;
  CHECK(consumer.places() == Places{10, 0});

  consumer.lane(0).too_many_verdicts = consumer.lane(0).promote_due = true;
  const Take take = consumer.take();
  CHECK(take.promotes == 1);
  CHECK(take.postpones);
  CHECK(take.first.total == 0);
}

// ---- Moves, wake-ups

TEST_CASE("plan: due messages are taken by one script if the lists are empty, and no unack2retry is before it") {
  struct Row {
    const char* name;
    void (*change)(Consumer&);
    bool due, reclaims;
    std::size_t promotes;
  };
  const Row rows[] = {
      {"the lists are empty", [](Consumer&) {}, true, false, 0},
      {"as far as is known they are not", [](Consumer& c) { c.lane(0).lists_empty = false; }, false, false, 1},
      {"a marker of a message in ready", [](Consumer& c) { c.lane(0).woken = c.lane(0).woken_for_ready = true; }, false,
       false, 1},
      {"a marker of a scheduled message", [](Consumer& c) { c.rests(0), c.lane(0).woken = true; }, true, false, 0},
      {"unack2retry is due", [](Consumer& c) { c.lane(0).reclaim_due = true; }, false, true, 1},
      {"but leases have to be renewed", [](Consumer& c) { c.lane(0).reclaim_due = true, c.lane(0).renewed = false; },
       true, false, 0},
      {"no room", [](Consumer& c) { c.waits(0, 0, 10); }, false, false, 1},
      {"nothing is due", [](Consumer& c) { c.rests(0); }, false, false, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Consumer consumer({1});
    consumer.looks(0);
    consumer.lane(0).lists_empty = true;
    row.change(consumer);
    const Take take = consumer.take();
    CHECK(take.due == row.due);
    CHECK(take.reclaims == row.reclaims);
    CHECK(take.promotes == row.promotes);
  }
}

TEST_CASE("plan: a lane without a place asks for the lengths of its lists, and keeps no watch") {
  Consumer consumer({1, 1});
  consumer.rests(0);
  consumer.looks(1);
  consumer.waits(0, 0, 5);
  CHECK_FALSE(consumer.take(1).asks_lengths);
  CHECK(consumer.take(1).keeps_watch);
  consumer.waits(0, 0, 10);
  CHECK(consumer.take(1).asks_lengths);
  CHECK_FALSE(consumer.take(1).keeps_watch);
  CHECK(consumer.take(1).first.total == 0);
}

TEST_CASE("plan: a lane listens while it has room and knows of nothing to take; without room it is full") {
  Consumer consumer({1, 1});
  consumer.rests(0);
  consumer.queue(1).limit = 4;
  CHECK(consumer.plan().listens == Flags{true, false});
  consumer.rests(1);
  consumer.lane(1).may_take = false;
  CHECK(consumer.plan().listens == Flags{true, false});
  consumer.lane(1).may_take = consumer.lane(1).reclaim_due = true;
  consumer.lane(1).renewed = false;
  CHECK(consumer.plan().listens == Flags{true, false});
  CHECK(consumer.plan().full == Flags{false, false});
  consumer.waits(0, 0, 10);
  CHECK(consumer.plan().full == Flags{true, true});
  CHECK(consumer.plan().listens == Flags{false, false});
  consumer.server().takes = 1;  // which may not need their places
  CHECK(consumer.plan().full == Flags{false, false});
}

TEST_CASE("plan: a server goes on at once if a lane could take again after these takes") {
  Consumer consumer({1, 1}, 1'000);
  consumer.rests(1);
  CHECK(consumer.plan().goes_on[0]);  // 800 places are left
  consumer.waits(1, 0, 800);
  CHECK_FALSE(consumer.plan().goes_on[0]);
  consumer.waits(1, 0, 799);
  CHECK(consumer.plan().goes_on[0]);
  consumer.lane(0).may_take = false;
  CHECK_FALSE(consumer.plan().goes_on[0]);
}

// ---- What holds for every plan

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t up_to(std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(engine_); }
  bool one_in(std::size_t n) { return up_to(n - 1) == 0; }
  std::size_t some(std::size_t most) {
    return one_in(3) ? 0 : up_to(one_in(2) ? std::min<std::size_t>(most, 9) : most);
  }

 private:
  std::mt19937_64 engine_;
};

LaneView random_lane(Random& random) {
  LaneView lane;
  lane.may_take = !random.one_in(8);
  lane.works = !random.one_in(8);
  lane.may_send = !random.one_in(8);
  lane.turn = random.up_to(9);
  lane.used = random.up_to(1'100);
  lane.prefetch = static_cast<double>(random.some(4'000)) / 4;
  lane.round_trip_ms = static_cast<double>(random.up_to(60)) / 10;
  lane.late = random.one_in(8);
  lane.fetching = random.some(200);
  lane.fetches_redelivered = lane.fetching > 0 && random.one_in(4);
  lane.has_to_fetch = random.one_in(3);
  lane.coming = random.some(400);
  lane.coming_retries = random.up_to(std::min<std::size_t>(lane.coming, 3));
  lane.came_late = random.one_in(4) ? random.up_to(lane.fetching) : 0;
  lane.too_many_verdicts = random.one_in(8);
  lane.woken = random.one_in(5);
  lane.woken_for_ready = lane.woken && random.one_in(2);
  lane.more_ready = random.one_in(2);
  lane.expected = lane.more_ready ? random.some(900) : 0;
  lane.lists_empty = !lane.more_ready && random.one_in(2);
  lane.full = random.one_in(2);
  lane.retry_left = lane.lists_empty ? 0 : random.some(500);
  lane.since_retry = random.some(60);
  lane.resting = random.one_in(3);
  lane.scanning = random.one_in(4);
  lane.owes_poison = random.one_in(4);
  lane.to_skip = random.some(1'000);
  lane.more_due = random.one_in(5);
  lane.promote_due = random.one_in(3);
  lane.reclaim_due = random.one_in(4);
  lane.renewed = !random.one_in(4);
  return lane;
}

Snapshot random_snapshot(Random& random, std::size_t queues) {
  Snapshot shot;
  shot.limits = {1 + random.up_to(random.one_in(2) ? 20 : 1'000), random.some(2'000), !random.one_in(3)};
  shot.servers.resize(1 + random.up_to(2));
  for (ServerView& server : shot.servers) server = {!random.one_in(9), !random.one_in(9), random.up_to(3)};
  const std::size_t idle = random.some(shot.limits.concurrency);
  for (std::size_t i = 0; i < queues; ++i) {
    QueueView& queue = shot.queues.emplace_back();
    queue.limit = 1 + random.up_to(shot.limits.concurrency - 1);
    queue.load.running = random.some(std::min(queue.limit, shot.limits.concurrency / queues));
    queue.load.waiting = random.some(random.one_in(2) ? 3 : 300);
    queue.load.allowed = queue.limit - queue.load.running;
    queue.load.idle = random.one_in(20) ? 0 : idle;
    if (random.one_in(4)) queue.load.places = std::min(queue.load.allowed, idle);
    queue.taken = random.some(400);
    queue.active = random.one_in(2);
    queue.handled = random.some(20);
    for (std::size_t lanes = 1 + random.up_to(random.one_in(2) ? 0 : 3); lanes > 0; --lanes) {
      LaneView lane = random_lane(random);
      lane.queue = i;
      lane.server = random.up_to(shot.servers.size() - 1);
      if (shot.servers[lane.server].takes == 0) lane.coming = lane.coming_retries = 0;
      shot.lanes.push_back(lane);
    }
  }
  if (random.one_in(4)) shot.lanes[random.up_to(shot.lanes.size() - 1)].expects_poison = true;
  return shot;
}

// What the lanes hold, or may still get.
struct Holdings {
  explicit Holdings(const Snapshot& shot) : queues(shot.queues.size(), 0), prefetch(queues) {
    std::size_t servers = 0, running = 0, idle = 0;
    for (const ServerView& server : shot.servers) servers += server.usable ? 1 : 0;
    const std::size_t most = std::max<std::size_t>(servers, 1) * shot.limits.prefetch;
    std::vector<double> wanted(queues.size(), 0);
    for (const LaneView& lane : shot.lanes) {
      queues[lane.queue] += lane.late ? 0 : lane.fetching + lane.coming;
      wanted[lane.queue] += lane.prefetch;
    }
    std::size_t prefetched = 0;
    for (std::size_t i = 0; i < queues.size(); ++i) {
      const run::WorkerLoad& load = shot.queues[i].load;
      prefetch[i] = std::min(most, static_cast<std::size_t>(wanted[i]));
      prefetched += prefetch[i];
      queues[i] += load.running + load.waiting;
      all += queues[i];
      running += load.running;
      idle = std::max(idle, load.idle);
    }
    bound = std::min(shot.limits.concurrency, running + idle) + std::min(prefetched, most);
  }

  Places queues, prefetch;
  std::size_t all = 0, bound = 0;
};

void check_plan(const Snapshot& shot, const Plan& plan) {
  const Holdings before(shot);
  Places taken(shot.queues.size(), 0), takes(shot.lanes.size(), 0);
  std::size_t all = 0, beyond = 0, poison = 0;
  for (const Take& take : plan.takes) {
    const LaneView& lane = shot.lanes[take.lane];
    CHECK(++takes[take.lane] == 1);
    CHECK((lane.may_take && lane.may_send));
    CHECK((plan.starts[lane.server] || !lane.works));
    CHECK_FALSE((take.due && (take.reclaims || take.promotes > 0)));
    CHECK_FALSE((take.reclaims && !(lane.reclaim_due && lane.renewed)));
    CHECK(take.first.total <= store::kBatch);
    CHECK(take.first.retry_max <= store::kBatch);
    CHECK(take.first.retry_share <= take.first.retry_max);
    CHECK(take.first.total + take.first.poison_skip <= store::kBatch);
    CHECK(take.further <= 3);
    if (lane.too_many_verdicts) CHECK(places_of(take) == 0);
    if (lane.coming > 0) CHECK(take.first.retry_max == 0);
    poison += take.first.retry_max > 0 && take.first.poison_max > 0 && !lane.expects_poison ? 1 : 0;
    if (lane.late) continue;  // it keeps no places
    taken[lane.queue] += places_of(take);
    all += places_of(take);
  }
  for (std::size_t i = 0; i < shot.queues.size(); ++i) {
    const QueueView& queue = shot.queues[i];
    if (taken[i] > 0 && before.queues[i] == 0) ++beyond;  // it may need a place
    if (taken[i] <= 1) continue;
    CHECK(before.queues[i] + taken[i] <= queue.limit + before.prefetch[i]);
    if (queue.load.places < 10'000) CHECK(taken[i] <= queue.load.places);
  }
  // A redelivered message may take the worker that is kept for it, though prefetched messages have all places.
  const bool keeps =
      std::any_of(shot.lanes.begin(), shot.lanes.end(), [](const LaneView& one) { return one.retry_left > 0; });
  CHECK(all <= minus(before.bound, before.all) + beyond + (keeps ? 1 : 0));
  const bool expected =
      std::any_of(shot.lanes.begin(), shot.lanes.end(), [](const LaneView& one) { return one.expects_poison; });
  CHECK(poison <= (shot.limits.poison_allowed && !expected ? 1 : 0));
  const std::size_t released = std::accumulate(plan.releases_late.begin(), plan.releases_late.end(), std::size_t{0});
  CHECK(released <= minus(before.all, before.bound));
}

TEST_CASE(
    "plan: no plan exceeds the bound of messages, the limit of a queue, a batch, or one possible poison message") {
  for (std::uint64_t seed = 1; seed <= test::seeds(300); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::size_t queues = 1 + random.up_to(4);
    std::vector<unsigned> weights;
    for (std::size_t i = 0; i < queues; ++i) weights.push_back(static_cast<unsigned>(1 + random.up_to(5)));
    run::Turns turns(weights, random.one_in(4));
    for (int step = 0; step < 20; ++step) {
      CAPTURE(step);
      const Snapshot shot = random_snapshot(random, queues);
      Result result = plan(shot, turns);
      check_plan(shot, result.plan);
      turns = std::move(result.turns);
    }
  }
}

// Messages that are taken are handled some steps later, in any order.
TEST_CASE("plan: over a sequence of steps flooded queues are served by their weights, and none of them starves") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<unsigned> weights;
    for (std::size_t i = 2 + random.up_to(3); i > 0; --i) weights.push_back(static_cast<unsigned>(1 + random.up_to(8)));
    const std::size_t workers = 20 + random.up_to(200);
    Consumer consumer(weights, workers);
    Places handled(weights.size(), 0), waits(weights.size(), 0), running(weights.size(), 0);
    std::size_t longest = 0;
    for (int step = 0; step < 1'000; ++step) {
      const Places places = consumer.places();
      std::size_t busy = 0;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        running[i] += places[i];
        const std::size_t ended = random.up_to(running[i]);
        running[i] -= ended;
        handled[i] += ended;
        waits[i] = places[i] > 0 ? 0 : waits[i] + 1;
        longest = std::max(longest, waits[i]);
        busy += running[i];
        consumer.queue(i).taken = places[i];
        consumer.queue(i).load.running = running[i];
        consumer.queue(i).load.allowed = workers - running[i];
      }
      REQUIRE(busy <= workers);
      for (std::size_t i = 0; i < weights.size(); ++i) consumer.set_idle(i, workers - busy);
    }
    CHECK(longest < 100);
    const double sum = static_cast<double>(std::accumulate(handled.begin(), handled.end(), std::size_t{0}));
    const double weight = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      CHECK(static_cast<double>(handled[i]) / sum == doctest::Approx(weights[i] / weight).epsilon(0.02));
    }
  }
}

}  // namespace
}  // namespace delayqueue::planning
