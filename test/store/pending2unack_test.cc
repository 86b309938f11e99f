// pending2unack has the effect of pending2ready followed by ready2unack.
#include "support/test.h"

#include "store/scripts.h"
#include "support/model_moves.h"
#include "support/moves.h"
#include "support/seeds.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;
using test::model::Random;

using Words = std::vector<std::string>;

constexpr std::int64_t kClockUs = 1'800'000'000'123'456;
constexpr std::int64_t kSecond = 1'000'000;

std::string score(std::int64_t us) {
  const std::string number = std::to_string(us);
  return number.substr(0, number.size() - 6) + "." + number.substr(number.size() - 6);
}

// Arguments of one call.
struct Call {
  std::string limit, with_ids, next_call, total, lease;
};

// A state of a queue in which each id may be in several places, as commands that make it.
class RandomState {
 public:
  RandomState(std::uint64_t seed, const Keys& keys) : keys_(keys), random_(seed) {
    call_ = {one_of({"200", "200", "4"}), one_of({"0", "1"}), one_of({"1000000", "100", "20000000"}),
             one_of({"1", "3", "5", "200"}), one_of({"30000000", "30000544"})};
    for (int i = 0; i < 10; ++i) ids_.push_back(random_.uuid());
    for (const std::string& foreign : {std::string("x"), std::string("a b 1"), std::string(2000, 'a')}) {
      if (random_.one_in(2)) ids_.push_back(foreign);
    }
    for (const std::string& id : ids_) put(id);
    if (random_.one_in(10)) put_pending("");
    for (const std::string& list : {keys.ready, keys.retry}) {
      if (random_.one_in(7)) add({"LPUSH", list, one_of(ids_), one_of(ids_)});
    }
    if (random_.one_in(10)) add({"SET", keys.paused, "1"});
    if (random_.one_in(2)) put_watch();
  }

  const std::vector<Words>& commands() const { return commands_; }
  const Call& call() const { return call_; }

 private:
  void add(Words words) { commands_.push_back(std::move(words)); }
  std::string one_of(const Words& words) { return words[random_.below(words.size())]; }

  void put_pending(const std::string& id) {
    const auto distance = static_cast<std::int64_t>(random_.below(10 * kSecond));
    add({"ZADD", keys_.pending, score(random_.one_in(3) ? kClockUs + 1 + distance : kClockUs - distance), id});
  }

  void put(const std::string& id) {
    if (!random_.one_in(4)) put_pending(id);
    if (!random_.one_in(7)) add({"HSET", keys_.count, id, one_of({"3", "3", "3", "3", "0", "x", "", "1e9"})});
    if (random_.one_in(3)) {
      add({"HSET", keys_.attempts, id, one_of({"2", "7 1700000000123457", "abc", "", "5x", "99999999999999"})});
    }
    // Some of the ends are those that the lease would have.
    const std::int64_t end = random_.of({30'000'000, 30'000'001, 30'000'544, 30'000'545, 7, -5});
    if (random_.one_in(6)) add({"ZADD", keys_.unack, score(kClockUs + end), id});
    if (random_.one_in(9)) add({"ZADD", keys_.dead, score(kClockUs - kSecond), id});
    if (random_.one_in(9)) add({"SADD", keys_.garbage, id});
  }

  void put_watch() {
    const std::int64_t time = kClockUs + random_.of({1, 500, -10, -300'000, 10 * kSecond, 5 * kSecond});
    Words words = {"SET", keys_.watch, std::to_string(time) + one_of({" me", " another"})};
    if (!random_.one_in(5)) words.insert(words.end(), {"PX", "600000"});
    add(words);
  }

  const Keys& keys_;
  Random random_;
  Call call_;
  Words ids_;
  std::vector<Words> commands_;
};

void build(Scene& scene, const RandomState& state) {
  const Keys& keys = scene.keys();
  scene.cmd({"DEL", keys.pending, keys.ready, keys.retry, keys.unack, keys.dead, keys.count, keys.attempts,
             keys.garbage, keys.paused, keys.stats, keys.watch, keys.wake});
  for (const Words& words : state.commands()) REQUIRE(!scene.cmd(words).error());
}

test::Reply pending2unack(Scene& scene, const Call& call) {
  const Keys& keys = scene.keys();
  return scene.run_at(kClockUs, scripts::pending2unack, test::key_names(calls::pending2unack::keys(keys)),
                      {call.limit, call.with_ids, "me", call.next_call, call.total, call.lease});
}

test::Reply pending2ready(Scene& scene, const Call& call) {
  const Keys& keys = scene.keys();
  return scene.run_at(kClockUs, scripts::pending2ready, test::key_names(calls::pending2ready::keys(keys)),
                      {call.limit, call.with_ids, "me", call.next_call});
}

// Whether the watch expires, perhaps within 200 ms. From now on it does not, so that a slow machine can compare it.
bool keep_watch(Scene& scene) { return scene.cmd({"PERSIST", scene.keys().watch}) == 1; }

test::Reply ready2unack(Scene& scene, const Call& call) {
  const Keys& keys = scene.keys();
  return scene.run_at(kClockUs, scripts::ready2unack, test::key_names(calls::ready2unack::keys(keys)),
                      {call.total, "1", "5", call.lease, "1", "0"});
}

TEST_CASE("pending2unack: state and answers are those of pending2ready followed by ready2unack, over random states") {
  Scene scene;
  const Keys& keys = scene.keys();
  std::uint64_t taken = 0, moved = 0;
  const std::uint64_t seeds = test::seeds(400);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    const RandomState state(seed, keys);
    build(scene, state);
    const bool waiting = scene.cmd({"EXISTS", keys.ready, keys.retry, keys.paused}) != 0;
    const bool due = scene.cmd({"ZCOUNT", keys.pending, "-inf", score(kClockUs)}) != 0;
    const bool empty_member = due && !scene.cmd({"ZSCORE", keys.pending, ""}).nil();
    const bool takes = !waiting && !empty_member;
    (takes ? taken : moved) += 1;
    const test::Reply direct = pending2unack(scene, state.call());
    const bool direct_expires = keep_watch(scene);
    const test::Snapshot after = scene.state();
    build(scene, state);
    const test::Reply promoted = pending2ready(scene, state.call());
    CHECK(keep_watch(scene) == direct_expires);
    REQUIRE(direct.array.size() == (takes ? 2 : 1));
    CHECK(direct.array[0] == promoted);
    if (takes) CHECK(direct.array[1] == ready2unack(scene, state.call()));
    CHECK((after == scene.state()));
  }
  CHECK(taken >= seeds / 4);
  CHECK(moved >= seeds / 4);
}

TEST_CASE("pending2unack: leases messages in the order of their due times; those without a place move to ready") {
  Scene scene(Scene::Setup::without_lists());
  scene.put(At::pending, "a", {-1min}).put(At::pending, "b", {-3min}).put(At::pending, "c", {-2min, "1", "4"});
  scene.put(At::pending, "later", {1min});
  const PromotedAndTaken both = scene.run(&Moves::pending2unack, true, {"me", std::chrono::seconds(1)}, {200, 2}, 5min);
  CHECK(both.promoted.moved == 3);
  CHECK(both.promoted.ids == scene.ids({"b", "c", "a"}));
  REQUIRE(both.taken);
  CHECK(both.taken->popped == 2);
  const std::vector<std::pair<std::string, int>> messages = {{scene.id("b"), 1}, {scene.id("c"), 5}};
  CHECK((both.taken->messages == messages));
  CHECK(both.taken->retries_left == 3);
  CHECK(both.taken->other_retries_left.at(scene.id("c")) == 1);
  CHECK(scene.score_us(scene.keys().unack, "b") == both.taken->lease_us);
  CHECK(is_lease(both.taken->lease_us));
  CHECK(scene.changes() ==
        "attempts c=5; pending -a -b -c; ready [a]; stats delivered+2; unack +b@lease+5m +c@lease+5m; ");
}

TEST_CASE("pending2unack: only moves messages to ready while others wait in ready or retry, or the queue is paused") {
  for (const std::string& what : {std::string("ready"), std::string("retry"), std::string("paused")}) {
    CAPTURE(what);
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::pending, "a", {-1min});
    if (what == "ready") scene.put(At::ready, "b");
    if (what == "retry") scene.put(At::retry, "b");
    if (what == "paused") scene.cmd({"SET", scene.keys().paused, ""});
    const PromotedAndTaken both =
        scene.run(&Moves::pending2unack, true, {"me", std::chrono::seconds(1)}, {200, 200}, 5min);
    CHECK(both.promoted.moved == 1);
    CHECK(!both.taken);
    CHECK(scene.changes() == std::string("pending -a; ready [a") + (what == "ready" ? " b" : "") + "]; ");
  }
}

TEST_CASE("pending2unack: it moves no more than it was asked for, and takes the first of these") {
  Scene scene(Scene::Setup::without_lists());
  scene.put_many(At::pending, "m", 60, {-5min});
  const PromotedAndTaken both = scene.run(&Moves::pending2unack, true, {"me", std::chrono::seconds(1)}, {50, 40}, 5min);
  CHECK(both.promoted.moved == 50);
  CHECK(both.promoted.next == milliseconds(0));
  CHECK(both.promoted.ids.size() == 50);
  REQUIRE(both.taken);
  CHECK(both.taken->popped == 40);
  CHECK(scene.cmd({"LLEN", scene.keys().ready}) == 10);
  CHECK(scene.cmd({"ZCARD", scene.keys().pending}) == 2 + 10);
}

TEST_CASE("pending2unack: one call moves the earliest 200 at most, of 0, 1, 199, 200 and 201 due messages") {
  for (const std::size_t due : {0U, 1U, 199U, 200U, 201U}) {
    for (const std::size_t total : {1U, 150U, 201U}) {
      CAPTURE(due);
      CAPTURE(total);
      Scene scene(Scene::Setup::without_lists());
      scene.put_many(At::pending, "m", static_cast<int>(due), {-5min});
      const PromotedAndTaken both =
          scene.run(&Moves::pending2unack, false, {"me", std::chrono::seconds(1)}, {200, total}, 5min);
      const std::size_t moved = std::min<std::size_t>(due, 200);
      const std::size_t taken = std::min(moved, total);
      CHECK(both.promoted.moved == moved);
      CHECK(both.promoted.ids.empty());
      REQUIRE(both.taken);
      CHECK(both.taken->popped == taken);
      REQUIRE(both.taken->messages.size() == taken);
      const auto ids = scene.many("m", static_cast<int>(due));
      for (std::size_t i = 0; i < taken; ++i) CHECK(both.taken->messages[i].first == ids[i]);
      CHECK(scene.cmd({"LLEN", scene.keys().ready}) == moved - taken);
      CHECK(scene.cmd({"ZCARD", scene.keys().pending}) == 2 + due - moved);
      CHECK(scene.lost().empty());
    }
  }
}

TEST_CASE("pending2unack: a lease too long for microsecond steps is refused, and nothing is moved") {
  Scene scene(Scene::Setup::without_lists());
  scene.put(At::pending, "x", {-1min});
  for (const std::string& lease : {std::string("inf"), std::string("nan"), std::string("9007199254740992")}) {
    CAPTURE(lease);
    CHECK(pending2unack(scene, {"200", "0", "1000000", "200", lease}).error());
    CHECK(scene.changes().empty());
  }
}

}  // namespace
}  // namespace delayqueue::store
