#include "support/test.h"

#include "store/scripts.h"
#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

Scene::Setup no_dead_letters() {
  Scene::Setup setup;
  setup.moves.keep_dead = false;
  return setup;
}

TEST_CASE("unack2retry: an ended lease spends a retry and goes to retry; its end, number and reason are stored") {
  Scene scene;
  scene.put(At::held, "a", {-1min, "3"}).put(At::held, "b", {-2min, "1", "4"}).put(At::held, "c");
  const Reclaimed reclaimed = scene.run(&Moves::unack2retry, false);
  CHECK(reclaimed.moved == 2);
  CHECK(reclaimed.retried == scene.ids({"b", "a"}));
  CHECK(reclaimed.dead_lettered.empty());
  CHECK(scene.changes() ==
        "attempts +a=1,end b=4,end; reason +a=lease ended 1 time +b=lease ended 1 time; retry [a b .t2 .t1]; "
        "retry:cnt a=2 b=0; stats retried+2; unack -a -b; ");
}

TEST_CASE("unack2retry: a message without retries left becomes a dead letter, and keeps its reason") {
  Scene scene;
  scene.put(At::held, "a", {-1min, "0"}).put(At::backing_off, "b", {-1min, "0", "3", "too bad"});
  const Reclaimed reclaimed = scene.run(&Moves::unack2retry, false);
  CHECK(reclaimed.moved == 2);
  CHECK(reclaimed.retried.empty());
  CHECK(reclaimed.dead_lettered == scene.ids({"a", "b"}));
  CHECK(scene.changes() ==
        "attempts +a=1,end b=3,end; dead +a@now +b@now; reason +a=lease ended 1 time; retry:cnt -a -b; "
        "stats dead+2; unack -a -b; ");
}

TEST_CASE("unack2retry: without keep_dead a message without retries left goes straight to garbage") {
  Scene scene(no_dead_letters());
  scene.put(At::held, "a", {-1min, "0", "2", "note"}).put(At::held, "b", {-1min, "1"});
  const Reclaimed reclaimed = scene.run(&Moves::unack2retry, false);
  CHECK(reclaimed.dead_lettered == scene.ids({"a"}));
  CHECK(scene.changes() ==
        "attempts -a +b=1,end; garbage +a; reason -a +b=lease ended 1 time; retry [b .t2 .t1]; retry:cnt -a b=0; "
        "stats dead+1 retried+1; unack -a -b; ");
}

TEST_CASE("unack2retry: a foreign id with a retry count is counted and finished, not retried") {
  Scene::Setup alone;
  alone.lists = false;
  Scene scene(alone);
  scene.cmd({"ZADD", scene.keys().unack, "1", "hello"});
  scene.cmd({"HSET", scene.keys().count, "hello", "3"});
  scene.put(At::held, "a", {-1min});
  CHECK(scene.run(&Moves::unack2retry, false).retried == scene.ids({"a"}));
  CHECK(scene.cmd({"LRANGE", scene.keys().retry, "0", "-1"}).strings() == scene.ids({"a"}));
  CHECK(scene.cmd({"SISMEMBER", scene.keys().garbage, "hello"}) == 1);
  CHECK(scene.cmd({"HGET", scene.keys().stats, "foreign"}) == "1");
}

TEST_CASE("unack2retry: an ended backoff keeps the handler's reason; a Go worker's lease adds none") {
  Scene scene;
  scene.put(At::backing_off, "a", {-1min, "3", "", "no gateway"}).put(At::held_by_go, "b", {-1min});
  CHECK(scene.run(&Moves::unack2retry, false).moved == 2);
  CHECK(scene.changes() ==
        "attempts +a=1,end +b=1,end; retry [a b .t2 .t1]; retry:cnt a=2 b=2; stats retried+2; unack -a -b; ");
}

TEST_CASE("unack2retry: the reason counts leases that ended in a row, and starts again after a nack") {
  Scene scene;
  scene.put(At::held, "a", {-1min, "3", "2", "lease ended 1 time"});
  scene.put(At::held, "b", {-1min, "3", "9", "lease ended 8 times"})
      .put(At::held, "c", {-1min, "3", "2", "no gateway"});
  CHECK(scene.run(&Moves::unack2retry, false).moved == 3);
  CHECK(scene.cmd({"HMGET", scene.keys().reason, scene.id("a"), scene.id("b"), scene.id("c")}) ==
        std::vector<std::string>{"lease ended 2 times", "lease ended 9 times", "lease ended 1 time"});
}

TEST_CASE("unack2retry: a message cancelled while held goes to garbage, with any kind of holder") {
  Scene scene;
  scene.put(At::cancelled, "a", {-1min, "", "2", "note"}).put(At::held_by_go, "b", {-1min});
  scene.put(At::backing_off, "c", {-1min});
  scene.cmd({"HDEL", scene.keys().count, scene.id("b"), scene.id("c")});
  const Reclaimed reclaimed = scene.run(&Moves::unack2retry, false);
  CHECK(reclaimed.moved == 3);
  CHECK(reclaimed.retried.empty());
  CHECK(reclaimed.dead_lettered.empty());
  CHECK(scene.changes() == "attempts -a; garbage +a +b +c; reason -a; unack -a -b -c; ");
}

TEST_CASE("unack2retry: a dead letter that a late nack of a Go worker put into unack only leaves unack") {
  Scene scene;
  scene.put(At::dead, "a", {-1h, "", "", "too bad"});
  scene.cmd({"ZADD", scene.keys().unack, "1700000000", scene.id("a")});
  const Reclaimed reclaimed = scene.run(&Moves::unack2retry, false);
  CHECK(reclaimed.moved == 1);
  CHECK(reclaimed.retried.empty());
  CHECK(reclaimed.dead_lettered.empty());
  CHECK(scene.changes() == "unack -a; ");
}

TEST_CASE("unack2retry: an unknown id that a late nack of a Go worker put into unack goes to garbage") {
  Scene scene;
  scene.cmd({"ZADD", scene.keys().unack, "1700000000", scene.id("a")});
  CHECK(scene.run(&Moves::unack2retry, false).moved == 1);
  CHECK(scene.changes() == "garbage +a; unack -a; ");
}

TEST_CASE("unack2retry: a lease that ends exactly now has ended, one that ends a microsecond later has not") {
  const std::int64_t now = 1'800'000'000'123'457;
  Scene scene;
  scene.cmd({"DEL", scene.keys().unack});
  scene.put(At::held, "now").put(At::held, "next").put(At::held, "was");
  scene.cmd({"ZADD", scene.keys().unack, "1800000000.123457", scene.id("now"), "1800000000.123458", scene.id("next"),
             "1800000000.123456", scene.id("was")});
  const Keys& keys = scene.keys();
  const auto answer =
      scene.run_at(now, scripts::unack2retry, test::key_names(calls::unack2retry::keys(keys)), {"200", "1"});
  CHECK(answer == std::vector<std::string>{"2", "1", scene.id("was") + " " + scene.id("now"), ""});
  CHECK(scene.changes() ==
        "attempts +now=1,end +was=1,end; reason +now=lease ended 1 time +was=lease ended 1 time; "
        "retry [now was .t2 .t1]; retry:cnt now=2 was=2; stats retried+2; unack -now -was; ");
}

TEST_CASE("unack2retry: with only_backoffs ended backoffs move; leases of this library and of Go workers stay") {
  Scene scene;
  scene.put(At::held, "held", {-3min}).put(At::held_by_go, "go", {-3min}).put(At::backing_off, "back", {-1min});
  const Reclaimed reclaimed = scene.run(&Moves::unack2retry, true);
  CHECK(reclaimed.moved == 1);
  CHECK(reclaimed.retried == scene.ids({"back"}));
  REQUIRE(reclaimed.next);
  CHECK(reclaimed.next->count() > 0);  // not the time of the ended leases, which stay
  CHECK(scene.run(&Moves::unack2retry, true).moved == 0);
  CHECK(scene.run(&Moves::unack2retry, false).moved == 2);
}

TEST_CASE("unack2retry: returns the time until the next lease ends, and nothing when there is none") {
  Scene scene;
  const auto head = scene.cmd({"ZRANGE", scene.keys().unack, "0", "0", "WITHSCORES"}).strings();
  const auto first = static_cast<std::int64_t>(std::stod(head.at(1)) * 1e6);
  Reclaimed reclaimed = scene.run(&Moves::unack2retry, false);
  CHECK(reclaimed.moved == 0);
  REQUIRE(reclaimed.next);
  CHECK(reclaimed.next->count() <= first - scene.before_us() + 1);
  CHECK(reclaimed.next->count() >= first - scene.after_us() - 1);
  CHECK(scene.changes().empty());
  scene.cmd({"DEL", scene.keys().unack});
  reclaimed = scene.run(&Moves::unack2retry, false);
  CHECK(reclaimed.moved == 0);
  CHECK_FALSE(reclaimed.next);
  scene.put(At::held, "a", {-1min});
  reclaimed = scene.run(&Moves::unack2retry, false);
  CHECK(reclaimed.moved == 1);
  CHECK_FALSE(reclaimed.next);
}

TEST_CASE("unack2retry: one call moves at most 50: of 0, 1, 49, 50 and 51 ended, those that ended first") {
  for (const std::size_t ended : {0U, 1U, 49U, 50U, 51U}) {
    CAPTURE(ended);
    Scene scene;
    scene.put_many(At::held, "m", static_cast<int>(ended), {-5min});
    const Reclaimed reclaimed = scene.run(&Moves::unack2retry, false);
    const std::size_t expected = std::min<std::size_t>(ended, 50);
    CHECK(reclaimed.moved == expected);
    CHECK(reclaimed.retried == scene.many("m", static_cast<int>(expected)));
    REQUIRE(reclaimed.next);
    CHECK((reclaimed.next->count() == 0) == (ended == 51));
    CHECK(scene.cmd({"LLEN", scene.keys().retry}) == 2 + expected);
    if (ended == 51) CHECK(scene.score_us(scene.keys().unack, "m050") != 0);
  }
}

TEST_CASE("unack2retry: a retry count that is no whole number counts as 0, and strands no message") {
  for (const std::string retries : {"2.5", "", "abc", "-1", "1e3", " 3", "0x5", "nan"}) {
    CAPTURE(retries);
    Scene scene;
    scene.put(At::held, "a", {-1min, retries}).put(At::held, "b", {-2min, "3"});
    const Reclaimed reclaimed = scene.run(&Moves::unack2retry, false);
    CHECK(reclaimed.retried == scene.ids({"b"}));
    CHECK(reclaimed.dead_lettered == scene.ids({"a"}));
    CHECK(scene.score_us(scene.keys().dead, "a") != 0);
    CHECK(scene.score_us(scene.keys().unack, "a") == 0);
    CHECK(scene.lost().empty());
  }
}

TEST_CASE("unack2retry: a retry count larger than any integer type is still a retry count") {
  Scene scene;
  scene.put(At::held, "a", {-1min, "99999999999999999999999999"});
  CHECK(scene.run(&Moves::unack2retry, false).retried == scene.ids({"a"}));
  CHECK(scene.run(&Moves::ready2unack, {200, 200, 200}, 5min).messages.size() == 5);
  test::rewind(scene.keys().base, 1h);
  CHECK(scene.run(&Moves::unack2retry, false).retried.size() >= 1);
  CHECK(scene.lost().empty());
}

TEST_CASE("unack2retry: attempts that are no number count as one delivery") {
  for (const std::string note : {"", "abc", "-1", " 5"}) {
    Scene scene;
    scene.put(At::held, "a", {-1min});
    scene.cmd({"HSET", scene.keys().attempts, scene.id("a"), note});
    CHECK(scene.run(&Moves::unack2retry, false).retried == scene.ids({"a"}));
    CHECK(scene.changes().find("attempts a=1,end; ") == 0);
  }
}

TEST_CASE("retry: n retries are n + 1 deliveries, for nacks as for ended leases") {
  for (const int retries : {0, 1, 3}) {
    for (const bool by_nack : {true, false}) {
      CAPTURE(retries);
      CAPTURE(by_nack);
      Scene::Setup quiet;
      quiet.lists = false;
      Scene scene(quiet);
      scene.cmd({"DEL", scene.keys().unack});  // rewind would end these leases, too
      const auto id = scene.id("a");
      CHECK(scene.run(&Moves::send, {{id, "x"}}, {{0ms, 0}, retries}) == "1");
      int deliveries = 0;
      while (scene.score_us(scene.keys().dead, "a") == 0 && deliveries < 10) {
        const Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200}, 1min);
        REQUIRE(taken.messages.size() == 1);
        CHECK(taken.messages[0].second == ++deliveries);
        if (by_nack) scene.run(&Moves::nack, {{{id, taken.lease_us}, 1min, "again"}});
        test::rewind(scene.keys().base, 2min);
        scene.run(&Moves::unack2retry, false);
      }
      CHECK(deliveries == retries + 1);
      CHECK(scene.cmd({"LLEN", scene.keys().retry}) == 0);
      CHECK(scene.cmd({"LLEN", scene.keys().ready}) == 0);
      CHECK(scene.cmd({"HGET", scene.keys().stats, "delivered"}) == std::to_string(100 + retries + 1));
    }
  }
}

TEST_CASE("persist: the bodies of dead letters lose their TTL; other bodies keep it") {
  Scene scene;
  const test::Put with_ttl = {10min, "3", "", "", 1h};
  scene.put(At::dead, "a", with_ttl).put(At::dead, "b").put(At::pending, "c", with_ttl);
  scene.put(At::dead, "d", with_ttl).put(At::garbage, "e", with_ttl);
  CHECK(scene.run(&Moves::persist, scene.ids({"a", "b", "c", "none", "e"})) == 1);
  CHECK(scene.changes() == "msg a=payload; ");
}

TEST_CASE("persist: takes 1, 199 or 200 ids") {
  for (const std::size_t count : {1U, 199U, 200U}) {
    Scene scene;
    scene.put_many(At::dead, "m", static_cast<int>(count), {-1min, "", "", "", 1h});
    CHECK(scene.run(&Moves::persist, scene.many("m", static_cast<int>(count))) == count);
    CHECK(scene.ttl_ms("m000") == -1);
  }
}

}  // namespace
}  // namespace delayqueue::store
