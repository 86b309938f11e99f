#include "support/test.h"

#include "store/queries.h"
#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

// Runs a query, and checks that it changes nothing.
template <class T, class... Words>
T run_query(Scene& scene, Answer<T> (*query)(Pipeline&, const Keys&, Words...),
            typename test::Same<Words>::type... words) {
  Pipeline pipeline(scene.connection());
  const auto answer = query(pipeline, scene.keys(), words...);
  const auto before = scene.state();
  pipeline.run();
  CHECK((scene.state() == before));
  return answer.get();
}

std::vector<std::string> ids_of(const Page& page) {
  std::vector<std::string> out;
  for (const auto& entry : page.entries) out.push_back(entry.id);
  return out;
}

TEST_CASE("counts: every state, due and overdue messages, the first of each, totals") {
  Scene scene;
  scene.put(At::pending, "a", {-2min}).put(At::pending, "b", {-1min}).put(At::held, "c", {-1min});
  scene.put(At::ready, "d").put(At::retry, "e").put(At::dead, "f").put(At::garbage, "g");
  const std::int64_t before = scene.now_us();
  const QueueCounts counts = run_query(scene, &store::counts);
  CHECK(counts.now_us >= before);
  CHECK(counts.now_us <= scene.now_us());
  CHECK(counts.pending == 4);
  CHECK(counts.due == 2);
  CHECK(counts.ready == 3);
  CHECK(counts.unack == 9);
  CHECK(counts.overdue == 1);
  CHECK(counts.retry == 3);
  CHECK(counts.dead == 3);
  CHECK(counts.garbage == 3);
  CHECK(counts.first_pending_us == scene.score_us(scene.keys().pending, "a"));
  CHECK(counts.first_unack_us == scene.receipt("c").end_us);
  CHECK_FALSE(counts.paused);
  CHECK(counts.stats.size() == std::size(kTotals));
  CHECK(counts.stats.at("sent") == 100);
  CHECK(counts.stats.at("dead") == 0);
  scene.cmd({"SET", scene.keys().paused, ""});
  CHECK(run_query(scene, &store::counts).paused);
}

TEST_CASE("counts: are all 0 for a queue that does not exist, and nothing is first") {
  Scene scene;
  for (const auto& [key, value] : scene.state()) scene.cmd({"DEL", scene.keys().base + ":" + key});
  const QueueCounts counts = run_query(scene, &store::counts);
  CHECK(counts.pending + counts.ready + counts.unack + counts.retry + counts.dead + counts.garbage == 0);
  CHECK(counts.due + counts.overdue == 0);
  CHECK_FALSE(counts.first_pending_us);
  CHECK_FALSE(counts.first_unack_us);
  for (const auto& total : counts.stats) CHECK(total.second == 0);
}

TEST_CASE("page: messages of a zset, in order, with their metadata") {
  Scene scene;
  scene.put(At::pending, "a", {-2min, "5", "2", "too late"}).put(At::pending, "b", {-1min});
  const Page page = run_query(scene, &page_of_zset, scene.keys().pending, PageStart(), 3);
  CHECK(page.ids_read == 3);
  CHECK(ids_of(page) == scene.ids({"a", "b", ".p1"}));
  CHECK(page.entries[0].score_us == scene.score_us(scene.keys().pending, "a"));
  CHECK(page.entries[0].retries == 5);
  CHECK(page.entries[0].deliveries == 2);
  CHECK(page.entries[0].reason == "too late");
  CHECK(page.entries[1].deliveries == 0);
  CHECK(page.entries[1].reason.empty());
  const PageStart behind{false, place_of(page.entries[2])};
  const Page rest = run_query(scene, &page_of_zset, scene.keys().pending, behind, 200);
  CHECK(ids_of(rest) == scene.ids({".p2"}));
  const PageStart end{false, place_of(rest.entries[0])};
  CHECK(run_query(scene, &page_of_zset, scene.keys().pending, end, 200).ids_read == 0);
}

TEST_CASE("page: messages of a list in the order of delivery; hints that do not count are skipped") {
  Scene scene;
  scene.put(At::held, "h").put(At::ready, "a").put(At::pending, "p").put(At::dead, "d");
  for (const char* name : {"h", "none", "p", "d"}) scene.cmd({"LPUSH", scene.keys().ready, scene.id(name)});
  scene.put(At::ready, "b");
  Page page = run_query(scene, &page_of_list, scene.keys().ready, PageStart(), 200);
  CHECK(page.ids_read == 8);
  CHECK(ids_of(page) == scene.ids({".r1", ".r2", "a", "b"}));
  CHECK(page.entries[1].offset == 1);
  CHECK(page.entries[3].offset == 7);
  CHECK_FALSE(page.entries[0].score_us);
  page = run_query(scene, &page_of_list, scene.keys().ready, PageStart{false, "1"}, 3);
  CHECK(page.ids_read == 3);
  CHECK(ids_of(page) == scene.ids({".r2", "a"}));
  CHECK(run_query(scene, &page_of_list, scene.keys().ready, PageStart{false, "8"}, 3).ids_read == 0);
}

TEST_CASE("page: the newest first, of a zset and a list") {
  Scene scene;
  scene.put(At::pending, "a", {-2min}).put(At::ready, "x").put(At::ready, "y");
  Page page = run_query(scene, &page_of_zset, scene.keys().pending, PageStart{true, ""}, 2);
  CHECK(ids_of(page) == scene.ids({".p2", ".p1"}));
  page = run_query(scene, &page_of_zset, scene.keys().pending, PageStart{true, place_of(page.entries[1])}, 200);
  CHECK(ids_of(page) == scene.ids({"a"}));
  page = run_query(scene, &page_of_zset, scene.keys().pending, PageStart{true, place_of(page.entries[0])}, 200);
  CHECK(page.ids_read == 0);
  page = run_query(scene, &page_of_list, scene.keys().ready, PageStart{true, ""}, 3);
  CHECK(ids_of(page) == scene.ids({"y", "x", ".r2"}));
  CHECK(page.entries[2].offset == 2);
  CHECK(ids_of(run_query(scene, &page_of_list, scene.keys().ready, PageStart{true, "3"}, 3)) == scene.ids({".r1"}));
}

// Ids as the library makes them, and as other programs may write them: of any bytes and length, and empty.
std::string random_member(std::mt19937& random) {
  static const std::string kBytes[] = {std::string("\0", 1), "\n", " ", "a", "B", "-", "\xff", "\xc3\xa4"};
  if (random() % 3 == 0) return new_ids(1).front();
  std::string member;
  for (std::size_t length = random() % 4; length > 0; --length) member += kBytes[random() % std::size(kBytes)];
  return random() % 5 == 0 ? member + std::string(101, 'x') : member;
}

TEST_CASE("page: each message of a zset that stays is on one page, in order, while others leave and arrive") {
  const std::string scores[] = {
      "1.5", "2", "2", "2.0000000000000004", "1700000000.123456", "1700000000.1234562", "-3.5", "1e300", "inf", "-inf"};
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Scene scene;
    const std::string key = scene.keys().dead;
    scene.cmd({"DEL", key});
    std::vector<std::string> stay, all;
    const auto add = [&] {
      all.push_back(random_member(random));
      if (std::count(all.begin(), all.end(), all.back()) > 1) return all.pop_back();
      scene.cmd({"ZADD", key, scores[random() % std::size(scores)], all.back()});
    };
    for (std::size_t count = random() % 80; count > 0; --count) add();
    stay = all;
    PageStart start;
    start.newest = random() % 2 == 0;
    const std::size_t most = 1 + random() % 7;
    std::vector<std::string> seen;
    while (true) {
      const Page page = run_query(scene, &page_of_zset, key, start, most);
      const std::vector<std::string> ids = ids_of(page);
      seen.insert(seen.end(), ids.begin(), ids.end());
      if (page.ids_read < most) break;
      start.after = place_of(page.entries.back());
      REQUIRE(is_place(start.after));
      for (std::size_t changes = random() % 3; changes > 0; --changes) {
        if (random() % 2 == 0 || stay.empty()) {
          add();
          continue;
        }
        const std::size_t gone = random() % stay.size();
        scene.cmd({"ZREM", key, stay[gone]});
        stay.erase(stay.begin() + static_cast<std::ptrdiff_t>(gone));
      }
      REQUIRE(seen.size() < 10'000);
    }
    CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == seen.size());
    std::vector<std::string> expected;
    for (const std::string& member : scene.cmd({"ZRANGE", key, "0", "-1"}).strings()) {
      if (std::count(stay.begin(), stay.end(), member) > 0) expected.push_back(member);
    }
    if (start.newest) std::reverse(expected.begin(), expected.end());
    std::vector<std::string> found;
    for (const std::string& member : seen) {
      if (std::count(stay.begin(), stay.end(), member) > 0) found.push_back(member);
    }
    CHECK(found == expected);
  }
}

TEST_CASE("page: a place is a score and an id") {
  for (const char* text : {"1 ", "1 a", "-1.5 a b", "1e+300 x", "1e-5 ", "inf ", "-inf \n", "1* a"})
    CHECK(is_place(text));
  for (const char* text :
       {"", " ", "1", "a 1", "1. a", "e5 a", "1e a", "nan a", "(1 a", "+1 a", "1  ", "0x1 a", "1** a"}) {
    CAPTURE(text);
    CHECK(is_place(text) == (std::string(text) == "1  "));
  }
  CHECK(is_place("1 " + std::string(kPlaceBytes, 'x')));
  CHECK_FALSE(is_place("1 " + std::string(kPlaceBytes + 1, 'x')));
}

TEST_CASE("page: at most as many as requested, of 0, 1, 199, 200") {
  for (const std::size_t most : {0U, 1U, 199U, 200U}) {
    CAPTURE(most);
    Scene scene;
    scene.put_many(At::pending, "p", 201).put_many(At::ready, "r", 201);
    Page page;
    CHECK(test::refusal([&] { page = run_query(scene, &page_of_zset, scene.keys().pending, PageStart(), most); }) ==
          "");
    CHECK(page.ids_read == most);
    CHECK(page.entries.size() == most);
    CHECK(test::refusal([&] { page = run_query(scene, &page_of_list, scene.keys().ready, PageStart(), most); }) == "");
    CHECK(page.ids_read == most);
    CHECK(page.entries.size() == most);
  }
}

TEST_CASE("find: returns the state of a message, in every state, and its metadata") {
  struct {
    At at;
    const char* state;
    bool counted;
  } const cases[] = {{At::pending, "pending", true},  {At::ready, "ready", true},      {At::retry, "retry", true},
                     {At::held, "unack", true},       {At::held_by_go, "unack", true}, {At::backing_off, "unack", true},
                     {At::cancelled, "unack", false}, {At::dead, "dead", false},       {At::garbage, "unknown", false},
                     {At::nowhere, "unknown", false}};
  for (const auto& one : cases) {
    CAPTURE(to_string(one.at));
    Scene scene;
    scene.put(one.at, "a", {10min, "7", "", "why"});
    const Found found = run_query(scene, &find, scene.id("a"));
    CHECK(found.state == one.state);
    CHECK(found.entry.retries.has_value() == one.counted);
    CHECK(found.entry.retries.value_or(7) == 7);
    CHECK(found.entry.deliveries == (one.at == At::retry ? 1 : one.at == At::dead ? 4 : 0));
    CHECK(found.entry.reason == (one.at == At::nowhere ? "" : "why"));
    const std::string zset = scene.keys().base + ":" + one.state;
    const bool scored = zset == scene.keys().pending || zset == scene.keys().unack || zset == scene.keys().dead;
    CHECK(found.entry.score_us.has_value() == scored);
    if (scored) CHECK(found.entry.score_us == scene.score_us(zset, "a"));
  }
}

TEST_CASE("find: an id that cancel or reschedule left in a list has its true state") {
  Scene scene;
  scene.put(At::ready, "a").put(At::ready, "b");
  scene.run(&Moves::cancel, scene.id("a"));
  scene.run(&Moves::reschedule, scene.id("b"), {5min, 0});
  CHECK(run_query(scene, &find, scene.id("a")).state == "unknown");
  CHECK(run_query(scene, &find, scene.id("b")).state == "pending");
}

TEST_CASE("queries: retries that are no number are read as 0, as in the moves") {
  for (const std::string retries : {"2.5", "", "abc", "-1", "1e3"}) {
    CAPTURE(retries);
    Scene scene;
    scene.put(At::pending, "a", {-1min, retries});
    const Found found = run_query(scene, &find, scene.id("a"));
    CHECK(found.state == "pending");
    if (!retries.empty()) CHECK(found.entry.retries == 0);
    const Page page = run_query(scene, &page_of_zset, scene.keys().pending, PageStart(), 1);
    REQUIRE(page.entries.size() == 1);
    if (!retries.empty()) CHECK(page.entries[0].retries == 0);
  }
}

}  // namespace
}  // namespace delayqueue::store
