#include "support/test.h"

#include "store/scripts.h"
#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

std::vector<std::string> keys_of(const Scene& scene) {
  return test::key_names(calls::pending2ready::keys(scene.keys()));
}

TEST_CASE("pending2ready: due messages move to ready, in the order of their due times, behind those in ready") {
  Scene scene;
  scene.put(At::pending, "a", {-1min}).put(At::pending, "b", {-3min}).put(At::pending, "c", {-2min});
  scene.put(At::pending, "later", {1min});
  const Promoted promoted = scene.run(&Moves::pending2ready, false, {"me", std::chrono::seconds(1)});
  CHECK(promoted.moved == 3);
  CHECK(promoted.ids.empty());
  CHECK(scene.changes() == "pending -a -b -c; ready [a c b .r2 .r1]; ");
}

TEST_CASE("pending2ready: messages with equal due times are delivered in the order of their ids, by creation time") {
  Scene scene;
  const std::int64_t due = scene.start_ms() - 1;
  for (const char* name : {"b", "d", "a", "c"}) {
    scene.put(At::pending, name);
    scene.cmd({"ZADD", scene.keys().pending, "XX", std::to_string(due / 1000), scene.id(name)});
  }
  const Promoted promoted = scene.run(&Moves::pending2ready, true, {"me", std::chrono::seconds(1)});
  CHECK(promoted.ids == scene.ids({"a", "b", "c", "d"}));
  CHECK(scene.changes() == "pending -a -b -c -d; ready [d c b a .r2 .r1]; ");
}

TEST_CASE("pending2ready: returns the time until the next message is due, and nothing when none is pending") {
  Scene scene;
  const std::int64_t first = scene.score_us(scene.keys().pending, ".p1");
  Promoted promoted = scene.run(&Moves::pending2ready, false, {"me", std::chrono::seconds(1)});
  CHECK(promoted.moved == 0);
  REQUIRE(promoted.next);
  CHECK(promoted.next->count() <= first - scene.before_us());
  CHECK(promoted.next->count() >= first - scene.after_us());
  CHECK(scene.changes().empty());
  scene.cmd({"DEL", scene.keys().pending});
  promoted = scene.run(&Moves::pending2ready, true, {"me", std::chrono::seconds(1)});
  CHECK(promoted.moved == 0);
  CHECK_FALSE(promoted.next);
  CHECK(scene.changes().empty());
}

TEST_CASE("pending2ready: never early: due exactly now moves, a microsecond or a millisecond later stays") {
  const std::int64_t now = 1'800'000'000'123'000;
  Scene scene;
  const auto put = [&](const char* name, std::int64_t us) {
    std::string score = std::to_string(us);
    score.insert(score.size() - 6, ".");
    scene.put(At::pending, name);
    scene.cmd({"ZADD", scene.keys().pending, "XX", score, scene.id(name)});
  };
  for (const char* name : {".p1", ".p2"}) scene.cmd({"ZREM", scene.keys().pending, scene.id(name)});
  put("ms", now + 1000);
  put("us", now + 1);
  put("now", now);
  put("was", now - 1);
  const auto answer = scene.run_at(now, scripts::pending2ready, keys_of(scene), {"200", "1", "me", "1000000"});
  CHECK(answer == std::vector<std::string>{"2", "1", scene.id("was") + " " + scene.id("now"), "1"});
  CHECK(scene.changes() == "pending -now -was; ready [now was .r2 .r1]; ");
}

TEST_CASE("clock set back: pending and held messages wait, and messages in ready are delivered") {
  Scene scene;
  const Keys& keys = scene.keys();
  scene.put(At::pending, "a", {-1min}).put(At::held, "b", {-1min});
  const std::int64_t yesterday = (scene.start_ms() - 24 * 3'600'000) * 1000 + 7;
  CHECK(
      scene.run_at(yesterday, scripts::pending2ready, keys_of(scene), {"200", "0", "me", "1000000"}).strings().at(0) ==
      "0");
  CHECK(scene.changes().empty());
  CHECK(scene.run_at(yesterday, scripts::unack2retry, test::key_names(calls::unack2retry::keys(keys)), {"200", "1"})
            .strings()
            .at(0) == "0");
  CHECK(scene.changes().empty());
  CHECK(scene
            .run_at(yesterday, scripts::ready2unack, test::key_names(calls::ready2unack::keys(keys)),
                    {"1", "0", "0", "60000000"})
            .strings()
            .at(0) == "1");
  CHECK(scene.changes() == "ready [.r2]; stats delivered+1; unack +.r1@lease+1m; ");
}

TEST_CASE("pending2ready: one call moves at most 200: of 0, 1, 199, 200 and 201 due, the earliest") {
  for (const std::size_t due : {0U, 1U, 199U, 200U, 201U}) {
    CAPTURE(due);
    Scene scene;
    scene.put_many(At::pending, "m", static_cast<int>(due), {-5min});
    const Promoted promoted = scene.run(&Moves::pending2ready, true, {"me", std::chrono::seconds(1)});
    const std::size_t expected = std::min<std::size_t>(due, 200);
    CHECK(promoted.moved == expected);
    CHECK(promoted.ids == scene.many("m", static_cast<int>(expected)));
    REQUIRE(promoted.next);
    CHECK((promoted.next->count() == 0) == (due == 201));
    CHECK(scene.cmd({"ZCARD", scene.keys().pending}) == 2 + due - expected);
    CHECK(scene.cmd({"LLEN", scene.keys().ready}) == 2 + expected);
    if (due == 201) CHECK(scene.score_us(scene.keys().pending, "m200") != 0);
  }
}

TEST_CASE("pending2ready: an id that is already in ready may be there twice") {
  Scene scene;
  scene.put(At::pending, "a", {-1min});
  scene.cmd({"LPUSH", scene.keys().ready, scene.id("a")});
  CHECK(scene.run(&Moves::pending2ready, false, {"me", std::chrono::seconds(1)}).moved == 1);
  CHECK(scene.changes() == "pending -a; ready [a a .r2 .r1]; ");
  const Taken taken = scene.run(&Moves::ready2unack, {200, 0, 0}, 5min);
  CHECK(taken.popped == 4);
  CHECK(taken.messages.size() == 3);
}

TEST_CASE("pending2ready: an id without a count is not delivered, and goes to garbage") {
  Scene scene;
  scene.cmd({"ZADD", scene.keys().pending, "1", "foreign id"});
  CHECK(scene.run(&Moves::pending2ready, false, {"me", std::chrono::seconds(1)}).moved == 1);
  const Taken taken = scene.run(&Moves::ready2unack, {200, 0, 0}, 5min);
  CHECK(taken.popped == 3);
  CHECK(taken.messages.size() == 2);
  CHECK(scene.cmd({"SISMEMBER", scene.keys().garbage, "foreign id"}) == 1);
}

}  // namespace
}  // namespace delayqueue::store
