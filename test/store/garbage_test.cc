#include "support/test.h"

#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

TEST_CASE("gc: deletes body, count and metadata of finished messages") {
  Scene scene;
  scene.put(At::garbage, "a", {0ms, "", "3 1700000000123457", "note", 1h}).put(At::garbage, "b");
  scene.cmd({"HSET", scene.keys().count, scene.id("a"), "3"});
  CHECK(scene.run(&Moves::gc, scene.ids({"a", "b"})) == 2);
  CHECK(scene.changes() == "msg -a -b; attempts -a; garbage -a -b; reason -a; retry:cnt -a; ");
}

TEST_CASE("gc: skips an id that is no longer in garbage") {
  for (const At at : test::all_but({At::garbage})) {
    CAPTURE(to_string(at));
    Scene scene;
    scene.put(at, "a");
    CHECK(scene.run(&Moves::gc, scene.ids({"a"})) == 0);
    CHECK(scene.changes().empty());
  }
}

TEST_CASE("gc: skips an id that was sent again after sample_garbage returned it") {
  Scene scene;
  scene.put(At::garbage, "a");
  const auto sampled = scene.run(&Moves::sample_garbage);
  CHECK(sampled.size() == 3);
  CHECK(scene.run(&Moves::send, {{scene.id("a"), "again"}}, {{5min, 0}}) == "1");
  CHECK(scene.run(&Moves::gc, sampled) == 2);
  CHECK(scene.changes() == "msg -.x1 -.x2; garbage -.x1 -.x2; ");
  CHECK(scene.cmd({"GET", scene.keys().bodies + scene.id("a")}) == "again");
}

TEST_CASE("gc: an id that is also in a zset is removed from garbage, and nothing of its message is deleted") {
  for (const At at : {At::pending, At::held, At::held_by_go, At::backing_off, At::cancelled, At::dead}) {
    CAPTURE(to_string(at));
    Scene scene;
    scene.put(at, "a", {10min, "3", "2", "note"});
    scene.cmd({"SADD", scene.keys().garbage, scene.id("a")});
    CHECK(scene.run(&Moves::gc, scene.ids({"a", ".x1"})) == 1);
    CHECK(scene.changes() == "msg -.x1; garbage -.x1 -a; ");
    CHECK(scene.lost().empty());
  }
}

TEST_CASE("gc: takes 1, 199 or 200 ids") {
  for (const std::size_t count : {1U, 199U, 200U}) {
    Scene scene;
    scene.put_many(At::garbage, "m", static_cast<int>(count));
    CHECK(scene.run(&Moves::gc, scene.many("m", static_cast<int>(count))) == count);
    CHECK(scene.cmd({"SCARD", scene.keys().garbage}) == 2);
    CHECK(scene.cmd({"EXISTS", scene.keys().bodies + scene.id("m000")}) == 0);
  }
}

TEST_CASE("sample_garbage: returns all ids, but at most 200") {
  for (const int count : {0, 198, 199}) {
    Scene scene;
    scene.put_many(At::garbage, "m", count);
    CHECK(scene.run(&Moves::sample_garbage).size() == std::min<std::size_t>(200, 2 + static_cast<std::size_t>(count)));
    CHECK(scene.changes().empty());
  }
  Scene scene;
  scene.cmd({"DEL", scene.keys().garbage});
  CHECK(scene.run(&Moves::sample_garbage).empty());
}

TEST_CASE("gc: foreign ids in ready end in garbage and are deleted") {
  Scene scene;
  const std::vector<std::string> foreign = {"",
                                            "hello",
                                            "two words",
                                            std::string("\0\xff\r\n", 4),
                                            std::string(1000, 'x'),
                                            "00000000-0000-0000-0000-00000000000"};
  for (const auto& id : foreign) scene.cmd({"RPUSH", scene.keys().ready, id});
  scene.run(&Moves::ready2unack, {foreign.size(), 0, 0}, 5min);
  CHECK(scene.cmd({"SCARD", scene.keys().garbage}) == 2 + foreign.size());
  scene.run(&Moves::gc, scene.run(&Moves::sample_garbage));
  CHECK(scene.cmd({"SCARD", scene.keys().garbage}) == 0);
  CHECK(scene.lost().empty());
}

TEST_CASE("delete_orphaned_metadata: deletes metadata of messages that have no retry count and are no dead letters") {
  Scene scene;
  const std::pair<At, const char*> messages[] = {
      {At::pending, "later"}, {At::retry, "retry"},      {At::held, "held"},    {At::backing_off, "back"},
      {At::dead, "dead"},     {At::cancelled, "cancel"}, {At::garbage, "garb"},
  };
  for (const auto& [at, name] : messages) scene.put(at, name, {10min, "3", "2", "note"});
  scene.cmd({"HSET", scene.keys().attempts, scene.id("gone"), "2"});
  scene.cmd({"HSET", scene.keys().reason, scene.id("gone2"), "why"});
  CHECK(scene.run(&Moves::delete_orphaned_metadata,
                  scene.ids({"later", "retry", "held", "back", "dead", "gone", "gone2"})) == 2);
  CHECK(scene.changes() == "attempts -gone; reason -gone2; ");
  CHECK(scene.run(&Moves::delete_orphaned_metadata, scene.ids({"cancel", "garb"})) == 2);
  CHECK(scene.changes() == "attempts -cancel -garb; reason -cancel -garb; ");
}

TEST_CASE("delete_orphaned_metadata: takes 1, 199 or 200 ids") {
  for (const std::size_t count : {1U, 199U, 200U}) {
    Scene scene;
    const auto ids = scene.many("m", static_cast<int>(count));
    for (const auto& id : ids) scene.cmd({"HSET", scene.keys().reason, id, "why"});
    CHECK(scene.run(&Moves::delete_orphaned_metadata, ids) == count);
    CHECK(scene.cmd({"HLEN", scene.keys().reason}) == 0);
  }
}

TEST_CASE("delete_orphaned_metadata: deletes values that are too long for metadata, of live messages too, unread") {
  Scene scene;
  const std::string longest(16'384, 'x'), huge(100'000, 'x');
  const std::vector<std::string> keys = {scene.keys().attempts, scene.keys().reason, scene.keys().headers};
  std::vector<std::string> names;
  for (int i = 0; i < 10; ++i) {
    names.push_back("m" + std::to_string(i));
    scene.put(i % 2 == 0 ? At::ready : At::dead, names.back(), {10min, "3", "2", "note"});
  }
  scene.put(At::ready, "long", {10min, "3", longest, longest});
  scene.cmd({"HSET", scene.keys().headers, scene.id("long"), longest});
  for (const std::string& name : names) {
    for (const std::string& key : keys) scene.cmd({"HSET", key, scene.id(name), huge});
  }
  scene.put(At::ready, "over", {10min, "3", "2", longest + 'x'});
  names.insert(names.end(), {"long", "over"});
  scene.cmd({"CONFIG", "RESETSTAT"});
  CHECK(scene.run(&Moves::delete_orphaned_metadata, scene.ids(names)) == 11);
  for (const char* reader : {"hget", "hmget", "hscan", "hvals"}) {
    CAPTURE(std::string(reader));
    CHECK(test::calls_of(reader) == (reader == std::string("hmget") ? 1U : 0U));  // of the counts
  }
  for (const std::string& key : keys) {
    CAPTURE(key);
    for (int i = 0; i < 10; ++i) CHECK(scene.cmd({"HEXISTS", key, scene.id(names[static_cast<std::size_t>(i)])}) == 0);
    CHECK(scene.cmd({"HSTRLEN", key, scene.id("long")}) == 16'384);
  }
  CHECK(scene.cmd({"HEXISTS", scene.keys().reason, scene.id("over")}) == 0);
  CHECK(scene.cmd({"HGET", scene.keys().attempts, scene.id("over")}) == "2");
  CHECK(scene.lost().empty());
}

TEST_CASE("sample_metadata: returns at most 100 ids, each once, and without the values") {
  Scene scene;
  const std::string key = scene.keys().attempts;
  CHECK(scene.run(&Moves::sample_metadata, key).size() == 4);  // of the bystanders: two in retry and two in dead
  for (int i = 0; i < 10; ++i) scene.cmd({"HSET", key, "huge" + std::to_string(i), std::string(20'000, 'x')});
  const std::vector<std::string> few = scene.run(&Moves::sample_metadata, key);
  CHECK(std::set<std::string>(few.begin(), few.end()).size() == 14);
  for (int i = 0; i < 1000; ++i) scene.cmd({"HSET", key, "n" + std::to_string(i), "2"});
  std::set<std::string> seen;
  for (int i = 0; i < 500 && seen.size() < 1014; ++i) {
    const std::vector<std::string> some = scene.run(&Moves::sample_metadata, key);
    CHECK(some.size() == 100);
    CHECK(std::set<std::string>(some.begin(), some.end()).size() == 100);
    seen.insert(some.begin(), some.end());
  }
  CHECK(seen.size() == 1014);
  CHECK(scene.run(&Moves::sample_metadata, scene.keys().base + ":none").empty());
}

}  // namespace
}  // namespace delayqueue::store
