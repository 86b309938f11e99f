#include "support/test.h"

#include "store/scripts.h"
#include "support/moves.h"

// The moves of operators, by id: bury, extend, purge_ids, restore. table_test.cc tests each in every state.
namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

TEST_CASE("bury: a late ack settles the message; a late nack is stale, a late renewal gone") {
  for (const bool acks : {true, false}) {
    Scene scene;
    scene.put(At::held, "a", {10min, "3", "2", "note"});
    const Receipt receipt = scene.receipt("a");
    CHECK(scene.run(&Moves::bury, scene.ids({"a"}), "enough", true) == "S");
    CHECK(scene.changes() == "attempts a=2,end; dead +a@now; reason a=enough; retry:cnt -a; stats dead+1; unack -a; ");
    CHECK(scene.run(&Moves::renew, {receipt}, receipt.end_us + 60'000'000).outcomes == "G");
    CHECK(scene.run(&Moves::nack, {{receipt, 1min, "late"}}) == "T");
    CHECK(scene.changes().empty());
    if (!acks) continue;
    CHECK(scene.run(&Moves::ack, {receipt}) == "S");
    CHECK(scene.changes() == "msg -a; attempts -a; dead -a; reason -a; stats acked+1; ");
  }
}

TEST_CASE("bury: the body loses its TTL; ids left in lists are not delivered") {
  Scene scene;
  scene.put(At::ready, "a", {0ms, "3", "", "", 1h}).put(At::retry, "b", {0ms, "3", "", "", 1h});
  CHECK(scene.run(&Moves::bury, scene.ids({"a", "b", "a"}), "enough", false) == "SSD");
  CHECK(scene.ttl_ms("a") == -1);
  CHECK(scene.ttl_ms("b") == -1);
  const Taken taken = scene.run(&Moves::ready2unack, {200, 200, 200}, 5min);
  CHECK(taken.messages.size() == 4);  // the bystanders
  CHECK(scene.score_us(scene.keys().dead, "a") != 0);
  CHECK(scene.run(&Moves::redrive, scene.ids({"a", "b"}), 3) == "SS");
  CHECK(scene.run(&Moves::ready2unack, {200, 200, 200}, 5min).messages.size() == 2);
}

TEST_CASE("bury: search_lists removes the id from lists that are not too long") {
  for (const std::size_t longest : {std::size_t{3}, std::size_t{2}}) {
    Scene::Setup setup;
    setup.moves.search_lists = longest;
    Scene scene(setup);
    scene.put(At::ready, "a").put(At::retry, "b").put(At::pending, "c");
    CHECK(scene.run(&Moves::bury, scene.ids({"a", "b", "c"}), "", false) == "SSS");
    const bool searched = longest == 3;
    CHECK(scene.changes() == std::string("attempts +a=0 +c=0; dead +a@now +b@now +c@now; pending -c; ") +
                                 (searched ? "ready [.r2 .r1]; retry [.t2 .t1]; " : "") +
                                 "retry:cnt -a -b -c; stats dead+3; ");
  }
}

TEST_CASE("bury: a pending message is not searched for in the lists, and an old entry stays there") {
  Scene::Setup setup;
  setup.moves.search_lists = 10;
  Scene scene(setup);
  scene.put(At::pending, "a");
  scene.cmd({"LPUSH", scene.keys().ready, scene.id("a")});
  CHECK(scene.run(&Moves::bury, scene.ids({"a"}), "", false) == "S");
  CHECK(scene.changes() == "attempts +a=0; dead +a@now; pending -a; retry:cnt -a; stats dead+1; ");
}

TEST_CASE("bury: a message in garbage exists only while it is in a zset") {
  const std::pair<At, const char*> answers[] = {{At::ready, "G"}, {At::pending, "S"}, {At::held, "S"}, {At::dead, "D"}};
  for (const auto& [at, answer] : answers) {
    Scene scene;
    scene.put(at, "a");
    scene.cmd({"SADD", scene.keys().garbage, scene.id("a")});
    const bool was_dead = at == At::dead;
    CHECK(scene.run(&Moves::bury, scene.ids({"a"}), "why", true) == answer);
    CHECK((scene.score_us(scene.keys().dead, "a") != 0) == (was_dead || answer[0] == 'S'));
    CHECK(scene.changes().empty() == (answer[0] != 'S'));
  }
}

TEST_CASE("bury: a message without a body is unknown") {
  for (const At at : {At::pending, At::ready, At::held, At::dead}) {
    Scene scene;
    scene.put(at, "a");
    scene.cmd({"DEL", scene.keys().bodies + scene.id("a")});
    CHECK(scene.run(&Moves::bury, scene.ids({"a"}), "why", true) == "G");
    CHECK(scene.changes().empty());
  }
}

TEST_CASE("release by force: a dead letter that a late nack of a Go worker put into unack leaves unack") {
  Scene scene;
  scene.put(At::dead, "a", {-1h, "", "", "too bad"});
  scene.cmd({"ZADD", scene.keys().unack, "1700000000", scene.id("a")});
  CHECK(scene.run(&Moves::release_waiting, scene.ids({"a"}), true) == "G");
  CHECK(scene.changes() == "unack -a; ");
}

TEST_CASE("extend: adds to the current time if the end has passed, keeps the kind of the end, and extends a TTL") {
  for (const At at : {At::backing_off, At::held_by_go, At::held}) {
    CAPTURE(to_string(at));
    Scene scene;
    scene.put(at, "a", {-10min, "3", "", "", 1h});
    CHECK(scene.run(&Moves::extend, scene.ids({"a", "a"}), 5min, true) == "SS");
    const std::int64_t end = scene.score_us(scene.keys().unack, "a");
    CHECK(end >= scene.before_us() + 300'000'000);
    CHECK(end <= scene.after_us() + 301'001'001);
    CHECK(is_lease(end) == (at != At::backing_off));
    CHECK((end % 1'000'000 == 0) == (at == At::held_by_go));
    CHECK(scene.ttl_ms("a") > 64 * 60'000);
    CHECK(scene.ttl_ms("a") <= 65 * 60'000);
  }
}

TEST_CASE("extend: the new end is of the same kind as the old one") {
  for (const auto& [at, end] :
       {std::pair(At::backing_off, 1'900'000'000'999'000LL), {At::held, 1'900'000'000'000'001LL}}) {
    Scene scene;
    scene.put(at, "a");
    scene.cmd({"ZADD", scene.keys().unack,
               std::to_string(end / 1'000'000) + "." + std::to_string(1'000'000 + end % 1'000'000).substr(1),
               scene.id("a")});
    CHECK(scene.run(&Moves::extend, scene.ids({"a"}), 1ms, true) == "S");
    CHECK(is_lease(scene.score_us(scene.keys().unack, "a")) == (at == At::held));
  }
}

TEST_CASE("extend: a lease that would end at a whole millisecond ends a microsecond later") {
  Scene scene;
  scene.put(At::held, "a", {-10min});
  const std::int64_t now = scene.now_us() / 1000 * 1000;
  const Keys& keys = scene.keys();
  CHECK(scene.run_at(now, scripts::extend, test::key_names(calls::extend::keys(keys), {keys.bodies + scene.id("a")}),
                     {"5", "1"}) == "S");
  CHECK(scene.score_us(keys.unack, "a") == now + 5001);
}

TEST_CASE("extend: the holder's verdict is stale, and its message is delivered again") {
  Scene scene;
  scene.put(At::held, "a");
  const Receipt receipt = scene.receipt("a");
  CHECK(scene.run(&Moves::extend, scene.ids({"a"}), 5min, true) == "S");
  CHECK(scene.run(&Moves::renew, {receipt}, receipt.end_us + 60'000'000).outcomes == "T");
  CHECK(scene.run(&Moves::ack, {receipt}) == "T");
  CHECK(scene.changes().empty());
}

TEST_CASE("purge_ids: removes entries only near the end of a list; ready2unack skips the others") {
  Scene::Setup quiet;
  quiet.lists = false;
  Scene scene(quiet);
  scene.put_many(At::ready, "m", 150);
  const auto ids = scene.many("m", 150);
  PurgedIds done = scene.run(&Moves::purge_ids, scene.keys().ready, {ids[140], ids[99], ids[0]});
  CHECK(done.outcomes == "SSS");
  CHECK(done.places == 2);
  CHECK(scene.cmd({"LLEN", scene.keys().ready}) == 148);
  done = scene.run(&Moves::purge_ids, scene.keys().ready, {ids[0], ids[1], ids[1]});
  CHECK(done.outcomes == "GSG");
  CHECK(done.places == 1);
  std::size_t taken = 0;
  for (int i = 0; i < 2; ++i) taken += scene.run(&Moves::ready2unack, {200, 0, 0}, 5min).messages.size();
  CHECK(taken == 146);
}

TEST_CASE("purge_ids: does not delete messages that were redriven, or that a consumer holds") {
  Scene scene;
  scene.put(At::dead, "a").put(At::dead, "b").put(At::dead, "c").put(At::ready, "d");
  scene.run(&Moves::redrive, scene.ids({"a"}), 3);
  scene.cmd({"ZADD", scene.keys().pending, "5", scene.id("b")});
  scene.cmd({"ZADD", scene.keys().unack, "5", scene.id("c")});  // a late nack of a Go worker
  scene.cmd({"ZADD", scene.keys().unack, "5.0000005", scene.id("d")});
  CHECK(scene.run(&Moves::purge_ids, scene.keys().dead, scene.ids({"a", "b", "c", "d"})).outcomes == "GGSG");
  CHECK(scene.run(&Moves::purge_ids, scene.keys().ready, scene.ids({"d"})).outcomes == "G");
  scene.put(At::pending, "e").put(At::ready, "f");
  scene.cmd({"ZADD", scene.keys().unack, "5.0000005", scene.id("e")});
  scene.cmd({"SADD", scene.keys().garbage, scene.id("f")});
  CHECK(scene.run(&Moves::purge_ids, scene.keys().pending, scene.ids({"e"})).outcomes == "G");
  CHECK(scene.run(&Moves::purge_ids, scene.keys().ready, scene.ids({"f"})).outcomes == "G");
  CHECK(scene.changes().empty());
}

TEST_CASE(
    "restore: keeps due times to the microsecond, the order of due messages, TTLs, and the time of dead letters") {
  for (const bool staged : {false, true}) {
    CAPTURE(staged);
    Scene::Setup quiet;
    quiet.lists = false;
    if (staged) quiet.moves.staged_bytes = 0;
    Scene scene(quiet);
    const std::int64_t due = scene.start_ms() * 1000 + 600'000'123;
    const std::int64_t died = 1'700'000'000'123'457;
    CHECK(scene.run(&Moves::restore, {{scene.keep("a"), false, due, 1, 0, 1h, "", "A"},
                                      {scene.keep("b"), false, 0, 5, 2, 2h, "again", std::string_view("\0\xff", 2)},
                                      {scene.keep("c"), false, 0, 0, 0, 0ms, "", ""},
                                      {scene.keep("d"), true, died, 0, 0, 1h, "why", "D"},
                                      {scene.keep("c"), false, 0, 0, 0, 0ms, "", "other"}}) == "11110");
    CHECK(scene.score_us(scene.keys().pending, "a") == due);
    CHECK(scene.score_us(scene.keys().dead, "d") == died);
    CHECK(scene.cmd({"HGET", scene.keys().attempts, scene.id("d")}) == "0");
    CHECK(scene.ttl_ms("a") > 3'590'000);
    CHECK(scene.ttl_ms("b") > 7'190'000);
    CHECK(scene.ttl_ms("c") == -1);
    const Taken taken = scene.run(&Moves::ready2unack, {200, 0, 0}, 5min);
    REQUIRE(taken.messages.size() == 2);
    CHECK(taken.messages[0] == std::pair(scene.id("c"), 1));
    CHECK(taken.messages[1] == std::pair(scene.id("b"), 3));
    CHECK(scene.cmd({"GET", scene.keys().bodies + scene.id("b")}).text == std::string("\0\xff", 2));
    CHECK(scene.cmd({"GET", scene.keys().bodies + scene.id("c")}) == "");
    const std::vector<RestoreRecord> again = {{scene.keep("a"), false, due, 1, 0, 1h, "", "A"}};
    CHECK(scene.run(&Moves::restore, again) == "0");
    CHECK(scene.cmd({"KEYS", scene.keys().staged + "*"}).array.empty());
  }
}

TEST_CASE("restore: a TTL that is longer than Redis can add to its clock is cut") {
  Scene scene;
  CHECK(scene.run(&Moves::restore, {{scene.keep("a"), false, 0, 2, 0, milliseconds::max(), "", "new"}}) == "1");
  CHECK(scene.ttl_ms("a") > 8'000'000'000'000'000);
}

// A queue whose payloads are staged, for a user without the right to the command.
Scene::Setup staging_without_right_to(const std::string& command) {
  Scene::Setup setup;
  setup.moves.staged_bytes = 0;
  setup.login.user = "limited";
  setup.login.password = "secret";
  test::redis().cmd({"ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", "-" + command});
  return setup;
}

// Whether no staged payload outlives the time for which one waits for its script.
bool staged_expire(Scene& scene) {
  for (const std::string& key : scene.cmd({"KEYS", scene.keys().staged + "*"}).strings()) {
    const auto left = scene.cmd({"PTTL", key}).integer;
    if (left == -1 || milliseconds(left) > kStagedFor) return false;
  }
  return true;
}

TEST_CASE("restore: stores no body if a staged payload or a permission is missing; staged payloads expire") {
  // The staged payload gets the TTL of the body, by PEXPIRE, or loses its own, by PERSIST, before it is the body.
  const std::vector<std::pair<std::string, milliseconds>> cases = {{"set", 1h},     {"rename", 1h},   {"rename", 0ms},
                                                                   {"pexpire", 1h}, {"persist", 0ms}, {"lpush", 1h}};
  for (const auto& refused : cases) {
    const std::string& command = refused.first;
    const milliseconds ttl = refused.second;
    CAPTURE(command);
    CAPTURE(ttl.count());
    Scene scene(staging_without_right_to(command));
    const std::vector<RestoreRecord> all = {{scene.keep("a"), false, 0, 2, 1, ttl, "again", "body"}};
    const std::string text = test::refusal([&] { scene.run(&Moves::restore, all); });
    CHECK_MESSAGE(text.find("see \"The smallest ACL rule\"") != std::string::npos, text);
    CHECK(scene.cmd({"EXISTS", scene.keys().bodies + scene.id("a")}) == 0);
    if (command == "set") CHECK(scene.changes().empty());
    CHECK(staged_expire(scene));
    test::redis().cmd({"ACL", "SETUSER", "limited", "+" + command});
    CHECK(scene.run(&Moves::restore, all) == "1");
    CHECK((scene.ttl_ms("a") > 3'590'000) == (ttl > 0ms));
    CHECK((scene.ttl_ms("a") == -1) == (ttl == 0ms));
  }
  test::redis().cmd({"ACL", "DELUSER", "limited"});
}

TEST_CASE("restore: a message that Redis refuses to replace keeps its body; its staged payload expires") {
  const std::vector<std::pair<std::string, milliseconds>> cases = {
      {"rename", 1h}, {"rename", 0ms}, {"pexpire", 1h}, {"persist", 0ms}};
  for (const auto& refused : cases) {
    const std::string& command = refused.first;
    const milliseconds ttl = refused.second;
    CAPTURE(command);
    CAPTURE(ttl.count());
    Scene scene(staging_without_right_to(command));
    const std::string body = scene.keys().bodies + scene.id(".p1");
    const std::string before = scene.cmd({"GET", body}).text;
    RestoreRecord record{scene.keep(".p1"), false, 0, 2, 1, ttl, "again", "body"};
    record.replaces = true;
    const std::string text = test::refusal([&] { scene.run(&Moves::restore, {record}); });
    CHECK_MESSAGE(text.find("see \"The smallest ACL rule\"") != std::string::npos, text);
    CHECK(scene.cmd({"GET", body}) == before);
    CHECK(staged_expire(scene));
    test::redis().cmd({"ACL", "SETUSER", "limited", "+" + command});
    CHECK(scene.run(&Moves::restore, {record}) == "R");
    CHECK(scene.cmd({"GET", body}) == "body");
    CHECK((scene.ttl_ms(".p1") > 3'590'000) == (ttl > 0ms));
  }
  test::redis().cmd({"ACL", "DELUSER", "limited"});
}

TEST_CASE("restore: removes everything of an earlier message whose body is gone") {
  for (const At at : {At::pending, At::held, At::ready, At::dead}) {
    for (const bool dead : {true, false}) {
      CAPTURE(to_string(at));
      CAPTURE(dead);
      Scene scene;
      scene.put(at, "a", {10min, "3", "7", "old"});
      scene.cmd({"DEL", scene.keys().bodies + scene.id("a")});
      const std::int64_t time = scene.start_ms() * 1000 + (dead ? -60'000'000 : 0);
      CHECK(scene.run(&Moves::restore, {{scene.keep("a"), dead, time, 2, 0, 0ms, "", "new"}}) == "1");
      const Keys& keys = scene.keys();
      CHECK(scene.score_us(keys.pending, "a") == 0);
      CHECK(scene.score_us(keys.unack, "a") == 0);
      CHECK((scene.score_us(keys.dead, "a") != 0) == dead);
      CHECK(scene.cmd({"HEXISTS", keys.count, scene.id("a")}) == (dead ? 0 : 1));
      CHECK(scene.cmd({"HEXISTS", keys.reason, scene.id("a")}) == 0);
      CHECK(scene.cmd({"HGET", keys.attempts, scene.id("a")}) == "0");
    }
  }
}

TEST_CASE("restore: the deliveries of an earlier message of the same id do not count") {
  Scene::Setup quiet;
  quiet.lists = false;
  Scene scene(quiet);
  scene.put(At::ready, "a", {0ms, "3", "7"});
  scene.cmd({"DEL", scene.keys().bodies + scene.id("a")});
  CHECK(scene.run(&Moves::restore, {{scene.keep("a"), false, 0, 2, 0, 0ms, "", "new"}}) == "1");
  const Taken taken = scene.run(&Moves::ready2unack, {200, 0, 0}, 5min);
  REQUIRE(taken.messages.size() == 1);
  CHECK(taken.messages[0] == std::pair(scene.id("a"), 1));
}

TEST_CASE("restore: a body alone, as a Go worker leaves it behind, is no message: the message is created") {
  Scene scene;
  scene.cmd({"SET", scene.keys().bodies + scene.id("a"), "old"});
  CHECK(scene.run(&Moves::restore, {{scene.keep("a"), false, 0, 2, 0, 0ms, "", "new"}}) == "1");
  CHECK(scene.changes() == "msg a=new; attempts +a=0; ready [a .r2 .r1]; retry:cnt +a=2; stats sent+1; ");
}

TEST_CASE("bury, extend, purge_ids, restore: take 1, 199 or 200 ids") {
  for (const int count : {1, 199, 200}) {
    CAPTURE(count);
    Scene scene;
    const auto all = static_cast<std::size_t>(count);
    scene.put_many(At::pending, "p", count).put_many(At::backing_off, "b", count).put_many(At::ready, "r", count);
    CHECK(scene.run(&Moves::bury, scene.many("p", count), "why", false) == std::string(all, 'S'));
    CHECK(scene.run(&Moves::extend, scene.many("b", count), 1min, false) == std::string(all, 'S'));
    CHECK(scene.run(&Moves::purge_ids, scene.keys().ready, scene.many("r", count)).outcomes == std::string(all, 'S'));
    CHECK(scene.lost().size() == 5 * all - 1);  // the purged ones
    std::vector<RestoreRecord> records;
    const auto ids = scene.many("n", count);
    for (const std::string& id : ids) records.push_back({id, false, 0, 3, 1, 1h, "why", "body"});
    CHECK(scene.run(&Moves::restore, records) == std::string(all, '1'));
  }
}

}  // namespace
}  // namespace delayqueue::store
