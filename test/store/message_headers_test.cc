// Where the headers of a message are stored, which moves keep them, and which ones remove them: those that delete the
// body.
#include "support/test.h"

#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

const std::string kHeaders = "\1k\1v";

test::Put with_headers() {
  test::Put what;
  what.headers = kHeaders;
  return what;
}

bool has_headers(Scene& scene, const std::string& name) {
  return scene.cmd({"HGET", scene.keys().headers, scene.id(name)}) == kHeaders;
}

TEST_CASE("headers: a send stores those of each message, in a batch also of messages without") {
  const std::string large(kStagedBytes, 'x');
  for (const std::string& payload : {std::string("small"), large}) {
    for (const bool fresh : {false, true}) {
      Scene scene;
      const SendTerms terms{{5min, 0}, 3, 0ms, fresh};
      CHECK(scene.run(&Moves::send, {{scene.keep("a"), payload, "ha"}, {scene.keep("b"), payload}}, terms) == "11");
      CHECK(scene.cmd({"HGETALL", scene.keys().headers}) == std::vector<std::string>{scene.id("a"), "ha"});
      CHECK(scene.cmd({"GET", scene.keys().bodies + scene.id("b")}) == payload);
      CHECK(scene.run(&Moves::send, {{scene.keep("c"), payload, "hc"}}, terms) == "1");
      CHECK(scene.cmd({"HGET", scene.keys().headers, scene.id("c")}) == "hc");
      CHECK(scene.cmd({"GET", scene.keys().bodies + scene.id("c")}) == payload);
      CHECK(scene.lost().empty());
    }
  }
}

TEST_CASE("headers: sends without any write nothing there, and need no such key") {
  Scene scene;
  scene.cmd({"SET", scene.keys().headers, "of another program"});
  const SendTerms fresh{{5min, 0}, 3, 0ms, true};
  CHECK(scene.run(&Moves::send, {{scene.keep("a"), "x"}}, fresh) == "1");
  CHECK(scene.run(&Moves::send, {{scene.keep("b"), "x"}, {scene.keep("c"), "x"}}, fresh) == "11");
  CHECK(scene.cmd({"GET", scene.keys().headers}) == "of another program");
}

TEST_CASE("headers: a repeated send leaves the message that is alive its own") {
  Scene scene;
  for (const At at : test::all_but({At::garbage, At::nowhere})) {
    CAPTURE(test::to_string(at));
    const std::string name = "m" + std::to_string(static_cast<int>(at));
    scene.put(at, name, with_headers());
    const Outcomes outcomes = scene.run(&Moves::send, {{scene.keep(name), "new", "new"}}, {{5min, 0}});
    CHECK((outcomes == "0" || outcomes == "C"));
    CHECK(has_headers(scene, name));
    scene.run(&Moves::restore, {{scene.keep(name), false, 0, 3, 0, 0ms, "", "new", "new"}});
    CHECK(has_headers(scene, name));
  }
}

TEST_CASE("headers: a message that is created again has the headers of its last send, or none") {
  for (const std::string& packed : {std::string(), std::string("new")}) {
    for (const bool restores : {false, true}) {
      Scene scene;
      scene.put(At::garbage, "garb", with_headers());
      scene.cmd({"HSET", scene.keys().headers, scene.id("none"), kHeaders});
      for (const char* name : {"garb", "none"}) {
        CAPTURE(std::string(name));
        const Outcomes outcomes =
            restores ? scene.run(&Moves::restore, {{scene.keep(name), true, 0, 3, 0, 0ms, "", "new", packed}})
                     : scene.run(&Moves::send, {{scene.keep(name), "new", packed}}, {{5min, 0}});
        CHECK(outcomes == "1");
        const auto stored = scene.cmd({"HGET", scene.keys().headers, scene.id(name)});
        CHECK(stored.nil() == packed.empty());
        if (!packed.empty()) CHECK(stored == packed);
      }
    }
  }
}

TEST_CASE("headers: a restore stores those of each message, also if the payloads are staged") {
  for (const std::string& payload : {std::string("small"), std::string(kStagedBytes, 'x')}) {
    Scene scene;
    CHECK(scene.run(&Moves::restore, {{scene.keep("a"), true, 0, 0, 2, 0ms, "why", payload, "ha"},
                                      {scene.keep("b"), false, 0, 3, 0, 0ms, "", payload, ""},
                                      {scene.keep("c"), false, 0, 3, 0, 0ms, "", payload, "hc"}}) == "111");
    CHECK(scene.cmd({"HLEN", scene.keys().headers}) == 2);
    CHECK(scene.cmd({"HMGET", scene.keys().headers, scene.id("a"), scene.id("c")}) ==
          std::vector<std::string>{"ha", "hc"});
    CHECK(scene.cmd({"GET", scene.keys().bodies + scene.id("b")}) == payload);
  }
}

struct Exit {
  const char* name;
  At at;
  std::function<void(Scene&)> run;
};

TEST_CASE("headers: they go in the script that deletes the body, and stay as long as it does") {
  const std::vector<Exit> exits = {
      {"ack", At::held, [](Scene& s) { s.run(&Moves::ack, {s.receipt("a")}); }},
      {"ack of two", At::held,
       [](Scene& s) {
         s.run(&Moves::ack, {s.receipt("a"), s.receipt(".h1")});
       }},
      {"ack, late", At::retry, [](Scene& s) { s.run(&Moves::ack, {s.last_receipt("a")}); }},
      {"ack, late, dead", At::dead, [](Scene& s) { s.run(&Moves::ack, {s.last_receipt("a")}); }},
      {"expire", At::held, [](Scene& s) { s.run(&Moves::expire, {s.receipt("a")}); }},
      {"cancel", At::pending, [](Scene& s) { s.run(&Moves::cancel, s.id("a")); }},
      {"cancel of a dead letter", At::dead, [](Scene& s) { s.run(&Moves::cancel, s.id("a")); }},
      {"purge_ids", At::dead, [](Scene& s) { s.run(&Moves::purge_ids, s.keys().dead, s.ids({"a"})); }},
      {"purge", At::pending, [](Scene& s) { s.run(&Moves::purge_zset, s.keys().pending, 200, std::nullopt, 0); }},
      {"purge of a list", At::ready, [](Scene& s) { s.run(&Moves::purge_list, s.keys().ready, 200); }},
      {"dead_retention", At::dead, [](Scene& s) { s.run(&Moves::purge_zset, s.keys().dead, 200, 0ms, 0); }},
      {"ack of a cancelled one", At::cancelled, [](Scene& s) { s.run(&Moves::ack, {s.receipt("a")}); }},
      {"nack of a cancelled one", At::cancelled,
       [](Scene& s) {
         s.run(&Moves::nack, {{s.receipt("a"), 1min, ""}});
       }},
      {"release of a cancelled one", At::cancelled, [](Scene& s) { s.run(&Moves::release, {s.receipt("a")}, 0ms); }},
      {"gc", At::garbage, [](Scene&) {}},
  };
  for (const Exit& one : exits) {
    CAPTURE(std::string(one.name));
    Scene scene;
    test::Put what = with_headers();
    if (one.at == At::dead) what.time = -1h;
    scene.put(one.at, "a", what);
    one.run(scene);
    const auto has_body = [&] { return scene.cmd({"EXISTS", scene.keys().bodies + scene.id("a")}) == 1; };
    CHECK(has_headers(scene, "a") == has_body());
    scene.run(&Moves::gc, scene.run(&Moves::sample_garbage));
    CHECK_FALSE(has_body());
    CHECK_FALSE(has_headers(scene, "a"));
  }
}

TEST_CASE("headers: they stay with a message that is alive through every move") {
  Scene scene;
  scene.put(At::held, "a", with_headers());
  scene.run(&Moves::nack, {{scene.receipt("a"), 1min, "why"}});
  scene.run(&Moves::release_waiting, scene.ids({"a"}), false);
  scene.run(&Moves::reschedule, scene.id("a"), {5min, 0});
  scene.run(&Moves::bury, scene.ids({"a"}), "why", false);
  scene.run(&Moves::redrive, scene.ids({"a"}), 3);
  scene.run(&Moves::gc, scene.ids({"a"}));
  scene.run(&Moves::delete_orphaned_metadata, scene.ids({"a"}));
  CHECK(has_headers(scene, "a"));
  CHECK(scene.lost().empty());
}

TEST_CASE("headers: a take tells whether messages of the queue have any") {
  Scene scene(Scene::Setup::without_lists());
  scene.put(At::ready, "a").put(At::ready, "b", with_headers());
  CHECK(scene.run(&Moves::ready2unack, {1, 0, 0}, 1min).has_headers);
  CHECK(scene.run(&Moves::ready2unack, {1, 0, 0}, 1min).has_headers);
  CHECK(scene.run(&Moves::headers, scene.ids({"a", "b"})) ==
        std::vector<std::optional<std::string>>{std::nullopt, kHeaders});
  scene.put(At::pending, "c", {-1min});
  const auto due = [&] { return scene.run(&Moves::pending2unack, false, {"me", 1s}, {200, 200}, 1min).taken.value(); };
  CHECK(due().has_headers);
  scene.run(&Moves::ack, {scene.receipt("b")});
  scene.put(At::pending, "d", {-1min}).put(At::ready, "e");
  CHECK_FALSE(scene.run(&Moves::ready2unack, {1, 0, 0}, 1min).has_headers);
  CHECK_FALSE(due().has_headers);
}

TEST_CASE("headers: a paused queue gives no message, with headers or without") {
  for (const bool some : {false, true}) {
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::ready, "a", some ? with_headers() : test::Put());
    scene.cmd({"SET", scene.keys().paused, "why"});
    CHECK(scene.run(&Moves::ready2unack, {1, 0, 0}, 1min).popped == 0);
    scene.cmd({"DEL", scene.keys().ready});
    scene.put(At::pending, "b", {-1min});
    CHECK_FALSE(scene.run(&Moves::pending2unack, false, {"me", 1s}, {200, 200}, 1min).taken.has_value());
  }
}

TEST_CASE("headers: those that a Go worker's ack left are orphans, those of a message with a body are not") {
  Scene scene;
  for (const At at : {At::pending, At::ready, At::retry, At::held, At::backing_off, At::cancelled, At::dead}) {
    scene.put(at, "m" + std::to_string(static_cast<int>(at)), with_headers());
  }
  scene.cmd({"HSET", scene.keys().headers, scene.id("gone"), kHeaders, "no id", kHeaders});
  const auto ids = scene.run(&Moves::sample_metadata, scene.keys().headers);
  CHECK(ids.size() == 9);
  CHECK(scene.run(&Moves::delete_orphaned_metadata, ids) == 2);
  CHECK(scene.changes() == "headers -gone -no id; ");
}

TEST_CASE("headers: forget deletes what is left of them") {
  Scene scene;
  for (const std::string& key : scene.cmd({"KEYS", scene.keys().base + ":*"}).strings()) scene.cmd({"DEL", key});
  scene.cmd({"HSET", scene.keys().headers, scene.id("gone"), kHeaders});
  CHECK(scene.run(&Moves::forget));
  CHECK(scene.cmd({"EXISTS", scene.keys().headers}) == 0);
}

}  // namespace
}  // namespace delayqueue::store
