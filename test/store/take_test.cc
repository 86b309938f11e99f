#include "support/test.h"

#include "store/scripts.h"
#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

using Deliveries = std::vector<std::pair<std::string, int>>;

// Names and delivery numbers of the taken messages, in order.
std::string describe(Scene& scene, const Taken& taken, const std::vector<std::string>& names) {
  std::string text;
  for (const auto& [id, number] : taken.messages) {
    std::string name = id;
    for (const auto& one : names) {
      if (scene.id(one) == id) name = one;
    }
    text += (text.empty() ? "" : " ") + name + ":" + std::to_string(number);
  }
  return text;
}

test::Reply take_at(Scene& scene, std::int64_t now_us, std::int64_t lease_us) {
  const Keys& keys = scene.keys();
  return scene.run_at(now_us, scripts::ready2unack, test::key_names(calls::ready2unack::keys(keys)),
                      {"200", "25", "200", std::to_string(lease_us), "200", "0"});
}

TEST_CASE("ready2unack: leases messages, in the order in which they became ready, and counts them") {
  Scene scene;
  scene.put(At::ready, "a").put(At::ready, "b").put(At::ready, "c");
  const Taken taken = scene.run(&Moves::ready2unack, {4, 0, 0}, 5min);
  CHECK(describe(scene, taken, {"a", "b", "c", ".r1", ".r2"}) == ".r1:1 .r2:1 a:1 b:1");
  CHECK(taken.popped == 4);
  CHECK(taken.from_retry == 0);
  CHECK(taken.retry_left == 2);
  CHECK(scene.changes() == "ready [c]; stats delivered+4; unack +.r1@lease+5m +.r2@lease+5m +a@lease+5m +b@lease+5m; ");
}

TEST_CASE("ready2unack: the lease end is the same in the answer and in unack, and counts from the time of Redis") {
  Scene scene;
  const Taken taken = scene.run(&Moves::ready2unack, {2, 0, 0}, 5min);
  CHECK(scene.score_us(scene.keys().unack, ".r1") == taken.lease_us);
  CHECK(scene.score_us(scene.keys().unack, ".r2") == taken.lease_us);
  CHECK(taken.now_us >= scene.before_us());
  CHECK(taken.now_us <= scene.after_us());
  CHECK(taken.lease_us - taken.now_us >= 300'000'000);
  CHECK(taken.lease_us - taken.now_us <= 300'000'001);
  CHECK(is_lease(taken.lease_us));
}

TEST_CASE("ready2unack: a lease never ends at a whole millisecond, which would be a backoff") {
  for (const std::int64_t now : {1'800'000'000'123'000, 1'800'000'000'000'000, 1'800'000'000'123'001}) {
    Scene scene;
    const auto answer = take_at(scene, now, 30'000'000).strings();
    const std::int64_t end = now + 30'000'000 + (now % 1000 == 0 ? 1 : 0);
    CHECK(answer.at(1) == std::to_string(end));
    CHECK(answer.at(2) == std::to_string(now));
    CHECK(scene.score_us(scene.keys().unack, ".r1") == end);
  }
}

TEST_CASE("ready2unack: the lease end is unique in unack") {
  const std::int64_t now = 1'800'000'000'123'456;
  for (const std::int64_t lease_us :
       {30'000'000, 30'000'543}) {  // the next microsecond is a whole millisecond, or is not
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::held, "x").put(At::held, "y").put(At::ready, "a");
    const std::int64_t end = now + lease_us;
    for (const char* name : {"x", "y"}) {
      const std::string number = std::to_string(end + (*name == 'y' ? 1 : 0));
      const std::string score = number.substr(0, number.size() - 6) + "." + number.substr(number.size() - 6);
      scene.cmd({"ZADD", scene.keys().unack, score, scene.id(name)});
      scene.cmd({"LPUSH", scene.keys().ready, scene.id(name)});
    }
    const auto answer = take_at(scene, now, lease_us).strings();
    CHECK(answer.at(0) == "3");
    CHECK(answer.at(3) == scene.id("a"));
    CHECK(is_lease(std::stoll(answer.at(1))));
    CHECK(std::stoll(answer.at(1)) > end + 1);
    CHECK(scene.score_us(scene.keys().unack, "a") == std::stoll(answer.at(1)));
    CHECK(scene.score_us(scene.keys().unack, "x") == end);
  }
}

TEST_CASE("ready2unack: many lease ends that another program has put side by side cost few queries") {
  const std::int64_t now = 1'800'000'000'123'456, wanted = now + 30'000'000;
  constexpr int kCrafted = 10'000;
  for (const bool shares : {false, true}) {  // a different end each, or the same for all
    CAPTURE(shares);
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::ready, "a");
    const auto seconds = [](std::int64_t us) {
      const std::string number = std::to_string(us);
      return number.substr(0, number.size() - 6) + "." + number.substr(number.size() - 6);
    };
    std::vector<std::string> words{"ZADD", scene.keys().unack};
    for (int i = 0; i < kCrafted; ++i) {
      words.insert(words.end(), {seconds(wanted + (shares ? 0 : i)), "x" + std::to_string(i)});
    }
    REQUIRE(scene.cmd(words) == kCrafted);
    scene.cmd({"CONFIG", "RESETSTAT"});
    const auto answer = take_at(scene, now, 30'000'000).strings();
    const std::string counted = scene.cmd({"INFO", "commandstats"}).text;
    const auto at = counted.find("cmdstat_zcount:calls=");
    REQUIRE(at != std::string::npos);
    CHECK(std::stoi(counted.substr(at + 21)) <= 60);
    const std::int64_t end = std::stoll(answer.at(1));
    CHECK(answer.at(3) == scene.id("a"));
    CHECK(is_lease(end));
    CHECK(end > wanted);
    CHECK(end < wanted + 4 * kCrafted);  // close to the used ends, not far in the future
    CHECK(scene.score_us(scene.keys().unack, "a") == end);
    CHECK(scene.cmd({"ZCOUNT", scene.keys().unack, seconds(end), seconds(end)}) == 1);
  }
}

TEST_CASE("ready2unack: with nothing to take changes nothing, and returns how many wait in retry") {
  Scene scene(Scene::Setup::without_lists());
  Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200}, 5min);
  CHECK(taken.popped == 0);
  CHECK(taken.messages.empty());
  CHECK(taken.retry_left == 0);
  CHECK(scene.changes().empty());
  scene.put(At::retry, "a").put(At::retry, "b");
  taken = scene.run(&Moves::ready2unack, {200, 25, 0}, 5min);
  CHECK(taken.popped == 0);
  CHECK(taken.retry_left == 2);
  CHECK(scene.changes().empty());
}

TEST_CASE("ready2unack: takes at most the requested number of 0, 1, 199, 200, and never more than 200") {
  for (const std::size_t places : {0U, 1U, 199U, 200U, 201U}) {
    CAPTURE(places);
    Scene scene(Scene::Setup::without_lists());
    scene.put_many(At::ready, "m", 201);
    const Taken taken = scene.run(&Moves::ready2unack, {places, 25, 0}, 5min);
    const std::size_t expected = std::min<std::size_t>(places, 200);
    CHECK(taken.popped == expected);
    REQUIRE(taken.messages.size() == expected);
    const auto ids = scene.many("m", 201);
    for (std::size_t i = 0; i < expected; ++i) CHECK(taken.messages[i].first == ids[i]);
    CHECK(scene.cmd({"LLEN", scene.keys().ready}) == 201 - expected);
  }
}

TEST_CASE("ready2unack: a redelivery is numbered after the entry in attempts, and the last lease is deleted") {
  Scene scene(Scene::Setup::without_lists());
  scene.put(At::retry, "a").put(At::retry, "b", {10min, "3", "7 1700000000123457"}).put(At::retry, "c");
  scene.cmd({"HDEL", scene.keys().attempts, scene.id("c")});  // a Go worker put it there
  const Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200}, 5min);
  CHECK(describe(scene, taken, {"a", "b", "c"}) == "a:2 b:8 c:2");
  CHECK(taken.from_retry == 3);
  CHECK(taken.retry_left == 0);
  CHECK(scene.changes() ==
        "attempts a=2 b=8 +c=2; retry []; stats delivered+3; unack +a@lease+5m +b@lease+5m +c@lease+5m; ");
}

TEST_CASE("ready2unack: messages that a Go worker put into retry are redeliveries, alone or beside first deliveries") {
  for (const bool alone : {true, false}) {
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::retry, "a");
    scene.cmd({"HDEL", scene.keys().attempts, scene.id("a")});
    if (!alone) scene.put(At::ready, "b");
    const Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200}, 5min);
    CHECK(describe(scene, taken, {"a", "b"}) == (alone ? "a:2" : "b:1 a:2"));
  }
}

TEST_CASE("ready2unack: a redelivered message in ready is a redelivery, too, after the first deliveries") {
  Scene scene(Scene::Setup::without_lists());
  scene.put(At::ready, "old", {10min, "3", "2"}).put(At::ready, "new");
  const Taken taken = scene.run(&Moves::ready2unack, {200, 0, 0}, 5min);
  CHECK(describe(scene, taken, {"old", "new"}) == "new:1 old:3");
  CHECK(scene.changes() == "attempts old=3; ready []; stats delivered+2; unack +new@lease+5m +old@lease+5m; ");
}

TEST_CASE("ready2unack: ready comes first, but retry has its share; either list may use what the other leaves") {
  struct {
    std::size_t total, share, retry_max;
    int ready, retry;
    std::size_t from_ready, from_retry;
  } const cases[] = {{8, 1, 8, 20, 20, 7, 1}, {8, 0, 8, 20, 20, 8, 0},     {8, 8, 8, 20, 20, 0, 8},
                     {1, 1, 1, 20, 20, 0, 1}, {1, 0, 1, 20, 20, 1, 0},     {8, 1, 8, 3, 20, 3, 5},
                     {8, 1, 8, 0, 20, 0, 8},  {8, 1, 2, 0, 20, 0, 2},      {8, 4, 2, 20, 20, 6, 2},
                     {8, 4, 0, 20, 20, 8, 0}, {8, 4, 8, 20, 1, 7, 1},      {8, 4, 8, 20, 0, 8, 0},
                     {8, 1, 0, 3, 20, 3, 0},  {30, 3, 30, 20, 20, 20, 10}, {200, 25, 200, 20, 20, 20, 20}};
  for (const auto& one : cases) {
    CAPTURE(one.total);
    CAPTURE(one.share);
    CAPTURE(one.retry_max);
    CAPTURE(one.ready);
    CAPTURE(one.retry);
    Scene scene(Scene::Setup::without_lists());
    scene.put_many(At::ready, "n", one.ready).put_many(At::retry, "o", one.retry);
    const Taken taken = scene.run(&Moves::ready2unack, {one.total, one.share, one.retry_max}, 5min);
    CHECK(taken.popped == one.from_ready + one.from_retry);
    CHECK(taken.from_retry == one.from_retry);
    CHECK(taken.retry_left == static_cast<std::size_t>(one.retry) - one.from_retry);
    CHECK(scene.cmd({"LLEN", scene.keys().ready}) == static_cast<std::size_t>(one.ready) - one.from_ready);
    CHECK(scene.cmd({"LLEN", scene.keys().retry}) == static_cast<std::size_t>(one.retry) - one.from_retry);
    const auto expected = scene.many("n", static_cast<int>(one.from_ready));
    const auto again = scene.many("o", static_cast<int>(one.from_retry));
    Deliveries deliveries;
    for (const auto& id : expected) deliveries.emplace_back(id, 1);
    for (const auto& id : again) deliveries.emplace_back(id, 2);
    CHECK((taken.messages == deliveries));
  }
}

TEST_CASE("ready2unack: takes nothing while the queue is paused") {
  Scene scene;
  scene.cmd({"SET", scene.keys().paused, ""});
  const Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200}, 5min);
  CHECK(taken.popped == 0);
  CHECK(taken.messages.empty());
  CHECK(taken.retry_left == 0);  // else a worker would be kept free for them
  CHECK(scene.changes().empty());
}

TEST_CASE("possible poison: the last lease ran out, without a nack, and it was a lease of this library") {
  const std::pair<const char*, bool> cases[] = {{"1 1700000000123457", true},
                                                {"12 1700000000123001", true},
                                                {"1 1700000000123000", false},
                                                {"1 1700000000000000", false},
                                                {"3", false},
                                                {"", false},
                                                {"abc 457", false},
                                                {"1 457 2", false},
                                                {"1 1700000000123457 ", false}};
  for (const auto& one : cases) {
    const std::string note = one.first;
    const bool is_poison = one.second;
    CAPTURE(note);
    for (const std::size_t allowed : {0U, 1U}) {
      Scene scene(Scene::Setup::without_lists());
      scene.put(At::retry, "x", {10min, "3", note});
      if (note.empty()) scene.cmd({"DEL", scene.keys().attempts});
      const Taken taken = scene.run(&Moves::ready2unack, {8, 1, 8, allowed, 0}, 5min);
      const bool left = is_poison && allowed == 0;
      CHECK(taken.messages.size() == (left ? 0 : 1));
      CHECK(taken.popped == (left ? 0 : 1));
      CHECK(taken.further_poison == (left ? 1 : 0));
      CHECK(taken.retry_left == (left ? 1 : 0));
      CHECK(taken.possible_poison == (is_poison && !left ? scene.ids({"x"}) : std::vector<std::string>()));
      CHECK(scene.changes().empty() == left);
    }
  }
}

TEST_CASE("possible poison: poison_max are taken, in order, and poison_skip more skipped; one more ends the search") {
  struct {
    std::size_t retry_max, poison_max, poison_skip, further_poison;
    const char *messages, *poison, *retry;
  } const cases[] = {{8, 0, 0, 1, "new:1", "", ""},
                     {8, 1, 0, 1, "new:1 s1:2 n1:2", "s1", "retry [n3 s4 n2 s3 s2]; "},
                     {8, 1, 1, 2, "new:1 s1:2 n1:2", "s1", "retry [s2 n3 s4 n2 s3]; "},
                     {8, 1, 2, 3, "new:1 s1:2 n1:2 n2:2", "s1", "retry [s3 s2 n3 s4]; "},
                     {8, 1, 3, 3, "new:1 s1:2 n1:2 n2:2 n3:2", "s1", "retry [s4 s3 s2]; "},
                     {8, 0, 4, 4, "new:1 n1:2 n2:2 n3:2", "", "retry [s4 s3 s2 s1]; "},
                     {8, 2, 9, 2, "new:1 s1:2 n1:2 s2:2 n2:2 n3:2", "s1 s2", "retry [s4 s3]; "},
                     {3, 1, 9, 2, "new:1 s1:2 n1:2 n2:2", "s1", "retry [s3 s2 n3 s4]; "},
                     {2, 0, 9, 3, "new:1 n1:2 n2:2", "", "retry [s3 s2 s1 n3 s4]; "},
                     {1, 1, 9, 0, "new:1 s1:2", "s1", "retry [n3 s4 n2 s3 s2 n1]; "},
                     {0, 1, 9, 0, "new:1", "", ""}};
  for (const auto& one : cases) {
    CAPTURE(one.retry_max);
    CAPTURE(one.poison_max);
    CAPTURE(one.poison_skip);
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::ready, "new");
    for (const char* name : {"s1", "n1", "s2", "s3", "n2", "s4", "n3"}) {
      scene.put(At::retry, name, {10min, "3", name[0] == 's' ? "1 1700000000123457" : "1 1700000000123000"});
    }
    const Taken taken = scene.run(&Moves::ready2unack, {9, 1, one.retry_max, one.poison_max, one.poison_skip}, 5min);
    CHECK(describe(scene, taken, {"new", "s1", "n1", "s2", "s3", "n2", "s4", "n3"}) == one.messages);
    CHECK(taken.further_poison == one.further_poison);
    CHECK(taken.popped == taken.messages.size());
    CHECK(taken.from_retry == taken.popped - 1);
    CHECK(taken.retry_left == 7 - taken.from_retry);
    std::string poison;
    for (const std::string& id : taken.possible_poison)
      poison += (poison.empty() ? "" : " ") + (id == scene.id("s1") ? std::string("s1") : "s2");
    CHECK(poison == one.poison);
    const std::string changes = scene.changes();
    CHECK(
        (*one.retry == 0 ? changes.find("retry ") == std::string::npos : changes.find(one.retry) != std::string::npos));
    CHECK(scene.lost().empty());
  }
}

TEST_CASE("possible poison: new messages take the free places, and skipping has a limit") {
  Scene scene(Scene::Setup::without_lists());
  scene.put_many(At::ready, "n", 20).put_many(At::retry, "s", 250).put(At::retry, "old", {10min, "3", "2"});
  Taken taken = scene.run(&Moves::ready2unack, {10, 5, 8, 0, 0}, 5min);
  CHECK(taken.popped == 10);
  CHECK(taken.from_retry == 0);
  taken = scene.run(&Moves::ready2unack, {10, 5, 8, 0, 150}, 5min);
  CHECK(taken.popped == 10);
  CHECK(taken.from_retry == 0);
  CHECK(taken.further_poison == 151);
  CHECK(taken.retry_left == 251);
  taken = scene.run(&Moves::ready2unack, {10, 5, 8, 0, 100}, 5min);
  CHECK(taken.popped == 1);
  CHECK(taken.further_poison == 101);  // one of them was skipped before
  CHECK(describe(scene, taken, {"old"}) == "old:3");
  const auto order = scene.cmd({"LRANGE", scene.keys().retry, "0", "-1"}).strings();
  auto expected = scene.many("s", 250);
  std::reverse(expected.begin(), expected.end());
  CHECK((order == expected));  // skipped once around the list
}

TEST_CASE("possible poison: skipping changes the order of retry, and nothing else") {
  Scene scene(Scene::Setup::without_lists());
  scene.put(At::retry, "a").put(At::retry, "b").put(At::retry, "c");
  const Taken taken = scene.run(&Moves::ready2unack, {8, 1, 8, 0, 2}, 5min);
  CHECK(taken.popped == 0);
  CHECK(taken.further_poison == 3);
  CHECK(scene.changes() == "retry [b a c]; ");
}

TEST_CASE("lists are hints: an id that is also in a zset leaves the list and stays in the zset") {
  for (const At list : {At::ready, At::retry}) {
    for (const At at : {At::pending, At::held, At::held_by_go, At::backing_off, At::cancelled, At::dead}) {
      CAPTURE(to_string(list));
      CAPTURE(to_string(at));
      Scene scene(Scene::Setup::without_lists());
      scene.put(at, "x").put(list, "y");
      const auto& key = list == At::ready ? scene.keys().ready : scene.keys().retry;
      scene.cmd({"RPUSH", key, scene.id("x")});
      const Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200}, 5min);
      CHECK(taken.popped == 2);
      CHECK(describe(scene, taken, {"x", "y"}) == (list == At::ready ? "y:1" : "y:2"));
      CHECK(scene.changes() == std::string(list == At::ready ? "ready []; " : "attempts y=2; retry []; ") +
                                   "stats delivered+1; unack +y@lease+5m; ");
      CHECK(scene.lost().empty());
    }
  }
}

TEST_CASE("lists are hints: an id without a count that is in no zset goes to garbage") {
  for (const At list : {At::ready, At::retry}) {
    Scene scene(Scene::Setup::without_lists());
    scene.put(list, "x", {10min, "3", "2", "note"});
    scene.cmd({"HDEL", scene.keys().count, scene.id("x")});
    const Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200}, 5min);
    CHECK(taken.popped == 1);
    CHECK(taken.messages.empty());
    CHECK(scene.changes() == std::string("garbage +x; ") + (list == At::ready ? "ready []; " : "retry []; "));
  }
}

TEST_CASE("lists are hints: an id twice in a list, or in both, is delivered once") {
  Scene scene(Scene::Setup::without_lists());
  scene.put(At::ready, "a").put(At::ready, "b").put(At::retry, "c");
  scene.cmd({"LPUSH", scene.keys().ready, scene.id("a"), scene.id("a"), scene.id("c")});
  Taken taken = scene.run(&Moves::ready2unack, {4, 1, 4}, 5min);
  CHECK(taken.popped == 4);
  CHECK(describe(scene, taken, {"a", "b", "c"}) == "a:1 b:1 c:2");
  CHECK(scene.changes() ==
        "attempts c=2; ready [c a]; retry []; stats delivered+3; unack +a@lease+5m +b@lease+5m +c@lease+5m; ");
  taken = scene.run(&Moves::ready2unack, {4, 1, 4}, 5min);
  CHECK(taken.popped == 2);
  CHECK(taken.messages.empty());
  CHECK(scene.changes() == "ready []; ");
  CHECK(scene.lost().empty());
}

TEST_CASE("lists are hints: a full batch of hints is reported, so that the caller takes again at once") {
  Scene scene(Scene::Setup::without_lists());
  for (const auto& id : scene.many("h", 200)) scene.cmd({"LPUSH", scene.keys().ready, id});
  scene.put(At::ready, "x");
  Taken taken = scene.run(&Moves::ready2unack, {200, 25, 0}, 5min);
  CHECK(taken.popped == 200);
  CHECK(taken.messages.empty());
  CHECK(scene.cmd({"SCARD", scene.keys().garbage}) == 202);
  taken = scene.run(&Moves::ready2unack, {200, 25, 0}, 5min);
  CHECK(describe(scene, taken, {"x"}) == "x:1");
}

TEST_CASE("lists are hints: foreign ids do not prevent deliveries") {
  const std::vector<std::string> foreign = {"",
                                            "hello",
                                            "two words",
                                            std::string("\0\xff\r\n", 4),
                                            std::string(10'000, 'x'),
                                            "00000000-0000-0000-0000-00000000000"};
  for (const At list : {At::ready, At::retry}) {
    Scene scene(Scene::Setup::without_lists());
    for (const auto& one : foreign) {
      scene.cmd({"LPUSH", list == At::ready ? scene.keys().ready : scene.keys().retry, one});
    }
    scene.put(list, "x");
    const Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200}, 5min);
    CHECK(taken.popped == 7);
    CHECK(describe(scene, taken, {"x"}) == (list == At::ready ? "x:1" : "x:2"));
    for (const auto& one : foreign) CHECK(scene.cmd({"SISMEMBER", scene.keys().garbage, one}) == 1);
    CHECK(scene.cmd({"LLEN", list == At::ready ? scene.keys().ready : scene.keys().retry}) == 0);
  }
}

TEST_CASE("ready2unack: a foreign id with a retry count is counted and finished, not delivered") {
  for (const At list : {At::ready, At::retry}) {
    Scene scene(Scene::Setup::without_lists());
    const std::string& key = list == At::ready ? scene.keys().ready : scene.keys().retry;
    scene.cmd({"LPUSH", key, "hello"});
    scene.cmd({"HSET", scene.keys().count, "hello", "3"});
    scene.put(list, "x");
    const Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200}, 5min);
    CHECK(describe(scene, taken, {"x"}) == (list == At::ready ? "x:1" : "x:2"));
    CHECK(taken.foreign == 1);
    CHECK(taken.foreign_id == "hello");
    CHECK(scene.cmd({"ZSCORE", scene.keys().unack, "hello"}).nil());
    CHECK(scene.cmd({"SISMEMBER", scene.keys().garbage, "hello"}) == 1);
  }
}

TEST_CASE("ready2unack: attempts that are no number do not strand a message") {
  for (const std::string note : {"", "abc", "-1", " 5", "1e3 17", "2.5 9"}) {
    CAPTURE(note);
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::ready, "x").put(At::retry, "y");
    for (const char* name : {"x", "y"}) scene.cmd({"HSET", scene.keys().attempts, scene.id(name), note});
    const Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200}, 5min);
    CHECK(taken.popped == 2);
    REQUIRE(taken.messages.size() == 2);
    for (const auto& [id, number] : taken.messages) CHECK(number >= 1);
    CHECK(scene.score_us(scene.keys().unack, "x") == taken.lease_us);
    CHECK(scene.score_us(scene.keys().unack, "y") == taken.lease_us);
  }
}

TEST_CASE("ready2unack: ids that cancel and reschedule left in the lists deliver nothing, and nothing early") {
  Scene scene(Scene::Setup::without_lists());
  scene.put(At::ready, "a").put(At::ready, "b").put(At::retry, "c").put(At::retry, "d").put(At::ready, "e");
  CHECK(scene.run(&Moves::cancel, scene.id("a")) == "ready");
  CHECK(scene.run(&Moves::reschedule, scene.id("b"), {5min, 0}) == "moved");
  CHECK(scene.run(&Moves::cancel, scene.id("c")) == "retry");
  CHECK(scene.run(&Moves::reschedule, scene.id("d"), {5min, 0}) == "moved");
  const Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200}, 5min);
  CHECK(taken.popped == 5);
  CHECK(describe(scene, taken, {"a", "b", "c", "d", "e"}) == "e:1");
  CHECK(scene.changes() == "garbage +a +c; ready []; retry []; stats delivered+1; unack +e@lease+5m; ");
}

TEST_CASE("ready2unack: a lease too long for microsecond steps is refused, and nothing is taken") {
  for (const char* lease : {"inf", "nan", "1e302", "9007199254740992"}) {
    CAPTURE(lease);
    Scene scene(Scene::Setup::without_lists());
    scene.put(At::ready, "x");
    for (const char* end : {"inf", "1e296"}) scene.cmd({"ZADD", scene.keys().unack, end, std::string("held-") + end});
    const store::Keys& keys = scene.keys();
    const auto names = test::key_names(calls::ready2unack::keys(keys));
    std::vector<std::string> words = {"EVAL", std::string(scripts::ready2unack.body), std::to_string(names.size())};
    words.insert(words.end(), names.begin(), names.end());
    for (const char* word : {"200", "25", "200", lease, "200", "0"}) words.push_back(word);
    CHECK(scene.cmd(words).error());
    CHECK(scene.cmd({"LLEN", keys.ready}) == 1);
  }
}

TEST_CASE("bodies: come in the order of the ids; a missing body is unset, not empty") {
  Scene scene;
  scene.put(At::held, "a", {10min, "3", "", "", 0ms, "one"}).put(At::held, "b", {10min, "3", "", "", 0ms, ""});
  const auto bodies = scene.run(&Moves::bodies, scene.ids({"b", "none", "a", "b"}));
  REQUIRE(bodies.size() == 4);
  CHECK((bodies[0] == ""));
  CHECK_FALSE(bodies[1]);
  CHECK((bodies[2] == "one"));
  CHECK((bodies[3] == ""));
  CHECK(scene.changes().empty());
}

TEST_CASE("old entries: the first delivery of a message that was created again is number 1") {
  for (const char* how : {"send", "restore", "redrive"}) {
    CAPTURE(std::string(how));
    Scene::Setup quiet;
    quiet.lists = false;
    Scene scene(quiet);
    scene.put(At::retry, "x", {-1min});
    if (how == std::string("redrive")) {
      scene.run(&Moves::bury, scene.ids({"x"}), "why", false);
      CHECK(scene.run(&Moves::redrive, scene.ids({"x"}), 3) == "S");
    } else {
      scene.run(&Moves::cancel, scene.id("x"));
      if (how == std::string("send")) scene.run(&Moves::send, {{scene.id("x"), "new"}}, {{0ms, 0}});
      if (how == std::string("restore"))
        scene.run(&Moves::restore, {{scene.keep("x"), false, 0, 3, 0, 0ms, "", "new"}});
    }
    const Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200}, 5min);
    REQUIRE(taken.messages.size() == 1);
    CHECK(taken.messages[0] == std::pair(scene.id("x"), 1));
  }
}

TEST_CASE("old entries: an id that waits in retry is not taken through an entry in ready without a free worker") {
  Scene::Setup quiet;
  quiet.lists = false;
  Scene scene(quiet);
  scene.put(At::retry, "x", {-1min});
  scene.cmd({"RPUSH", scene.keys().ready, scene.id("x")});
  scene.cmd({"DEL", scene.keys().retry});
  Taken taken = scene.run(&Moves::ready2unack, {200, 25, 0}, 5min);
  CHECK(taken.messages.empty());
  CHECK(taken.popped == 1);
  CHECK(taken.retry_left == 1);
  CHECK(scene.changes() == "ready []; retry [x]; ");
  taken = scene.run(&Moves::ready2unack, {200, 25, 1}, 5min);
  CHECK(taken.messages.size() == 1);
}

// A script that Redis ends midway can leave a dead letter with a count.
TEST_CASE("old entries: an id in ready that is also pending or dead does not go to retry") {
  for (const At at : {At::pending, At::dead}) {
    CAPTURE(to_string(at));
    Scene scene(Scene::Setup::without_lists());
    scene.put(at, "x", {10min, "3", "2 1700000000123457"});
    scene.cmd({"HSET", scene.keys().count, scene.id("x"), "3"});
    scene.cmd({"RPUSH", scene.keys().ready, scene.id("x")});
    scene.changes();
    CHECK(scene.run(&Moves::ready2unack, {200, 25, 200}, 5min).popped == 1);
    CHECK(scene.changes() == "ready []; ");
  }
}

TEST_CASE("old entries: dead and held ids in retry do not count as possible poison messages") {
  Scene::Setup quiet;
  quiet.lists = false;
  Scene scene(quiet);
  for (const char* name : {"d1", "d2", "held"}) scene.put(At::retry, name, {-1min});
  scene.run(&Moves::bury, scene.ids({"d1", "d2"}), "why", false);
  scene.cmd({"ZADD", scene.keys().unack, "9999999999", scene.id("held")});
  scene.put(At::retry, "alive", {-1min});
  const Taken taken = scene.run(&Moves::ready2unack, {200, 25, 200, 1, 0}, 5min);
  REQUIRE(taken.messages.size() == 1);
  CHECK(taken.messages[0].first == scene.id("alive"));
  CHECK(taken.possible_poison == scene.ids({"alive"}));
  CHECK(taken.further_poison == 0);
}

}  // namespace
}  // namespace delayqueue::store
