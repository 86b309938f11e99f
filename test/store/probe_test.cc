// The probe: one message of ready of which is known since when it has been due.
#include "support/test.h"

#include "store/queries.h"
#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

// The field; empty: there is none.
std::string probe(Scene& scene) { return scene.cmd({"HGET", scene.keys().stats, "probe"}).text; }

std::string probe_id(Scene& scene) { return probe(scene).substr(0, 36); }

std::int64_t probe_since(Scene& scene) { return std::stoll(probe(scene).substr(37)); }

void note(Scene& scene, const std::string& name, const std::string& since = "1000000000000000") {
  scene.cmd({"HSET", scene.keys().stats, "probe", scene.id(name) + " " + since});
}

std::optional<std::int64_t> oldest_ready(Scene& scene) {
  Pipeline pipeline(scene.connection());
  const auto answer = counts(pipeline, scene.keys());
  pipeline.run();
  return answer.get().oldest_ready_us;
}

Taken take(Scene& scene, std::size_t most) { return scene.run(&Moves::ready2unack, {most, 0, 0}, 5min); }

TEST_CASE("probe: the first message due now in an empty ready is noted, with the time of Redis") {
  for (const bool alone : {true, false}) {
    for (const std::string& payload : {std::string("x"), std::string(kStagedBytes, 'x')}) {
      CAPTURE(alone);
      CAPTURE(payload.size());
      Scene scene(Scene::Setup::without_lists());
      const std::int64_t before = scene.now_us();
      std::vector<NewMessage> messages = {{scene.keep("a"), payload}};
      if (!alone) messages.push_back({scene.keep("b"), payload});
      scene.run(&Moves::send, messages, {{0ms, 0}, 3, 0ms, true});
      CHECK(probe_id(scene) == scene.id("a"));
      CHECK(probe_since(scene) >= before);
      CHECK(probe_since(scene) <= scene.now_us());
      CHECK(oldest_ready(scene) == probe_since(scene));
      const std::string noted = probe(scene);
      scene.run(&Moves::send, {{scene.keep("c"), payload}}, {{0ms, 0}, 3, 0ms, true});
      scene.run(&Moves::send, {{scene.keep("d"), payload}, {scene.keep("e"), payload}}, {{0ms, 0}, 3, 0ms, true});
      CHECK(probe(scene) == noted);
    }
  }
}

TEST_CASE("probe: a scheduled message is none; a time in the past is due now") {
  Scene scene(Scene::Setup::without_lists());
  scene.run(&Moves::send, {{scene.keep("a"), "x"}}, {{1h, 0}, 3, 0ms, true});
  CHECK(probe(scene).empty());
  CHECK_FALSE(oldest_ready(scene));
  const std::int64_t before = scene.now_us();
  scene.run(&Moves::send, {{scene.keep("b"), "x"}}, {{std::nullopt, 1000}, 3, 0ms, true});
  CHECK(probe_id(scene) == scene.id("b"));
  CHECK(probe_since(scene) >= before);
}

TEST_CASE("probe: pending2ready and pending2unack note the first that goes to an empty ready, since its due time") {
  for (const bool takes : {false, true}) {
    CAPTURE(takes);
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::pending, "a", {-3min}).put(At::pending, "b", {-2min}).put(At::pending, "c", {-1min});
    const std::string first = takes ? "b" : "a";
    const std::int64_t due = scene.score_us(scene.keys().pending, first);
    if (takes) {
      scene.run(&Moves::pending2unack, false, {"me", std::chrono::seconds(1)}, {200, 1}, 5min);
    } else {
      scene.run(&Moves::pending2ready, false, {"me", std::chrono::seconds(1)});
    }
    CHECK(probe_id(scene) == scene.id(first));
    CHECK(probe_since(scene) == due);
    CHECK(oldest_ready(scene) == due);
    const std::string noted = probe(scene);
    scene.put(At::pending, "d", {-4min});
    scene.run(&Moves::pending2ready, false, {"me", std::chrono::seconds(1)});
    CHECK(probe(scene) == noted);
    scene.put(At::pending, "e", {-4min});
    scene.run(&Moves::pending2unack, false, {"me", std::chrono::seconds(1)}, {200, 1}, 5min);
    CHECK(probe(scene) == noted);
  }
}

TEST_CASE("probe: when it is taken, the answer has how late it is, and the newest message in ready follows") {
  Scene scene(Scene::Setup::without_lists());
  scene.put(At::ready, "a").put(At::ready, "b").put(At::ready, "c");
  note(scene, "a", std::to_string(scene.now_us() - 60'000'000));
  const Taken first = take(scene, 1);
  CHECK(first.timed_id == scene.id("a"));
  CHECK(first.late >= 60s);
  CHECK(first.late < 120s);
  CHECK(probe_id(scene) == scene.id("c"));
  CHECK(probe_since(scene) >= first.now_us);
  const std::string noted = probe(scene);
  const Taken second = take(scene, 1);
  CHECK(second.timed_id.empty());
  CHECK(probe(scene) == noted);
  const Taken third = take(scene, 1);
  CHECK(third.timed_id == scene.id("c"));
  CHECK(probe(scene).empty());
  CHECK_FALSE(oldest_ready(scene));
}

TEST_CASE("probe: pending2unack returns how late the first message is") {
  Scene scene(Scene::Setup::without_lists());
  scene.put(At::pending, "a", {-3min}).put(At::pending, "b", {-2min});
  const auto both = scene.run(&Moves::pending2unack, false, {"me", std::chrono::seconds(1)}, {200, 200}, 5min);
  REQUIRE(both.taken);
  CHECK(both.taken->timed_id == scene.id("a"));
  CHECK(both.taken->late >= 3min);
  CHECK(both.taken->late < 4min);
}

TEST_CASE("probe: one that a Go worker took, or that was cancelled or rescheduled, does not count, and is replaced") {
  for (const std::string& what : {std::string("held"), std::string("acked by Go"), std::string("cancelled"),
                                  std::string("rescheduled"), std::string("retry"), std::string("dead")}) {
    CAPTURE(what);
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::ready, "a").put(At::ready, "b").put(At::ready, "c");
    note(scene, "a");
    CHECK(oldest_ready(scene) == 1'000'000'000'000'000);
    if (what == "cancelled") {
      scene.run(&Moves::cancel, scene.keep("a"));
    } else if (what == "rescheduled") {  // by a client that leaves the field
      scene.cmd({"ZADD", scene.keys().pending, "9999999999", scene.id("a")});
    } else if (what == "dead") {
      scene.run(&Moves::bury, {scene.id("a")}, "why", false);
    } else {
      scene.cmd({"RPOP", scene.keys().ready});
    }
    if (what == "held") scene.cmd({"ZADD", scene.keys().unack, "9999999999", scene.id("a")});
    if (what == "acked by Go") scene.cmd({"HDEL", scene.keys().count, scene.id("a")});
    if (what == "retry") {
      scene.cmd({"LPUSH", scene.keys().retry, scene.id("a")});
      scene.cmd({"HSET", scene.keys().attempts, scene.id("a"), "1 1000000000000001"});
    }
    CHECK_FALSE(oldest_ready(scene));
    const bool left_behind = what == "cancelled" || what == "rescheduled" || what == "dead";
    if (left_behind) {  // the id that was left in the list is taken first
      scene.cmd({"RPOP", scene.keys().ready});
    }
    take(scene, 1);
    CHECK(probe_id(scene) == scene.id("c"));
    CHECK(oldest_ready(scene) == probe_since(scene));
  }
}

TEST_CASE("probe: a message that does not wait in ready is none, although its id is the newest there") {
  for (const std::string& what : {std::string("taken"), std::string("held"), std::string("cancelled"),
                                  std::string("rescheduled"), std::string("retry")}) {
    CAPTURE(what);
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::ready, "a").put(At::ready, "b").put(At::ready, "c");
    note(scene, "a");
    if (what == "taken") {  // a second entry of the message that is taken
      scene.cmd({"LPUSH", scene.keys().ready, scene.id("a")});
    } else {
      scene.cmd({"LPUSH", scene.keys().ready, scene.id("d")});
      if (what != "cancelled") scene.cmd({"HSET", scene.keys().count, scene.id("d"), "3"});
      if (what == "held") scene.cmd({"ZADD", scene.keys().unack, "9999999999", scene.id("d")});
      if (what == "rescheduled") scene.cmd({"ZADD", scene.keys().pending, "9999999999", scene.id("d")});
      if (what == "retry") scene.cmd({"HSET", scene.keys().attempts, scene.id("d"), "1 1000000000000001"});
    }
    CHECK(take(scene, 1).timed_id == scene.id("a"));
    CHECK(probe(scene).empty());
    note(scene, "gone");  // nor does it follow a probe that another program has taken
    take(scene, 1);
    CHECK(probe(scene).empty());
    scene.put(At::ready, "e");
    take(scene, 1);
    CHECK(probe_id(scene) == scene.id("e"));
  }
}

TEST_CASE("probe: one that is taken through an old place in retry is the probe no longer") {
  for (const bool alone : {true, false}) {
    CAPTURE(alone);
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::ready, "a");
    scene.cmd({"LPUSH", scene.keys().retry, scene.id("a")});
    scene.cmd({"HSET", scene.keys().attempts, scene.id("a"), "0"});
    if (!alone) scene.put(At::ready, "b");
    note(scene, "a", std::to_string(scene.now_us() - 60'000'000));
    const Taken taken = scene.run(&Moves::ready2unack, {1, 1, 1}, 5min);
    CHECK(taken.from_retry == 1);
    CHECK(taken.timed_id == scene.id("a"));
    CHECK(taken.late >= 60s);
    CHECK(probe_id(scene) == (alone ? "" : scene.id("b")));
  }
}

TEST_CASE("probe: a message that becomes ready again later is not as old as it was before") {
  for (const std::string& what : {std::string("rescheduled"), std::string("rescheduled to now"), std::string("sent"),
                                  std::string("restored"), std::string("redriven")}) {
    for (const std::string& name : {std::string("a"), std::string("b")}) {
      CAPTURE(what);
      CAPTURE(name);
      Scene scene(Scene::Setup::without_lists());
      scene.put(At::ready, "a").put(At::ready, "b").put(At::ready, "c");
      note(scene, "a");
      if (what == "rescheduled") {
        scene.run(&Moves::reschedule, scene.keep(name), {1h, 0});
        scene.cmd({"ZADD", scene.keys().pending, "1700000000", scene.id(name)});  // an hour later
        scene.run(&Moves::pending2ready, false, {"me", std::chrono::seconds(1)});
      } else if (what == "rescheduled to now") {
        scene.run(&Moves::reschedule, scene.keep(name), {0ms, 0});
      } else if (what == "redriven") {
        scene.run(&Moves::bury, {scene.id(name)}, "why", false);
        CHECK(scene.run(&Moves::redrive, {scene.id(name)}, 3) == "S");
      } else {
        scene.run(&Moves::cancel, scene.keep(name));
        CHECK((what == "sent"
                   ? scene.run(&Moves::send, {{scene.keep(name), "x"}}, {{0ms, 0}, 3, 0ms, false})
                   : scene.run(&Moves::restore, {{scene.keep(name), false, 0, 3, 0, 0ms, "", "x", ""}})) == "1");
      }
      CHECK(oldest_ready(scene).has_value() == (name == "b"));  // another message does not change the probe
    }
  }
}

TEST_CASE("probe: values that other programs have written fail nothing, and are replaced") {
  const std::string id = "00000000-0000-7000-8000-610000000000";
  for (const std::string& value :
       {std::string(), std::string("x"), std::string(" 1"), id, id + " ", id + " x", id + " -1", std::string(5000, '9'),
        std::string("a b c 1"), std::string("\0 1", 3), id + " " + std::string(500, '9')}) {
    CAPTURE(value);
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::ready, "a").put(At::ready, "b").put(At::ready, "c");
    scene.cmd({"HSET", scene.keys().stats, "probe", value});
    CHECK_NOTHROW(oldest_ready(scene));
    const Taken taken = take(scene, 1);
    CHECK(taken.popped == 1);
    CHECK(taken.late == 0s);
    CHECK(probe_id(scene) == scene.id("c"));
  }
}

TEST_CASE("probe: ids that are no UUIDs, and due times of any size, are tolerated") {
  for (const std::string& due : {std::string("-inf"), std::string("-1e300"), std::string("0")}) {
    for (const std::string& id :
         {std::string("short"), std::string(36, ' '), std::string(36, '\0'), std::string(3000, 'x')}) {
      CAPTURE(due);
      CAPTURE(id.size());
      Scene scene(Scene::Setup::without_lists());
      scene.cmd({"ZADD", scene.keys().pending, due, id});
      const std::string noted = id.size() == 36 ? id.c_str() + std::string(" 0") : "";  // Lua's %s ends at a zero
      scene.run(&Moves::pending2ready, false, {"me", std::chrono::seconds(1)});
      CHECK(scene.cmd({"LLEN", scene.keys().ready}) == 1);
      CHECK(probe(scene) == noted);
      CHECK_NOTHROW(oldest_ready(scene));
      CHECK(take(scene, 1).popped == 1);
      scene.cmd({"ZADD", scene.keys().pending, due, id});
      CHECK_NOTHROW(scene.run(&Moves::pending2unack, false, {"me", std::chrono::seconds(1)}, {200, 1}, 5min));
      scene.cmd({"ZADD", scene.keys().pending, due, id});
      scene.run(&Moves::pending2unack, false, {"me", std::chrono::seconds(1)}, {200, 0}, 5min);  // moves it to ready
      CHECK(probe(scene) == noted);
    }
  }
}

TEST_CASE("probe: a take from retry alone leaves it; an id that is no UUID does not follow it") {
  Scene scene(Scene::Setup::without_lists());
  scene.put(At::ready, "a").put(At::ready, "b").put(At::retry, "c");
  note(scene, "gone");
  CHECK(scene.run(&Moves::ready2unack, {1, 1, 1}, 5min).from_retry == 1);
  CHECK(probe_id(scene) == scene.id("gone"));
  scene.cmd({"LPUSH", scene.keys().ready, "x"});
  note(scene, "a");
  CHECK(take(scene, 1).timed_id == scene.id("a"));
  CHECK(probe(scene).empty());
}

TEST_CASE("probe: stats of a wrong type stops no move, and there is no probe") {
  Scene scene(Scene::Setup::without_lists());
  scene.cmd({"DEL", scene.keys().stats});
  scene.cmd({"SET", scene.keys().stats, "x"});
  scene.run(&Moves::send, {{scene.keep("a"), "x"}}, {{0ms, 0}, 3, 0ms, true});
  scene.run(&Moves::send, {{scene.keep("b"), "x"}, {scene.keep("c"), "x"}}, {{0ms, 0}, 3, 0ms, true});
  CHECK_FALSE(oldest_ready(scene));
  CHECK(take(scene, 2).messages.size() == 2);
  scene.put(At::pending, "d", {-1min});
  scene.run(&Moves::pending2ready, false, {"me", std::chrono::seconds(1)});
  CHECK(take(scene, 2).messages.size() == 2);
}

TEST_CASE("probe: in a paused queue it stays, and its time goes on") {
  Scene scene(Scene::Setup::without_lists());
  scene.put(At::ready, "a");
  note(scene, "a");
  scene.cmd({"SET", scene.keys().paused, "1"});
  CHECK(take(scene, 1).popped == 0);
  CHECK(oldest_ready(scene) == 1'000'000'000'000'000);
}

}  // namespace
}  // namespace delayqueue::store
