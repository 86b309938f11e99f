#include "support/test.h"

#include "store/limits.h"
#include "store/script_calls.h"
#include "support/all_moves.h"
#include "support/seeds.h"

#include <random>

// The limits of a queue in its scripts: rate, messages in flight, and what a client that sets them relies on.
namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

std::int64_t score_to_us(const std::string& score) { return std::llround(std::strtod(score.c_str(), nullptr) * 1e6); }

constexpr std::int64_t kStart = 1'800'000'000'000'000;  // us

Scene::Setup bare() {
  Scene::Setup setup = Scene::Setup::without_lists();
  setup.recorded = false;
  return setup;
}

// A queue whose scripts run by a clock of the test.
class LimitedQueue {
 public:
  explicit LimitedQueue(const std::vector<std::string>& limits) { set(limits); }

  void set(const std::vector<std::string>& limits) {
    std::vector<std::string> words = {"HSET", scene.keys().limits};
    words.insert(words.end(), limits.begin(), limits.end());
    scene.cmd(words);
  }

  void fill(int messages) { scene.put_many(At::ready, "m", messages); }

  struct Took {
    int leased = 0;
    std::string held_by{};
    std::int64_t wait = 0;
  };
  Took take(int total, const std::string& caller = "me") {
    const auto keys = test::key_names(calls::take_paced::keys(scene.keys()));
    std::string body(scripts::take_paced.body);
    const std::string clock = "redis.call('TIME')";
    const std::string time = "{'" + std::to_string(now / 1'000'000) + "', '" + std::to_string(now % 1'000'000) + "'}";
    body.replace(body.find(clock), clock.size(), time);
    std::vector<std::string> words = {"EVAL", body, std::to_string(keys.size())};
    words.insert(words.end(), keys.begin(), keys.end());
    for (const std::string& word : {std::to_string(total), std::string("0"), std::string("0"), std::string("60000000"),
                                    std::string("0"), std::string("0"), caller}) {
      words.push_back(word);
    }
    const auto reply = scene.cmd(words);
    REQUIRE(!reply.error());
    REQUIRE(reply.array.size() == 18);
    const std::string& ids = reply.array[3].text;
    return {static_cast<int>((ids.size() + 1) / 37), reply.array[16].text, reply.array[17].integer};
  }
  bool marked() { return scene.cmd({"ZPOPMIN", scene.keys().wake}).array.size() == 2; }
  std::string field(const std::string& name) { return scene.cmd({"HGET", scene.keys().limits, name}).text; }

  Scene scene{bare()};
  std::int64_t now = kStart;
};

TEST_CASE("limits R1: ready2unack takes nothing from a queue with limits and answers so; pending2unack only moves") {
  LimitedQueue queue({"running", "5"});
  queue.fill(3);
  const auto before = queue.scene.state();
  const Taken none = queue.scene.run(&Moves::ready2unack, {200, 25, 200}, 1min);
  CHECK(none.has_limits);
  CHECK(none.messages.empty());
  CHECK(queue.scene.state() == before);
  queue.scene.cmd({"DEL", queue.scene.keys().ready});
  queue.scene.put(At::pending, "due", {-1min});
  const auto moved = queue.scene.run(&Moves::pending2unack, false, {"me", 1s}, {200, 200}, 1min);
  CHECK_FALSE(moved.taken);
  CHECK(moved.promoted.moved == 1);
  const Taken taken = queue.scene.run(&Moves::take_paced, {200, 25, 200}, 1min, "me");
  CHECK(taken.has_limits);
  CHECK(taken.messages.size() == 1);
}

TEST_CASE("limits R1: in a queue without limits take_paced is ready2unack and says that there are none") {
  LimitedQueue queue({"running", "5"});
  queue.scene.cmd({"DEL", queue.scene.keys().limits});
  queue.fill(3);
  const Taken taken = queue.scene.run(&Moves::take_paced, {200, 25, 200}, 1min, "me");
  CHECK_FALSE(taken.has_limits);
  CHECK(taken.messages.size() == 3);
  CHECK(queue.scene.cmd({"EXISTS", queue.scene.keys().running, queue.scene.keys().limits}) == 0);
}

TEST_CASE("limits: a paused queue answers as paused, with limits or without") {
  LimitedQueue queue({"rate", "1", "period", "1000000", "burst", "5"});
  queue.fill(3);
  queue.scene.cmd({"SET", queue.scene.keys().paused, "why"});
  CHECK_FALSE(queue.scene.run(&Moves::ready2unack, {200, 25, 200}, 1min).has_limits);
  const auto took = queue.take(10);
  CHECK(took.leased == 0);
  CHECK(took.held_by.empty());
  CHECK(took.wait == -1);
}

// Any window of W us has at most burst + W / T deliveries, and one that begins with a full bucket has all of them.
TEST_CASE("limits R2: random takes never exceed the rate in any window, and lose no token while messages wait") {
  std::mt19937 random(7);
  for (int round = 0; round < 9; ++round) {
    const int rate = 1 + static_cast<int>(random() % 500);
    const int burst = 1 + static_cast<int>(random() % 20);
    const int parts = round % 3 == 0 ? 4 : 1;
    CAPTURE(rate);
    CAPTURE(burst);
    CAPTURE(parts);
    LimitedQueue queue({"rate", std::to_string(rate), "period", "1000000", "burst", std::to_string(burst), "parts",
                        std::to_string(parts)});
    const double interval = 1e6 * parts / rate;
    const int share = std::max(1, burst / parts + (burst % parts > 0 ? 1 : 0));
    queue.fill(120);
    std::vector<std::int64_t> times;
    std::int64_t longest_gap = 0;
    for (int i = 0; i < 60 && times.size() < 100; ++i) {
      const auto gap = static_cast<std::int64_t>(random() % static_cast<unsigned>(3 * interval + 2));
      queue.now += gap;
      longest_gap = std::max(longest_gap, gap);
      const auto took = queue.take(1 + static_cast<int>(random() % 8));
      for (int k = 0; k < took.leased; ++k) times.push_back(queue.now);
      CHECK((took.held_by == "rate") == (took.wait > 0));
    }
    for (std::size_t a = 0; a < times.size(); ++a) {
      for (std::size_t b = a; b < times.size(); ++b) {
        const double window = static_cast<double>(times[b] - times[a]);
        if (static_cast<double>(b - a + 1) > share + window / interval + 1e-6)
          FAIL("more than the rate in a window of " << window);
      }
    }
    // The next token is there when the take has said so, and not before.
    for (auto took = queue.take(200); took.wait < 0; took = queue.take(200)) REQUIRE(took.leased > 0);
    for (int i = 0; i < 8 && queue.scene.cmd({"LLEN", queue.scene.keys().ready}).integer > 1; ++i) {
      const auto refused = queue.take(1);
      REQUIRE(refused.leased == 0);
      REQUIRE(refused.wait > 0);
      CHECK(static_cast<double>(refused.wait) <= interval + 2);
      queue.now += refused.wait;
      CHECK(queue.take(1).leased == 1);
    }
  }
}

TEST_CASE("limits R2: a full bucket has exactly its burst, and is never fuller") {
  LimitedQueue queue({"rate", "100", "period", "1000000", "burst", "20"});
  queue.fill(100);
  CHECK(queue.take(200).leased == 20);
  queue.now += 9'999;
  CHECK(queue.take(200).leased == 0);
  queue.now += 3'600'000'000;
  CHECK(queue.take(200).leased == 20);
}

TEST_CASE("limits R2: neither a clock that was set back, nor a lowered rate, nor a damaged time blocks for long") {
  LimitedQueue queue({"rate", "100", "period", "1000000", "burst", "10"});
  queue.fill(100);
  CHECK(queue.take(200).leased == 10);
  queue.now -= 7'200'000'000;  // two hours
  CHECK(queue.take(200).leased == 0);
  queue.now += 100'000;  // what a burst takes
  CHECK(queue.take(200).leased == 10);
  queue.set({"rate", "10"});
  queue.now += 1'000'000;
  CHECK(queue.take(200).leased >= 1);
  for (const std::string tat : {"99999999999999999999999", "inf", "nan", "-5", "x", "", "1e300", "9007199254740992"}) {
    CAPTURE(tat);
    queue.set({"tat", tat});
    const auto first = queue.take(1);
    queue.now += 1'000'001;
    CHECK(first.leased + queue.take(1).leased >= 1);
  }
}

TEST_CASE("limits R8: one consumer watches for the next token, and passes the watch on when it needs no more") {
  LimitedQueue queue({"rate", "100", "period", "1000000", "burst", "1"});
  queue.fill(50);
  CHECK(queue.take(1, "a").leased == 1);
  CHECK(queue.marked());  // no token is left, but messages are: somebody should watch
  const auto a = queue.take(1, "a");
  CHECK(a.leased == 0);
  CHECK((a.wait > 0 && a.wait <= 10'001));
  const auto b = queue.take(1, "b");
  CHECK(b.leased == 0);
  CHECK(b.wait == -1);  // a watches
  CHECK_FALSE(queue.marked());
  queue.now += a.wait;
  CHECK(queue.take(1, "a").leased == 1);  // all that it has room for
  CHECK(queue.marked());
  CHECK(queue.field("watch").empty());
  const auto next = queue.take(1, "b");
  CHECK(next.wait > 0);
  queue.now += next.wait + 200'001;  // b is gone
  CHECK(queue.take(1, "a").leased == 1);
  CHECK(queue.take(1, "a").wait > 0);
  queue.set({"watch", "99999999999999999 b"});  // another program
  CHECK(queue.take(1, "a").wait > 0);
}

TEST_CASE("limits R8: at a high rate the watcher waits for the tokens of 2 ms, but never until the bucket is full") {
  LimitedQueue queue({"rate", "5000", "period", "1000000", "burst", "500"});
  queue.fill(600);
  CHECK(queue.take(200).leased == 200);
  CHECK(queue.take(200).leased == 200);
  const auto held = queue.take(200);
  CHECK(held.leased == 100);
  CHECK(held.wait == 2000);
  queue.now += held.wait;
  CHECK(queue.take(200).leased == 10);
  LimitedQueue one({"rate", "5000", "period", "1000000", "burst", "1"});
  one.fill(3);
  CHECK(one.take(1).leased == 1);
  const auto next = one.take(1);
  CHECK(next.leased == 0);
  CHECK(next.wait <= 201);
  LimitedQueue few({"rate", "5000", "period", "1000000", "burst", "8"});
  few.fill(20);
  const auto rest = few.take(20);
  CHECK(rest.leased == 8);
  CHECK(rest.wait == 800);
}

TEST_CASE("limits R8: a watcher that watches no more gives the watch back") {
  SUBCASE("it has taken the last message") {
    LimitedQueue queue({"rate", "10", "period", "1000000", "burst", "1"});
    queue.fill(2);
    CHECK(queue.take(1, "a").leased == 1);
    const auto a = queue.take(1, "a");
    REQUIRE(a.wait > 0);
    queue.now += a.wait;
    CHECK(queue.take(1, "a").leased == 1);
    queue.scene.put_many(At::ready, "n", 1);
    CHECK(queue.take(1, "b").wait > 0);
  }
  SUBCASE("it came late, and left tokens for another") {
    LimitedQueue queue({"rate", "10", "period", "1000000", "burst", "3"});
    queue.fill(10);
    CHECK(queue.take(3, "a").leased == 3);
    const auto a = queue.take(1, "a");
    REQUIRE(a.wait > 0);
    queue.now += a.wait + 150'000;
    CHECK(queue.take(1, "a").leased == 1);
    CHECK(queue.marked());
    CHECK(queue.take(5, "b").wait > 0);
  }
  SUBCASE("a place is what it lacks now") {
    LimitedQueue queue({"rate", "10", "period", "1000000", "burst", "1", "running", "1"});
    queue.fill(5);
    queue.set({"watch", std::to_string(queue.now) + " a"});
    CHECK(queue.take(1, "a").leased == 1);
    queue.now += 200'000;
    CHECK(queue.take(1, "a").held_by == "running");
    CHECK(queue.field("watch").empty());
  }
}

TEST_CASE("limits R8: a take that wants nothing of retry does not wake its own consumer for what is left there") {
  LimitedQueue queue({"running", "5"});
  queue.scene.put_many(At::retry, "r", 3);
  CHECK(queue.take(1).leased == 0);
  CHECK_FALSE(queue.marked());
}

TEST_CASE("limits R8: a take that leaves messages and tokens wakes another consumer") {
  LimitedQueue queue({"rate", "100", "period", "1000000", "burst", "20"});
  queue.fill(5);
  CHECK(queue.take(2).leased == 2);
  CHECK(queue.marked());
  CHECK(queue.take(3).leased == 3);
  CHECK_FALSE(queue.marked());
  CHECK(queue.take(3).leased == 0);
  CHECK_FALSE(queue.marked());
}

TEST_CASE("limits R8: limits hold a take back only if they keep it from messages") {
  LimitedQueue queue({"rate", "100", "period", "1000000", "burst", "3", "running", "3"});
  CHECK(queue.take(10).held_by.empty());
  queue.fill(2);
  const auto all = queue.take(10);
  CHECK(all.leased == 2);
  CHECK(all.held_by.empty());
  queue.fill(1);
  CHECK(queue.take(10).held_by.empty());
  CHECK(queue.take(10).held_by.empty());
}

TEST_CASE("limits R3: the hint of a message in a backoff uses no place, and that of one in flight keeps its own") {
  LimitedQueue queue({"running", "5"});
  Scene& scene = queue.scene;
  queue.fill(2);
  const Taken taken = scene.run(&Moves::take_paced, {2}, 1min, "me");
  REQUIRE(taken.messages.size() == 2);
  const std::string &backs_off = taken.messages[0].first, &in_flight = taken.messages[1].first;
  CHECK(scene.run(&Moves::nack, {{{backs_off, taken.lease_us}, 1min, "why"}}) == "S");
  scene.cmd({"LPUSH", scene.keys().ready, backs_off, in_flight});
  CHECK(scene.run(&Moves::take_paced, {2}, 2min, "me").messages.empty());
  CHECK(scene.cmd({"ZRANGE", scene.keys().running, "0", "-1"}).strings() == std::vector<std::string>{in_flight});
  const std::string known = scene.cmd({"ZSCORE", scene.keys().running, in_flight}).text;
  CHECK(score_to_us(known) == taken.lease_us);
}

TEST_CASE("limits: with one token at a time retry gets its share, and first deliveries theirs") {
  LimitedQueue queue({"running", "1"});
  Scene& scene = queue.scene;
  queue.fill(20);
  scene.put_many(At::retry, "r", 20);
  std::size_t since = 0, from_retry = 0;
  for (int i = 0; i < 16; ++i) {
    TakeLimits limits{200, 0, 200};
    limits.since_retry = since;
    const Taken taken = scene.run(&Moves::take_paced, limits, 1min, "me");
    REQUIRE(taken.messages.size() == 1);
    since = taken.from_retry == 1 ? 0 : since + 1;
    from_retry += taken.from_retry;
    CHECK(scene.run(&Moves::remove, {"acked", true}, {{taken.messages[0].first, taken.lease_us}}) == "S");
  }
  CHECK(from_retry == 2);
}

TEST_CASE("limits R9: who frees a place wakes a consumer if a take was refused for want of one") {
  for (const std::string exit : {"ack", "nack", "release", "unack2retry", "bury", "correct_places"}) {
    CAPTURE(exit);
    LimitedQueue queue({"running", "2"});
    Scene& scene = queue.scene;
    queue.fill(4);
    CHECK(scene.run(&Moves::take_paced, {1}, 1min, "me").messages.size() == 1);
    CHECK(queue.marked());  // a place and messages are left
    CHECK(scene.run(&Moves::take_paced, {5}, 1min, "me").messages.size() == 1);
    CHECK(queue.field("full") == "1");
    const Taken none = scene.run(&Moves::take_paced, {5}, 1min, "other");
    CHECK(none.messages.empty());
    CHECK(none.held_back);
    CHECK_FALSE(queue.marked());
    const std::string id = scene.cmd({"ZRANGE", scene.keys().unack, "-1", "-1"}).strings().at(0);
    const auto held = scene.cmd({"ZRANGE", scene.keys().running, "0", "-1"}).strings();
    REQUIRE(held.size() == 2);
    const Receipt receipt{held[0], score_to_us(scene.cmd({"ZSCORE", scene.keys().unack, held[0]}).text)};
    if (exit == "ack") scene.run(&Moves::remove, {"acked", true}, {receipt});
    if (exit == "nack") scene.run(&Moves::nack, {{receipt, 1min, "why"}});
    if (exit == "release") scene.run(&Moves::release, {receipt}, 0ms);
    if (exit == "bury") scene.run(&Moves::bury, {held[0]}, "why", true);
    if (exit == "correct_places") {
      scene.cmd({"ZREM", scene.keys().unack, held[0]});  // as a Go worker settles
      CHECK(scene.run(&Moves::correct_places, held) == 1);
    }
    if (exit == "unack2retry") {
      scene.cmd({"ZADD", scene.keys().unack, "1.0000005", held[0]});
      CHECK(scene.run(&Moves::unack2retry, false).moved == 1);
    }
    CHECK(queue.marked());
    CHECK(queue.field("full").empty());
    CHECK(scene.cmd({"ZRANGE", scene.keys().running, "0", "-1"}).strings() == std::vector<std::string>{held[1]});
    CHECK(scene.run(&Moves::take_paced, {5}, 1min, "me").messages.size() == 1);
  }
}

// Random lives of messages, 10,000 of them, with settles that know nothing of places.
TEST_CASE("limits R3: in random runs no more messages than the limit are in flight, and every place comes free") {
  std::mt19937 random(11);
  for (std::uint64_t round = 0; round < test::seeds(250); ++round) {
    CAPTURE(round);
    const std::size_t most = 1 + random() % 8;
    LimitedQueue queue({"running", std::to_string(most)});
    Scene& scene = queue.scene;
    const auto counted = scene.cmd({"HLEN", scene.keys().count}).integer;
    queue.fill(40);
    const auto in_flight = [&] {
      const auto all = scene.cmd({"ZRANGE", scene.keys().unack, "0", "-1", "WITHSCORES"}).strings();
      std::vector<std::string> ids;
      for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
        const bool own = all[i].find("8000-6d") != std::string::npos;  // "m..."
        if (own && score_to_us(all[i + 1]) % 1000 != 0) ids.push_back(all[i]);
      }
      return ids;
    };
    const auto receipt_of = [&](const std::string& id) {
      return Receipt{id, score_to_us(scene.cmd({"ZSCORE", scene.keys().unack, id}).text)};
    };
    for (int step = 0; step < 100; ++step) {
      const auto held = in_flight();
      REQUIRE(held.size() <= most);
      const std::string id = held.empty() ? "" : held[random() % held.size()];
      switch (id.empty() ? 0 : random() % 9) {
        case 1:
          scene.run(&Moves::remove, {"acked", true}, {receipt_of(id)});
          break;
        case 2:
          scene.run(&Moves::nack, {{receipt_of(id), 1ms, "why"}});
          break;
        case 3:
          scene.run(&Moves::release, {receipt_of(id)}, milliseconds(random() % 2));
          break;
        case 4:  // its lease ends
          scene.cmd({"ZADD", scene.keys().unack, "1.0000005", id});
          scene.cmd({"ZADD", scene.keys().running, "1.0000005", id});
          break;
        case 5:
          scene.run(&Moves::unack2retry, false);
          break;
        case 6:  // a client that knows no places: the lease is known as ended later
          scene.run(&Moves::ack, {receipt_of(id)});
          scene.cmd({"ZADD", scene.keys().running, "XX", "1.0000005", id});
          break;
        case 7:
          scene.run(&Moves::renew, {receipt_of(id)}, scene.now_us() / 1000 * 1000 + 60'000'001);
          break;
        case 8:
          static_cast<void>(scene.run(&Moves::cancel, id));
          break;
        default:
          scene.run(&Moves::pending2ready, false, {"me", 1s});
          scene.run(&Moves::take_paced, {1 + random() % 5, 1, 5}, 1min, "me");
      }
    }
    for (int i = 0; i < 300 && scene.cmd({"HLEN", scene.keys().count}) != counted; ++i) {
      for (const std::string& id : in_flight()) scene.run(&Moves::remove, {"acked", true}, {receipt_of(id)});
      scene.run(&Moves::unack2retry, false);
      scene.run(&Moves::pending2ready, false, {"me", 1s});
      scene.run(&Moves::take_paced, {200, 20, 200}, 1min, "me");
    }
    for (const std::string& id : in_flight()) scene.run(&Moves::remove, {"acked", true}, {receipt_of(id)});
    CHECK(in_flight().empty());
    CHECK(scene.cmd({"HLEN", scene.keys().count}) == counted);
    scene.put_many(At::ready, "n", static_cast<int>(most));
    CHECK(scene.run(&Moves::take_paced, {200, 20, 200}, 1min, "me").messages.size() == most);
  }
}

TEST_CASE("limits R3: a renewed lease keeps its place when its known end has passed") {
  LimitedQueue queue({"running", "1"});
  Scene& scene = queue.scene;
  queue.fill(2);
  const Taken taken = scene.run(&Moves::take_paced, {1}, 1min, "me");
  REQUIRE(taken.messages.size() == 1);
  scene.cmd({"ZADD", scene.keys().running, "1.0000005", taken.messages[0].first});
  CHECK(scene.run(&Moves::take_paced, {1}, 1min, "me").messages.empty());
  const auto score = scene.cmd({"ZSCORE", scene.keys().running, taken.messages[0].first}).text;
  CHECK(score_to_us(score) == taken.lease_us);
}

TEST_CASE("limits: hostile or damaged values count as absent, and stop no take") {
  const std::string digits(400, '9');
  for (const char* field : {"rate", "period", "burst", "running", "parts", "part", "watch", "full"}) {
    for (const std::string& value :
         {std::string("bar"), std::string(), std::string("-1"), std::string("2.5"), std::string("inf"),
          std::string("nan"), std::string("0x1"), std::string(" 3"), std::string("0"), digits}) {
      CAPTURE(std::string(field));
      CAPTURE(value);
      LimitedQueue queue({"rate", "1000", "period", "1000", "burst", "50", "running", "90", field, value});
      queue.fill(3);
      CHECK(queue.take(3).leased >= 1);
    }
  }
  for (const char* key : {"limits", "running"}) {
    CAPTURE(std::string(key));
    LimitedQueue queue({"running", "90"});
    Scene& scene = queue.scene;
    queue.fill(3);
    scene.cmd({"DEL", scene.keys().base + ":" + key});
    scene.cmd({"SET", scene.keys().base + ":" + key, "of another program"});
    const Taken taken = scene.run(&Moves::take_paced, {2}, 1min, "me");
    CHECK(taken.messages.size() == 2);
    CHECK(scene.run(&Moves::remove, {"acked", true}, {{taken.messages[0].first, taken.lease_us}}) == "S");
    CHECK(scene.run(&Moves::nack, {{{taken.messages[1].first, taken.lease_us}, 1min, "why"}}) == "S");
    CHECK(scene.cmd({"GET", scene.keys().base + ":" + key}) == "of another program");
  }
}

// ---- Setting them ---------------------------------------------------------------------------------------------------

Limits limits_of(std::optional<RateLimit> rate, std::optional<std::uint64_t> running = {},
                 std::optional<std::uint64_t> length = {}) {
  Limits limits;
  limits.rate = rate;
  limits.running = running;
  limits.length = length;
  return limits;
}

const RateLimit kRate{100, 1s, 10};

class Admin {
 public:
  explicit Admin(Scene& scene) : scene_(scene) {}
  StoredLimits read() {
    return run([&](Pipeline& p) { return read_limits(p, scene_.keys()); });
  }
  StoredLimits set(const Limits& wanted) {
    return run([&](Pipeline& p) { return set_limits(p, scene_.keys(), wanted); });
  }
  StoredLimits copy(const Limits& wanted, unsigned part) {
    return run([&](Pipeline& p) { return copy_limits(p, scene_.keys(), wanted, part); });
  }

 private:
  template <class Ask>
  StoredLimits run(Ask ask) {
    Pipeline pipeline(scene_.connection());
    const auto answer = ask(pipeline);
    pipeline.run();
    return answer.get();
  }
  Scene& scene_;
};

TEST_CASE("limits R7: of two admins the later wins whole, and one that has not read the latest is refused") {
  Scene scene(bare());
  Admin admin(scene);
  CHECK(admin.read().limits.generation == 0);
  const StoredLimits first = admin.set(limits_of(kRate, 50));
  REQUIRE(first.done);
  CHECK(first.limits.generation > 0);
  CHECK(first.limits.rate->messages == 100);
  CHECK(first.limits.running == 50U);
  const StoredLimits refused = admin.set(limits_of({}, {}, 7));  // has read generation 0
  CHECK_FALSE(refused.done);
  CHECK(refused.limits.running == 50U);
  CHECK_FALSE(refused.limits.length);
  Limits next = limits_of({}, {}, 7);
  next.generation = refused.limits.generation;
  const StoredLimits second = admin.set(next);
  REQUIRE(second.done);
  CHECK_FALSE(second.limits.rate);
  CHECK_FALSE(second.limits.running);
  CHECK(second.limits.length == 7U);
  CHECK(scene.cmd({"EXISTS", scene.keys().limits, scene.keys().running}) == 0);
  next = {};
  next.generation = second.limits.generation;
  CHECK_FALSE(admin.set(next).limits.any());
  CHECK(scene.cmd({"HKEYS", scene.keys().settings}).strings() == std::vector<std::string>{"limits"});
}

TEST_CASE("limits R7: with full memory Redis refuses new limits, and accepts their removal and copies") {
  PrivateServer server;
  Scene::Setup setup = bare();
  setup.socket = server.socket();
  Scene scene(setup);
  Admin admin(scene);
  const StoredLimits set = admin.set(limits_of(kRate, 50, 9));
  scene.cmd({"CONFIG", "SET", "maxmemory", "1"});
  Limits next = limits_of(kRate, 60);
  next.generation = set.limits.generation;
  CHECK(test::refusal([&] { admin.set(next); }).find("OOM") != std::string::npos);
  CHECK(admin.read().limits.running == 50U);
  Limits length = limits_of({}, {}, 5);
  length.generation = set.limits.generation;
  CHECK(test::refusal([&] { admin.set(length); }).find("OOM") != std::string::npos);
  CHECK(admin.read().limits.running == 50U);
  Limits none;
  none.generation = set.limits.generation;
  const StoredLimits removed = admin.set(none);
  CHECK((removed.done && !removed.limits.any()));
  next.generation = removed.limits.generation + 1;
  CHECK(admin.copy(next, 0).limits.running == 60U);
  scene.cmd({"CONFIG", "SET", "maxmemory", "0"});
}

TEST_CASE("limits R7: damaged settings count as absent, and a key of another type is replaced") {
  for (const std::string generation : {"x", "-1", "9007199254740992", "99999999999999999999", ""}) {
    Scene scene(bare());
    Admin admin(scene);
    scene.cmd({"HSET", scene.keys().settings, "limits", generation, "length", "no"});
    scene.cmd({"SET", scene.keys().limits, "x"});
    scene.cmd({"SET", scene.keys().running, "x"});
    CHECK(admin.read().limits.generation == 0);
    CHECK_FALSE(admin.read().limits.any());
    CHECK(admin.set(limits_of(kRate, 3)).limits.running == 3U);
    CHECK(scene.cmd({"TYPE", scene.keys().limits}) == "hash");
    CHECK(scene.cmd({"EXISTS", scene.keys().running}) == 0);
  }
}

TEST_CASE("limits R29: each partition has its share, and a copy is not replaced by an older one") {
  std::uint64_t running = 0, tokens = 0;
  for (unsigned part = 0; part < 4; ++part) {
    LimitedQueue queue({"x", "y"});
    Admin admin(queue.scene);
    Limits limits = limits_of(RateLimit{1, 1s, 6}, 11);
    limits.generation = 5;
    limits.parts = 4;
    REQUIRE(admin.copy(limits, part).done);
    Limits older = limits_of({}, 1);
    older.generation = 4;
    CHECK(admin.copy(older, part).limits.running == 11U);
    queue.fill(30);
    const auto burst = queue.take(30);
    tokens += static_cast<std::uint64_t>(burst.leased);
    queue.scene.cmd({"HDEL", queue.scene.keys().limits, "rate"});
    queue.take(30);
    running += static_cast<std::uint64_t>(queue.scene.cmd({"ZCARD", queue.scene.keys().running}).integer);
  }
  CHECK(running == 11);
  CHECK(tokens == 6);
}

TEST_CASE(
    "limits R29: a partition that was added since the limits were divided has its own share, and not a whole one") {
  for (const unsigned part : {2U, 7U, 255U}) {
    LimitedQueue queue({"x", "y"});
    Admin admin(queue.scene);
    Limits limits = limits_of(RateLimit{80, 1s, 16}, 24);
    limits.generation = 5;
    limits.parts = 2;
    REQUIRE(admin.copy(limits, part).done);
    queue.fill(60);
    CHECK(queue.take(60).leased == static_cast<int>(std::max(1U, 16 / (part + 1))));
    queue.scene.cmd({"HDEL", queue.scene.keys().limits, "rate"});
    queue.take(60);
    CHECK(queue.scene.cmd({"ZCARD", queue.scene.keys().running}) == static_cast<int>(std::max(1U, 24 / (part + 1))));
  }
}

TEST_CASE("limits R3: messages that were in flight before the limit get places from correct_places, backoffs do not") {
  LimitedQueue queue({"running", "3"});
  Scene& scene = queue.scene;
  scene.put(At::held, "a").put(At::backing_off, "b").put(At::dead, "c");
  CHECK(scene.run(&Moves::correct_places, scene.ids({"a", "b", "c"})) == 2);
  CHECK(scene.cmd({"ZRANGE", scene.keys().running, "0", "-1"}).strings() == scene.ids({"a"}));
  scene.cmd({"DEL", scene.keys().limits, scene.keys().running});
  scene.run(&Moves::correct_places, scene.ids({"a"}));
  CHECK(scene.cmd({"EXISTS", scene.keys().running}) == 0);
}

}  // namespace
}  // namespace delayqueue::store
