// The wake-up hints: the marker in `wake`, and in `watch` the consumer that calls again at the next due time. Neither
// may fail a move.
#include "support/test.h"

#include "store/scripts.h"
#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

const SendTerms kDueNow{{0ms, 0}, 3, 0ms, true};

SendTerms due_in(milliseconds delay) { return {{delay, 0}, 3, 0ms, true}; }

// The score of the marker in us; unset: there is none.
std::optional<std::int64_t> marker(Scene& scene) {
  const test::Reply score = scene.cmd({"ZSCORE", scene.keys().wake, "w"});
  if (score.nil()) return std::nullopt;
  return std::llround(std::strtod(score.text.c_str(), nullptr) * 1e6);
}

std::string watched(Scene& scene) { return scene.cmd({"GET", scene.keys().watch}).text; }

std::string watch_value(std::int64_t us, const std::string& who) { return std::to_string(us) + " " + who; }

// Removes the other messages in pending.
Scene& alone(Scene& scene) {
  scene.cmd({"DEL", scene.keys().pending});
  return scene;
}

void leave_watch(Scene& scene, const std::string& name) {
  Pipeline pipeline(scene.connection());
  scene.moves().leave_watch(pipeline, name);
  pipeline.run();
  pipeline.reply(0);
}

TEST_CASE("send: a message due now sets the marker to now, from any earlier value") {
  Scene scene;
  scene.run(&Moves::send, {{scene.id("a"), "x"}}, kDueNow);
  CHECK(marker(scene) == 0);
  for (const auto& names : std::vector<std::vector<std::string>>{{"b"}, {"c", "d"}}) {  // by send_one, and by send
    scene.cmd({"ZADD", scene.keys().wake, "99", "w"});
    std::vector<NewMessage> messages;
    for (const std::string& name : names) messages.push_back({scene.keep(name), "x"});
    scene.run(&Moves::send, messages, kDueNow);
    CHECK(marker(scene) == 0);
  }
}

TEST_CASE("send: a message due before all others in pending sets the marker to its time, others do not") {
  Scene scene;  // its first message in pending is due in ten minutes
  scene.run(&Moves::send, {{scene.id("a"), "x"}, {scene.id("b"), "x"}}, due_in(1h));
  CHECK(!marker(scene));
  scene.run(&Moves::send, {{scene.id("c"), "x"}, {scene.id("d"), "x"}}, due_in(5min));
  CHECK(marker(scene) == scene.score_us(scene.keys().pending, "c"));
  scene.run(&Moves::send, {{scene.id("e"), "x"}}, due_in(1min));
  CHECK(marker(scene) == scene.score_us(scene.keys().pending, "e"));
  scene.run(&Moves::send, {{scene.id("f"), "x"}}, due_in(2min));
  CHECK(marker(scene) == scene.score_us(scene.keys().pending, "e"));
}

TEST_CASE("send: a marker only moves to an earlier time") {
  Scene scene;
  scene.cmd({"ZADD", scene.keys().wake, "7", "w"});
  scene.run(&Moves::send, {{scene.id("a"), "x"}}, due_in(1min));
  scene.run(&Moves::send, {{scene.id("b"), "x"}, {scene.id("c"), "x"}}, due_in(1min));
  CHECK(marker(scene) == 7'000'000);
}

TEST_CASE("send: a message that exists already sets no marker") {
  Scene scene;
  SendTerms again = kDueNow;
  again.new_ids = false;
  scene.put(At::pending, "a", {5min});
  CHECK(scene.run(&Moves::send, {{scene.id("a"), "x"}}, again) == "0");
  CHECK(!marker(scene));
}

TEST_CASE("reschedule: sets the marker as send does") {
  Scene scene;
  scene.put(At::pending, "a", {20min}).put(At::pending, "b", {20min});
  scene.run(&Moves::reschedule, scene.id("a"), Due{1h, 0});
  CHECK(!marker(scene));
  scene.run(&Moves::reschedule, scene.id("a"), Due{1min, 0});
  CHECK(marker(scene) == scene.score_us(scene.keys().pending, "a"));
  scene.run(&Moves::reschedule, scene.id("b"), Due{0ms, 0});
  CHECK(marker(scene) == 0);
}

TEST_CASE(
    "pending2ready: the first consumer with a free worker watches for the next due time, until shortly after it") {
  Scene scene;
  alone(scene).put(At::pending, "a", {1min});
  const std::int64_t due = scene.score_us(scene.keys().pending, "a");
  CHECK(scene.run(&Moves::pending2ready, false, {"ann", 2min}).keeps_watch);
  CHECK(watched(scene) == watch_value(due, "ann"));
  const long long life = scene.cmd({"PTTL", scene.keys().watch}).integer;
  CHECK(life <= (due - scene.before_us()) / 1000 + 201);
  CHECK(life > 50'000);
  CHECK(!scene.run(&Moves::pending2ready, false, {"bob", 2min}).keeps_watch);
  CHECK(watched(scene) == watch_value(due, "ann"));
  CHECK(
      scene.run(&Moves::pending2ready, false, {"ann", 2min}).keeps_watch);  // repeated, for example after a lost answer
  CHECK(!marker(scene));
}

TEST_CASE("pending2ready: no consumer watches for a time after its next call, or if nothing is pending") {
  Scene scene;
  alone(scene);
  CHECK(!scene.run(&Moves::pending2ready, false, {"ann", 1min}).keeps_watch);
  scene.put(At::pending, "a", {2min});
  CHECK(!scene.run(&Moves::pending2ready, false, {"ann", 1min}).keeps_watch);
  CHECK(watched(scene).empty());
  CHECK(!marker(scene));
}

TEST_CASE("pending2ready: a consumer watches for a time earlier than another's watch, but not for a later one") {
  Scene scene;
  alone(scene).put(At::pending, "a", {5min});
  scene.run(&Moves::pending2ready, false, {"ann", 1h});
  scene.put(At::pending, "b", {1min});
  CHECK(scene.run(&Moves::pending2ready, false, {"bob", 1h}).keeps_watch);
  CHECK(watched(scene) == watch_value(scene.score_us(scene.keys().pending, "b"), "bob"));
  scene.cmd({"ZREM", scene.keys().pending,
             scene.id("b")});  // cancelled; bob calls at that time, and then watches for the next
  CHECK(!scene.run(&Moves::pending2ready, false, {"ann", 1h}).keeps_watch);
  CHECK(scene.run(&Moves::pending2ready, false, {"bob", 1h}).keeps_watch);
  CHECK(watched(scene) == watch_value(scene.score_us(scene.keys().pending, "a"), "bob"));
}

TEST_CASE("pending2ready: a consumer that waits for no message any more leaves no watch, so another one watches") {
  for (const bool later : {false, true}) {
    CAPTURE(later);
    Scene scene;
    alone(scene).put(At::pending, "a", {1min});
    CHECK(scene.run(&Moves::pending2ready, false, {"ann", 2min}).keeps_watch);
    alone(scene);  // "a" is gone; what is left is due after the next call of each consumer, or nothing is left
    if (later) scene.put(At::pending, "b", {5min});
    CHECK(!scene.run(&Moves::pending2ready, false, {"bob", 2min}).keeps_watch);
    CHECK(!watched(scene).empty());
    CHECK(!scene.run(&Moves::pending2ready, false, {"ann", 2min}).keeps_watch);
    CHECK(watched(scene).empty());
    scene.put(At::pending, "c", {90s});
    CHECK(scene.run(&Moves::pending2ready, false, {"bob", 2min}).keeps_watch);
  }
}

TEST_CASE("pending2ready: a consumer without a free worker calls again in time, and wakes another one to watch") {
  Scene scene;
  alone(scene).put(At::pending, "a", {5min});
  const std::int64_t due = scene.score_us(scene.keys().pending, "a");
  scene.run(&Moves::pending2ready, false, {"ann", 1h});
  CHECK(scene.run(&Moves::pending2ready, false, {"bob", {}}).keeps_watch);
  CHECK(!marker(scene));  // ann watches
  CHECK(scene.run(&Moves::pending2ready, false, {"ann", {}}).keeps_watch);
  CHECK(watched(scene).empty());
  CHECK(marker(scene) == due);
  CHECK(scene.run(&Moves::pending2ready, false, {"cid", 1h}).keeps_watch);
  CHECK(watched(scene) == watch_value(due, "cid"));
}

TEST_CASE("pending2ready: a consumer without a free worker that moves messages wakes another one at once") {
  Scene scene;
  alone(scene).put(At::pending, "a", {-1s}).put(At::pending, "b", {5min});
  CHECK(scene.run(&Moves::pending2ready, false, {"ann", {}}).moved == 1);
  CHECK(marker(scene) == 0);
}

TEST_CASE("pending2ready: a watch that does not expire, or whose time is past, does not count") {
  Scene scene;
  alone(scene).put(At::pending, "a", {10s});
  const auto us = [](std::int64_t time) { return std::to_string(time) + " ann"; };
  const std::int64_t due = scene.score_us(scene.keys().pending, "a");
  const std::vector<std::vector<std::string>> none = {{us(1), "PX", "600000"},
                                                      {us(scene.now_us() - 1'000'000), "PX", "600000"},
                                                      {us(due)},
                                                      {"9999999999999999999999 ann"}};
  for (const auto& watch : none) {
    CAPTURE(watch[0]);
    std::vector<std::string> words = {"SET", scene.keys().watch};
    words.insert(words.end(), watch.begin(), watch.end());
    scene.cmd(words);
    CHECK(scene.run(&Moves::pending2ready, false, {"bob", 100s}).keeps_watch);
  }
  scene.cmd({"SET", scene.keys().watch, us(due), "PX", "600000"});
  CHECK_FALSE(scene.run(&Moves::pending2ready, false, {"bob", 100s}).keeps_watch);
}

TEST_CASE("leave_watch: moves nothing, ends the watch, and sets the marker for another consumer") {
  Scene scene;
  alone(scene).cmd({"DEL", scene.keys().ready});
  scene.put(At::pending, "a", {5min});
  const std::string kept = watch_value(scene.score_us(scene.keys().pending, "a"), "ann");
  scene.cmd({"SET", scene.keys().watch, kept, "PX", "600000"});
  leave_watch(scene, "bob");
  CHECK(watched(scene) == kept);
  CHECK(!marker(scene));
  scene.put(At::pending, "due", {-1s});
  leave_watch(scene, "ann");
  CHECK(watched(scene).empty());
  CHECK(marker(scene) == scene.score_us(scene.keys().pending, "due"));
  CHECK(scene.cmd({"ZCARD", scene.keys().pending}) == 2);
}

TEST_CASE("leave_watch: sets the marker for messages in ready, also if none is pending; a busy consumer does not") {
  Scene scene;
  alone(scene).cmd({"DEL", scene.keys().ready});
  leave_watch(scene, "ann");
  CHECK(!marker(scene));
  scene.put(At::ready, "a");
  CHECK(scene.run(&Moves::pending2ready, false, {"ann", {}}).keeps_watch);
  CHECK(!marker(scene));
  leave_watch(scene, "ann");
  CHECK(marker(scene) == 0);
}

TEST_CASE("hints: wake and watch of a wrong type, or with invalid values, fail no move") {
  for (const char* nonsense : {"", "x", "12", "12 ", " me", "-5 ann", "99999999999999999999999 ann"}) {
    CAPTURE(std::string(nonsense));
    Scene scene;
    alone(scene).put(At::pending, "a", {1min});
    scene.cmd({"SET", scene.keys().watch, nonsense});
    scene.cmd({"SET", scene.keys().wake, nonsense});
    CHECK(scene.run(&Moves::pending2ready, false, {"ann", 2min}).keeps_watch);
    CHECK(scene.run(&Moves::pending2ready, false, {"ann", {}}).keeps_watch);
    CHECK(scene.run(&Moves::send, {{scene.id("b"), "x"}}, due_in(1s)) == "1");
    CHECK(scene.run(&Moves::send, {{scene.id("c"), "x"}}, kDueNow) == "1");
    CHECK(scene.run(&Moves::reschedule, scene.id("c"), Due{1ms, 0}) == "moved");
    CHECK(scene.run(&Moves::reschedule, scene.id("b"), Due{0ms, 0}) == "moved");
  }
  Scene scene;
  alone(scene).put(At::pending, "a", {1min});
  for (const std::string& key : {scene.keys().watch, scene.keys().wake}) scene.cmd({"LPUSH", key, "x"});
  CHECK(scene.run(&Moves::pending2ready, false, {"ann", {}}).keeps_watch);
  CHECK(scene.run(&Moves::pending2ready, false, {"ann", 2min}).keeps_watch);
}

TEST_CASE("hints: out of memory every consumer watches") {
  PrivateServer own;
  Scene::Setup setup;
  setup.socket = own.socket();
  Scene scene(setup);
  alone(scene).put(At::pending, "a", {1min});
  scene.cmd({"CONFIG", "SET", "maxmemory", "1"});
  for (const char* who : {"ann", "bob"}) CHECK(scene.run(&Moves::pending2ready, false, {who, 2min}).keeps_watch);
  scene.cmd({"CONFIG", "SET", "maxmemory", "0"});
  CHECK(watched(scene).empty());
}

}  // namespace
}  // namespace delayqueue::store
