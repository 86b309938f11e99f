#include "support/test.h"

#include "store/scripts.h"
#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

Receipt with_end(Receipt receipt, std::int64_t us) {
  receipt.end_us = us;
  return receipt;
}

std::int64_t new_end(Scene& scene, std::chrono::microseconds from_start = 20min) {
  return scene.start_ms() * 1000 + from_start.count() + 1;
}

// For example "1800000000.123457".
std::string to_score(std::int64_t us) {
  std::string text = std::to_string(us);
  return text.insert(text.size() - 6, ".");
}

TEST_CASE("renew: sets the lease end of held messages to exactly the new one, and returns the time of Redis") {
  Scene scene;
  scene.put(At::held, "a").put(At::held, "b").put(At::held, "c");
  const std::int64_t end = new_end(scene);
  const Renewed renewed = scene.run(&Moves::renew, {scene.receipt("a"), scene.receipt("b")}, end);
  CHECK(renewed.outcomes == "NN");
  CHECK(renewed.now_us >= scene.before_us());
  CHECK(renewed.now_us <= scene.after_us());
  CHECK(scene.changes() == "unack a@lease" + std::to_string(end) + " b@lease" + std::to_string(end) + "; ");
}

TEST_CASE("renew: repeated after a lost answer, it returns the same and changes nothing") {
  Scene scene;
  scene.put(At::held, "a");
  const Receipt old = scene.receipt("a");
  CHECK(scene.run(&Moves::renew, {old}, new_end(scene)).outcomes == "N");
  for (int i = 0; i < 2; ++i) {
    CHECK(scene.run(&Moves::renew, {old}, new_end(scene)).outcomes == "N");
    CHECK(scene.changes().empty());
  }
  CHECK(scene.run(&Moves::renew, {old}, new_end(scene, 30min)).outcomes == "T");
  CHECK(scene.changes().empty());
  CHECK(scene.run(&Moves::ack, {old}) == "T");
  CHECK(scene.run(&Moves::ack, {with_end(old, new_end(scene))}) == "S");
}

TEST_CASE("renew: works while the id is in unack with that lease, even if the lease has ended") {
  Scene scene;
  scene.put(At::held, "a", {-5min});
  const std::int64_t end = new_end(scene);
  CHECK(scene.run(&Moves::renew, {scene.receipt("a")}, end).outcomes == "N");
  CHECK(scene.changes() == "unack a@lease" + std::to_string(end) + "; ");
  CHECK(scene.run(&Moves::unack2retry, false).moved == 0);
}

TEST_CASE("renew: each message has its own answer: renewed, stale, or not in unack") {
  Scene scene;
  scene.put(At::held, "a").put(At::held, "b").put(At::cancelled, "c").put(At::held_by_go, "d").put(At::retry, "e");
  const std::int64_t end = new_end(scene);
  const Renewed renewed = scene.run(&Moves::renew,
                                    {{scene.id("none"), 5},
                                     scene.receipt("a"),
                                     with_end(scene.receipt("b"), 5),
                                     scene.receipt("c"),
                                     with_end(scene.receipt("d"), 5),
                                     scene.last_receipt("e")},
                                    end);
  CHECK(renewed.outcomes == "GNTNTG");
  CHECK(scene.changes() == "unack a@lease" + std::to_string(end) + " c@lease" + std::to_string(end) + "; ");
}

TEST_CASE("renew: a new end that is not in the future changes nothing; the answer says which end each message has") {
  Scene scene;
  const std::int64_t past = new_end(scene, -3min);
  scene.put(At::held, "a").put(At::held, "b", {-5min}).put(At::held, "c").put(At::held, "d");
  scene.cmd({"ZADD", scene.keys().unack, to_score(past), scene.id("c")});
  const Renewed renewed = scene.run(&Moves::renew,
                                    {scene.receipt("a"),
                                     scene.receipt("b"),
                                     with_end(scene.receipt("c"), 7),
                                     with_end(scene.receipt("d"), 7),
                                     {scene.id("none"), 7}},
                                    past);
  CHECK(renewed.outcomes == "OONTG");
  CHECK(renewed.now_us >= scene.before_us());
  CHECK(scene.changes().empty());
}

TEST_CASE("renew: a new end equal to now is not in the future, a microsecond later is") {
  const std::int64_t now = 1'800'000'000'123'456;
  for (const std::int64_t end : {now, now + 1}) {
    Scene scene;
    scene.put(At::held, "a");
    const Receipt old = scene.receipt("a");
    const auto answer = scene.run_at(now, scripts::renew, test::key_names(calls::renew::keys(scene.keys())),
                                     {std::to_string(end), scene.id("a"), std::to_string(old.end_us)});
    CHECK(answer == std::vector<std::string>{std::to_string(now), end == now ? "O" : "N"});
    CHECK(scene.score_us(scene.keys().unack, "a") == (end == now ? old.end_us : end));
  }
}

TEST_CASE("renew: does not bring back a message that was taken away in between") {
  Scene scene;
  scene.put(At::held, "a", {-5min}).put(At::held, "b");
  const std::vector<Receipt> old = {scene.receipt("a"), scene.receipt("b")};
  scene.run(&Moves::unack2retry, false);
  scene.run(&Moves::ack, {old[1]});
  CHECK(scene.run(&Moves::renew, old, new_end(scene)).outcomes == "GG");
  CHECK(scene.changes().empty());
  CHECK(scene.score_us(scene.keys().unack, "a") == 0);
}

TEST_CASE("renew: distinguishes leases a microsecond apart") {
  Scene scene;
  scene.put(At::held, "a");
  const std::int64_t end = new_end(scene);
  CHECK(scene.run(&Moves::renew, {scene.receipt("a")}, end).outcomes == "N");
  for (const std::int64_t us : {end - 1, end + 1}) {
    CHECK(scene.run(&Moves::renew, {with_end(scene.receipt("a"), us)}, end + 500).outcomes == "T");
    CHECK(scene.changes().empty());
  }
}

TEST_CASE("release: puts messages at the head of ready, the last one first, and counts neither retry nor delivery") {
  Scene scene;
  scene.put(At::held, "a").put(At::held, "b", {10min, "3", "3"}).put(At::held, "c", {10min, "3", "2", "note"});
  CHECK(scene.run(&Moves::release, {scene.receipt("a"), scene.receipt("b"), scene.receipt("c")}, 0ms) == "SSS");
  CHECK(scene.changes() == "attempts b=2 c=1; ready [.r2 .r1 a b c]; unack -a -b -c; ");
  const Taken taken = scene.run(&Moves::ready2unack, {3, 0, 3}, 5min);
  const std::vector<std::pair<std::string, int>> expected = {
      {scene.id("a"), 1}, {scene.id("c"), 2}, {scene.id("b"), 3}};
  CHECK((taken.messages == expected));
}

TEST_CASE("release: a first delivery stays the first after any number of releases") {
  Scene scene;
  scene.put(At::held, "a");
  Receipt receipt = scene.receipt("a");
  for (int i = 0; i < 3; ++i) {
    CHECK(scene.run(&Moves::release, {receipt}, 0ms) == "S");
    const Taken taken = scene.run(&Moves::ready2unack, {1, 0, 0}, 5min);
    REQUIRE(taken.messages.size() == 1);
    CHECK(taken.messages[0].second == 1);
    receipt.end_us = taken.lease_us;
  }
  CHECK(scene.cmd({"HGET", scene.keys().count, scene.id("a")}) == "3");
}

TEST_CASE("release: with a delay the message is due that long after the time of Redis, and its TTL is extended") {
  Scene scene;
  scene.put(At::held, "a", {10min, "3", "", "", 1h}).put(At::held, "b", {10min, "3", "2", "note"});
  CHECK(scene.run(&Moves::release, {scene.receipt("a"), scene.receipt("b")}, 5min) == "SS");
  CHECK(scene.changes() == "attempts b=1; pending +a@now+5m +b@now+5m; unack -a -b; ");
  CHECK(scene.ttl_ms("a") <= 65 * 60'000);
  CHECK(scene.ttl_ms("a") > 64 * 60'000);
  CHECK(scene.ttl_ms("b") == -1);
}

TEST_CASE("release: a delay within a millisecond is rounded up, so that no message is early") {
  Scene scene;
  scene.put(At::held, "a");
  const Keys& keys = scene.keys();
  CHECK(scene.run_at(1'800'000'000'123'001, scripts::release,
                     test::key_names(calls::release::keys(keys), {keys.bodies + scene.id("a")}),
                     {"5", "0", "", std::to_string(scene.receipt("a").end_us)}) == "S");
  CHECK(scene.score_us(keys.pending, "a") == 1'800'000'000'129'000);
}

TEST_CASE("release: with a pause the queue is paused unless it is, and only if a message is released by its receipt") {
  Scene scene;
  scene.put(At::held, "a").put(At::held, "b").put(At::held, "c");
  const std::string& paused = scene.keys().paused;
  CHECK(scene.run(&Moves::release_and_pause, {with_end(scene.receipt("a"), 5), {scene.id("none"), 5}}, 1h, "why") ==
        "TG");
  CHECK(scene.changes().empty());
  CHECK(scene.cmd({"EXISTS", paused}) == 0);
  CHECK(scene.run(&Moves::release_and_pause, {with_end(scene.receipt("a"), 5), scene.receipt("b"), scene.receipt("a")},
                  1h, "why") == "TPS");
  CHECK(scene.cmd({"GET", paused}) == "why");
  CHECK(scene.cmd({"PTTL", paused}).integer > 3'590'000);
  CHECK(scene.cmd({"PTTL", paused}).integer <= 3'600'000);
  CHECK(scene.run(&Moves::release_and_pause, {scene.receipt("c")}, 2h, "other") == "S");
  CHECK(scene.cmd({"GET", paused}) == "why");
  CHECK(scene.cmd({"PTTL", paused}).integer <= 3'600'000);
}

TEST_CASE("release: by receipt needs the receipt of the current lease; each message has its own outcome") {
  Scene scene;
  scene.put(At::held, "a").put(At::held, "b").put(At::cancelled, "c", {10min, "", "2", "note"}).put(At::retry, "d");
  CHECK(scene.run(&Moves::release,
                  {scene.receipt("a"),
                   with_end(scene.receipt("b"), 5),
                   scene.receipt("c"),
                   scene.last_receipt("d"),
                   {scene.id("none"), 5}},
                  0ms) == "STSGG");
  CHECK(scene.changes() == "attempts -c; garbage +c; ready [.r2 .r1 a]; reason -c; unack -a -c; ");
}

TEST_CASE("release: waiting messages go to the head of ready, the last one first; 1, 199 or 200") {
  for (const std::size_t count : {1U, 199U, 200U}) {
    Scene scene;
    const int n = static_cast<int>(count);
    scene.put_many(At::pending, "p", n).put_many(At::backing_off, "b", n);
    CHECK(scene.run(&Moves::release_waiting, scene.many("p", n), false) == std::string(count, 'S'));
    CHECK(scene.run(&Moves::release_waiting, scene.many("b", n), true) == std::string(count, 'S'));
    auto expected = scene.ids({".r2", ".r1"});
    for (const auto& id : scene.many("p", n)) expected.push_back(id);
    for (const auto& id : scene.many("b", n)) expected.push_back(id);
    CHECK((scene.cmd({"LRANGE", scene.keys().ready, "0", "-1"}) == expected));
    CHECK(scene.lost().empty());
  }
}

TEST_CASE("release: attempts that are no number count as one delivery") {
  for (const std::string note : {"", "abc", "-1"}) {
    Scene scene;
    scene.put(At::held, "a").put(At::held, "b");
    for (const char* name : {"a", "b"}) scene.cmd({"HSET", scene.keys().attempts, scene.id(name), note});
    CHECK(scene.run(&Moves::release, {scene.receipt("a")}, 0ms) == "S");
    CHECK(scene.run(&Moves::release_waiting, {scene.id("b")}, true) == "S");
    CHECK(scene.lost().empty());
    CHECK(scene.run(&Moves::ready2unack, {2, 0, 0}, 5min).messages.size() == 2);
  }
}

}  // namespace
}  // namespace delayqueue::store
