#include "support/test.h"

#include "store/scripts.h"
#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Put;
using test::Scene;

const Put kTtl = {10min, "3", "", "", 1h};

Scene::Setup searching(std::size_t longest) {
  Scene::Setup setup;
  setup.moves.search_lists = longest;
  return setup;
}

std::string reschedule_at(Scene& scene, const std::string& name, std::int64_t at_ms) {
  return scene.run(&Moves::reschedule, scene.id(name), {std::nullopt, at_ms});
}

TEST_CASE("cancel: a message cancelled while held is not delivered again, however its delivery ends") {
  for (int ending = 0; ending < 5; ++ending) {
    CAPTURE(ending);
    Scene scene;
    scene.put(At::held, "a", {10min, "3", "2", "note"});
    const Receipt receipt = scene.receipt("a");
    CHECK(scene.run(&Moves::cancel, scene.id("a")) == "unack");
    CHECK(scene.run(&Moves::cancel, scene.id("a")) == "unack");
    CHECK(scene.changes().empty());
    if (ending == 0) CHECK(scene.run(&Moves::nack, {{receipt, 0ms, ""}}) == "S");
    if (ending == 1) CHECK(scene.run(&Moves::nack, {{receipt, std::nullopt, ""}}) == "S");
    if (ending == 2) CHECK(scene.run(&Moves::release, {receipt}, 0ms) == "S");
    if (ending == 3) CHECK(scene.run(&Moves::release, {receipt}, 5min) == "S");
    if (ending == 4) {
      test::rewind(scene.keys().base, 1h);
      scene.run(&Moves::unack2retry, false);
    }
    CHECK(scene.score_us(scene.keys().unack, "a") == 0);
    CHECK(scene.cmd({"SISMEMBER", scene.keys().garbage, scene.id("a")}) == 1);
    CHECK(scene.run(&Moves::gc, {scene.id("a")}) == 1);
    for (const auto& [key, value] : scene.state()) CHECK(value.find(scene.id("a")) == std::string::npos);
  }
}

TEST_CASE("cancel: a message whose body has expired is unknown") {
  for (const At at : {At::pending, At::ready, At::held, At::dead}) {
    Scene scene;
    scene.put(at, "a");
    scene.cmd({"DEL", scene.keys().bodies + scene.id("a")});
    CHECK(scene.run(&Moves::cancel, scene.id("a")) == "unknown");
    CHECK(scene.changes().empty());
    CHECK(scene.run(&Moves::reschedule, scene.id("a"), {5min, 0}) == "unknown");
    CHECK(scene.changes().empty());
  }
}

TEST_CASE("cancel: search_lists removes the id from lists that are not too long") {
  for (const std::size_t longest : {std::size_t{4}, std::size_t{3}}) {
    Scene scene(searching(longest));
    scene.put(At::ready, "a").put(At::ready, "b").put(At::retry, "c").put(At::retry, "d");
    CHECK(scene.run(&Moves::cancel, scene.id("a")) == "ready");
    const bool searched = longest == 4;
    CHECK(scene.changes() ==
          std::string("msg -a; ") + (searched ? "ready [b .r2 .r1]; " : "") + "retry:cnt -a; stats cancelled+1; ");
    CHECK(scene.run(&Moves::cancel, scene.id("c")) == "retry");
    CHECK(scene.changes() == std::string("msg -c; attempts -c; ") + (searched ? "retry [d .t2 .t1]; " : "") +
                                 "retry:cnt -c; stats cancelled+1; ");
  }
}

TEST_CASE("reschedule: search_lists removes the id from lists that are not too long") {
  for (const std::size_t longest : {std::size_t{3}, std::size_t{2}}) {
    Scene scene(searching(longest));
    scene.put(At::ready, "a").put(At::retry, "c");
    CHECK(scene.run(&Moves::reschedule, scene.id("a"), {20min, 0}) == "moved");
    CHECK(scene.changes() == std::string("pending +a@now+20m; ") + (longest == 3 ? "ready [.r2 .r1]; " : ""));
    CHECK(scene.run(&Moves::reschedule, scene.id("c"), {20min, 0}) == "moved");
    CHECK(scene.changes() ==
          std::string("attempts c=1; pending +c@now+20m; ") + (longest == 3 ? "retry [.t2 .t1]; " : ""));
  }
}

TEST_CASE("reschedule: to an absolute time it is due then; to a past time it is ready") {
  Scene scene;
  scene.put(At::pending, "a").put(At::pending, "b").put(At::backing_off, "c").put(At::retry, "d");
  CHECK(reschedule_at(scene, "a", scene.start_ms() + 1'200'000) == "moved");
  CHECK(scene.changes() == "pending a@start+20m; ");
  CHECK(reschedule_at(scene, "b", scene.start_ms() - 1) == "moved");
  CHECK(scene.changes() == "pending -b; ready [b .r2 .r1]; ");
  CHECK(reschedule_at(scene, "c", scene.start_ms() + 1'200'000) == "moved");
  CHECK(scene.changes() == "attempts +c=1; pending +c@start+20m; unack -c; ");
  CHECK(reschedule_at(scene, "d", 0) == "moved");
  CHECK(scene.changes() == "attempts d=1; ready [d b .r2 .r1]; ");
}

TEST_CASE("reschedule: a delay within a millisecond is rounded up; a message due exactly now is ready") {
  const std::int64_t now = 1'800'000'000'123'001;
  struct {
    const char* delay;
    const char* due;
    std::int64_t pending_us;
  } const cases[] = {{"5", "", now + 5999}, {"0", "", 0}, {"", "1800000000123", 0}, {"", "1800000000124", now + 999}};
  for (const auto& one : cases) {
    Scene scene;
    scene.put(At::pending, "a");
    const Keys& keys = scene.keys();
    CHECK(scene.run_at(now, scripts::reschedule,
                       test::key_names(calls::reschedule::keys(keys, {keys.bodies, scene.id("a")})),
                       {one.delay, one.due, "0"}) == "moved");
    CHECK(scene.score_us(keys.pending, "a") == one.pending_us);
    CHECK(scene.cmd({"LLEN", keys.ready}) == (one.pending_us == 0 ? 3 : 2));
  }
}

TEST_CASE("reschedule: a TTL moves with the due time, later and earlier; without one a body never expires") {
  struct {
    At at;
    milliseconds delay, life;
  } const cases[] = {{At::pending, 20min, 70min}, {At::pending, 1min, 51min}, {At::pending, 0ms, 50min},
                     {At::ready, 20min, 80min},   {At::retry, 20min, 80min},  {At::backing_off, 20min, 80min},
                     {At::ready, 0ms, 60min}};
  for (const auto& one : cases) {
    CAPTURE(to_string(one.at));
    CAPTURE(one.delay.count());
    Scene scene;
    scene.put(one.at, "a", kTtl).put(one.at, "b");
    for (const char* name : {"a", "b"}) {
      CHECK(scene.run(&Moves::reschedule, scene.id(name), {one.delay, 0}) == "moved");
    }
    const std::int64_t later = scene.before_us() / 1000 - scene.start_ms();
    CHECK(scene.ttl_ms("a") <=
          one.life.count() + 1001 + later);  // the pending one was due within a second of 10 minutes
    CHECK(scene.ttl_ms("a") > one.life.count() - 30'000);
    CHECK(scene.ttl_ms("b") == -1);
  }
}

TEST_CASE("reschedule: retries stay, and the next delivery is numbered after the last") {
  Scene scene;
  scene.put(At::retry, "a", {10min, "2", "4 1700000000123457", "note"});
  CHECK(scene.run(&Moves::reschedule, scene.id("a"), {0ms, 0}) == "moved");
  CHECK(scene.changes() == "attempts a=4; ready [a .r2 .r1]; ");
  const Taken taken = scene.run(&Moves::ready2unack, {200, 0, 0}, 5min);
  REQUIRE(taken.messages.size() == 3);
  CHECK(taken.messages[2] == std::pair(scene.id("a"), 5));
  CHECK(scene.cmd({"HGET", scene.keys().count, scene.id("a")}) == "2");
}

TEST_CASE("reschedule: attempts that are no number do not prevent it") {
  for (const At at : {At::pending, At::ready, At::retry, At::backing_off}) {
    for (const std::string note : {"", "abc", "-1", " 5"}) {
      CAPTURE(to_string(at));
      CAPTURE(note);
      Scene scene;
      scene.put(at, "a", kTtl);
      scene.cmd({"HSET", scene.keys().attempts, scene.id("a"), note});
      CHECK(test::refusal([&] { CHECK(scene.run(&Moves::reschedule, scene.id("a"), {20min, 0}) == "moved"); }) == "");
      CHECK(scene.score_us(scene.keys().pending, "a") >= scene.before_us() + 1'200'000'000);
      CHECK(scene.lost().empty());
    }
  }
}

TEST_CASE("redrive: a dead letter is ready again, as a new message with its retries") {
  Scene scene;
  scene.put(At::dead, "a", {-1h, "", "5 1700000000123457", "too bad"}).put(At::dead, "b");
  CHECK(scene.run(&Moves::redrive, scene.ids({"b", "a"}), 7) == "SS");
  CHECK(scene.changes() ==
        "attempts a=0 b=0; dead -a -b; ready [a b .r2 .r1]; reason -a; retry:cnt +a=7 +b=7; stats redriven+2; ");
  const Taken taken = scene.run(&Moves::ready2unack, {200, 0, 0}, 5min);
  REQUIRE(taken.messages.size() == 4);
  CHECK(taken.messages[2] == std::pair(scene.id("b"), 1));
}

TEST_CASE("redrive: a dead letter without a body is reported, and leaves dead; other messages are not changed") {
  Scene scene;
  scene.put(At::dead, "a").put(At::dead, "b").put(At::pending, "c").put(At::held, "d").put(At::garbage, "e");
  scene.cmd({"DEL", scene.keys().bodies + scene.id("a")});
  CHECK(scene.run(&Moves::redrive, scene.ids({"a", "b", "c", "d", "e", "none"}), 3) == "BSGGGG");
  CHECK(scene.changes() ==
        "attempts b=0; dead -a -b; garbage +a; ready [b .r2 .r1]; retry:cnt +b=3; stats redriven+1; ");
  CHECK(scene.run(&Moves::gc, {scene.id("a")}) == 1);
  CHECK(scene.changes() == "attempts -a; garbage -a; ");
}

TEST_CASE("redrive: a message that is also in garbage leaves garbage") {
  Scene scene;
  scene.put(At::dead, "a");
  scene.cmd({"SADD", scene.keys().garbage, scene.id("a")});
  CHECK(scene.run(&Moves::redrive, scene.ids({"a"}), 3) == "S");
  CHECK(scene.changes() == "attempts a=0; dead -a; garbage -a; ready [a .r2 .r1]; retry:cnt +a=3; stats redriven+1; ");
}

TEST_CASE("redrive: takes 1, 199 or 200 ids") {
  for (const std::size_t count : {1U, 199U, 200U}) {
    Scene scene;
    scene.put_many(At::dead, "m", static_cast<int>(count));
    CHECK(scene.run(&Moves::redrive, scene.many("m", static_cast<int>(count)), 3) == std::string(count, 'S'));
    CHECK(scene.cmd({"ZCARD", scene.keys().dead}) == 2);
    CHECK(scene.cmd({"LLEN", scene.keys().ready}) == 2 + count);
    CHECK(scene.lost().empty());
  }
}

TEST_CASE("purge: messages that leave dead or pending go to garbage, oldest first, and are counted") {
  Scene scene;
  scene.put(At::dead, "a", {-3h, "", "", "too bad"}).put(At::dead, "b", {-2h}).put(At::dead, "c", {-1h});
  Purged purged = scene.run(&Moves::purge_zset, scene.keys().dead, 2, std::nullopt, 0);
  CHECK(purged.removed == 2);
  CHECK(purged.purged == 2);
  CHECK(purged.garbage == scene.ids({"a", "b"}));
  CHECK(scene.changes() == "attempts -a -b; dead -a -b; garbage +a +b; reason -a; stats purged+2; ");
  scene.put(At::pending, "d", {1min}).put(At::pending, "e", {2min});
  purged = scene.run(&Moves::purge_zset, scene.keys().pending, 1, std::nullopt, 0);
  CHECK(purged.garbage == scene.ids({"d"}));
  CHECK(scene.changes() == "garbage +d; pending -d; retry:cnt -d; stats purged+1; ");
}

TEST_CASE("purge: removes only messages that are old enough, and keeps the newest as many as requested") {
  Scene scene;
  scene.put(At::dead, "a", {-3h}).put(At::dead, "b", {-2h}).put(At::dead, "c", {-1h});  // and two of now + 10 min
  const auto& dead = scene.keys().dead;
  CHECK(scene.run(&Moves::purge_zset, dead, 200, 4h, 0).removed == 0);
  CHECK(scene.changes().empty());
  CHECK(scene.run(&Moves::purge_zset, dead, 200, std::nullopt, 5).removed == 0);
  CHECK(scene.run(&Moves::purge_zset, dead, 200, std::nullopt, 6).removed == 0);
  CHECK(scene.run(&Moves::purge_zset, dead, 200, std::nullopt, 4).garbage == scene.ids({"a"}));
  CHECK(scene.run(&Moves::purge_zset, dead, 200, 90min, 0).garbage == scene.ids({"b"}));
  CHECK(scene.run(&Moves::purge_zset, dead, 200, 0ms, 0).garbage == scene.ids({"c"}));
  CHECK(scene.run(&Moves::purge_zset, dead, 200, std::nullopt, 0).garbage == scene.ids({".d1", ".d2"}));
}

TEST_CASE(
    "purge: ids in a list count as at delivery: those in a zset stay there, those without a count are no message") {
  for (const At list : {At::ready, At::retry}) {
    Scene::Setup quiet;
    quiet.lists = false;
    Scene scene(quiet);
    const auto& key = list == At::ready ? scene.keys().ready : scene.keys().retry;
    scene.put(list, "a", {10min, "3", "2", "note"}).put(At::held, "b").put(At::pending, "c").put(At::dead, "d");
    scene.put(list, "f").put(list, "g");
    scene.cmd({"RPUSH", key, scene.id("b"), scene.id("c"), scene.id("d"), scene.id("e")});
    const Purged purged = scene.run(&Moves::purge_list, key, 6);
    CHECK(purged.removed == 6);
    CHECK(purged.purged == 2);
    const std::string name = list == At::ready ? "ready [g]; " : "retry [g]; ";
    const std::string notes = list == At::ready ? "attempts -a; " : "attempts -a -f; ";
    CHECK(scene.changes() == notes + "garbage +a +e +f; " + (list == At::ready ? name : "") + "reason -a; " +
                                 (list == At::ready ? "" : name) + "retry:cnt -a -f; stats purged+2; ");
  }
}

TEST_CASE("purge: an id twice in a list is one message") {
  Scene scene;
  scene.put(At::ready, "a");
  scene.cmd({"LPUSH", scene.keys().ready, scene.id("a")});
  const Purged purged = scene.run(&Moves::purge_list, scene.keys().ready, 200);
  CHECK(purged.removed == 4);
  CHECK(purged.purged == 3);
  CHECK(scene.changes() == "garbage +.r1 +.r2 +a; ready []; retry:cnt -.r1 -.r2 -a; stats purged+3; ");
}

TEST_CASE("purge: takes at most its limit of 0, 1, 199 or 200, and never more than 200") {
  for (const std::size_t limit : {0U, 1U, 199U, 200U, 201U}) {
    CAPTURE(limit);
    Scene::Setup quiet;
    quiet.lists = false;
    Scene scene(quiet);
    scene.put_many(At::dead, "d", 201, {-1h}).put_many(At::ready, "r", 201);
    const std::size_t expected = std::min<std::size_t>(limit, 200);
    Purged purged;
    CHECK(test::refusal([&] { purged = scene.run(&Moves::purge_zset, scene.keys().dead, limit, std::nullopt, 0); }) ==
          "");
    CHECK(purged.purged == expected);
    CHECK(scene.cmd({"ZCARD", scene.keys().dead}) == 203 - expected);
    CHECK(test::refusal([&] { purged = scene.run(&Moves::purge_list, scene.keys().ready, limit); }) == "");
    CHECK(purged.purged == expected);
    CHECK(scene.cmd({"LLEN", scene.keys().ready}) == 201 - expected);
  }
}

TEST_CASE("purge_hints: removes ids without a message from a list, up to the first that has one") {
  for (const At list : {At::ready, At::retry}) {
    Scene::Setup quiet;
    quiet.lists = false;
    Scene scene(quiet);
    const auto& key = list == At::ready ? scene.keys().ready : scene.keys().retry;
    scene.put(At::held, "b").put(At::pending, "c").put(At::dead, "d").put(list, "a");
    scene.cmd({"RPUSH", key, scene.id("b"), scene.id("c"), scene.id("d"), scene.id("e"), scene.id("e")});
    Purged purged = scene.run(&Moves::purge_hints, key);
    CHECK(purged.removed == 5);
    CHECK(purged.purged == 0);
    CHECK(purged.garbage == scene.ids({"e"}));
    CHECK(scene.changes() == (list == At::ready ? "garbage +e; ready [a]; " : "garbage +e; retry [a]; "));
    CHECK(scene.run(&Moves::purge_hints, key).removed == 0);
    CHECK(scene.changes().empty());
  }
}

TEST_CASE("forget: deletes only a queue without messages, counts and garbage; then it deletes all keys except bodies") {
  Scene::Setup bare;
  bare.recorded = false;
  for (const char* left : {"pending", "ready", "unack", "retry", "dead", "retry:cnt", "garbage"}) {
    Scene scene(bare);
    test::Redis& redis = test::redis();
    for (const std::string& key : redis.cmd({"KEYS", scene.keys().base + ":*"}).strings()) redis.cmd({"DEL", key});
    redis.cmd({"SET", scene.keys().base + ':' + left, "x"});
    redis.cmd({"SET", scene.keys().stats, "x"});
    CHECK_FALSE(scene.run(&Moves::forget));
    CHECK(redis.cmd({"EXISTS", scene.keys().stats}) == 1);
    redis.cmd({"DEL", scene.keys().base + ':' + left});
    for (const char* key : {"attempts", "reason", "stats", "paused", "wake", "wakes", "watch", "lock", "limits",
                            "running", "unique", "keys", "consumers", "actions", "msg:x"}) {
      redis.cmd({"SET", scene.keys().base + ':' + key, "x"});
    }
    redis.cmd({"HSET", scene.keys().settings, "pause", "7", "limits", "8", "length", "9"});
    CHECK(scene.run(&Moves::forget));
    CHECK(redis.cmd({"KEYS", scene.keys().base + ":*"}).strings() ==
          std::vector<std::string>{scene.keys().base + ":msg:x"});
  }
}

TEST_CASE("forget: the layout of the queue's partitions stays, because senders may have read it; the pause goes") {
  Scene::Setup bare;
  bare.recorded = false;
  Scene scene(bare);
  test::Redis& redis = test::redis();
  for (const std::string& key : redis.cmd({"KEYS", scene.keys().base + ":*"}).strings()) redis.cmd({"DEL", key});
  redis.cmd({"HSET", scene.keys().settings, "pause", "7", "top", "8"});
  CHECK(scene.run(&Moves::forget));
  CHECK(redis.cmd({"HGETALL", scene.keys().settings}).strings() == std::vector<std::string>{"top", "8"});
}

TEST_CASE("lock: one operator holds it until it unlocks or the time is over") {
  Scene::Setup bare;
  bare.recorded = false;
  Scene scene(bare);
  CHECK(scene.run(&Moves::lock, "a", 1h));
  CHECK_FALSE(scene.run(&Moves::lock, "b", 1h));
  CHECK_FALSE(scene.run(&Moves::unlock, "b"));
  CHECK_FALSE(scene.run(&Moves::lock, "b", 1h));
  CHECK(scene.run(&Moves::unlock, "a"));
  CHECK(scene.run(&Moves::lock, "b", 1ms));
  while (!scene.run(&Moves::lock, "a", 1h)) {
  }
  CHECK_FALSE(scene.run(&Moves::unlock, "b"));
  CHECK(scene.run(&Moves::unlock, "a"));
}

}  // namespace
}  // namespace delayqueue::store
