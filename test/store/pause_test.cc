#include "support/test.h"

#include "store/pause.h"
#include "support/model_moves.h"

namespace delayqueue::store {
namespace {

using test::redis;

// The pause of one partition on a real server.
class PausedPartition {
 public:
  PauseState read() {
    Pipeline pipeline(connection_);
    const auto answer = read_pause(pipeline, keys_);
    pipeline.run();
    return answer.get();
  }
  PauseState set(const PauseState& wanted) { return run(set_pause, wanted); }
  PauseState copy(const PauseState& state) { return run(copy_pause, state); }
  void put(const std::string& generation) { redis().cmd({"HSET", keys_.settings, "pause", generation}); }
  const Keys& keys() const { return keys_; }

 private:
  template <class Move>
  PauseState run(Move move, const PauseState& state) {
    Pipeline pipeline(connection_);
    const auto answer = move(pipeline, keys_, state);
    pipeline.run();
    return answer.get();
  }

  const Keys keys_ = make_keys(test::fresh_queue(), {});
  redis::Connection connection_ = test::model::connect();
};

PauseState paused(const std::string& reason = "", std::optional<std::chrono::milliseconds> left = {}) {
  PauseState state;
  state.paused = true;
  state.reason = reason;
  state.left = left;
  return state;
}

PauseState of_generation(PauseState state, std::int64_t generation) {
  state.generation = generation;
  return state;
}

constexpr std::int64_t kLater = 5'000'000'000'000'000;  // us; the year 2128: of a clock that was set back

TEST_CASE("pause: reading writes nothing; a partition without a setting has no generation") {
  PausedPartition home;
  CHECK(home.read().generation == -1);
  CHECK_FALSE(home.read().paused);
  CHECK(redis().cmd({"EXISTS", home.keys().settings, home.keys().paused}) == 0);
}

TEST_CASE("pause: the generation of a pause is odd, that of its end even, so a pause without a new one is local") {
  PausedPartition home;
  for (int i = 0; i < 20; ++i) {
    CHECK(home.set(paused()).generation % 2 == 1);
    CHECK_FALSE(home.read().is_local());
    CHECK(home.set({}).generation % 2 == 0);
    CHECK_FALSE(home.read().is_local());
  }
  redis().cmd({"SET", home.keys().paused, ""});
  CHECK(home.read().is_local());
  redis().cmd({"DEL", home.keys().settings});
  CHECK(home.read().is_local());
}

TEST_CASE("pause: it is read as it was set, with its reason and its end, and so is its end") {
  PausedPartition home;
  const std::int64_t before = test::redis_time_us();
  const PauseState first = home.set(paused("why", 1h));
  CHECK(first.generation >= before);
  CHECK(first.generation <= test::redis_time_us());
  for (const PauseState& state : {first, home.read()}) {
    CHECK(state.paused);
    CHECK(state.reason == "why");
    REQUIRE(state.left);
    CHECK(*state.left > 59min);
    CHECK(*state.left <= 1h);
    CHECK(state.generation == first.generation);
    CHECK_FALSE(state.wrong_type);
  }
  const PauseState second = home.set(paused());
  CHECK(second.generation > first.generation);
  CHECK(home.read().paused);
  CHECK(home.read().reason.empty());
  CHECK_FALSE(home.read().left);
  const PauseState third = home.set({});
  CHECK(third.generation > second.generation);
  CHECK_FALSE(home.read().paused);
  CHECK(home.read().generation == third.generation);
}

TEST_CASE("pause: a generation is later than the stored one and the one that the caller has seen") {
  PausedPartition home;
  CHECK(home.set(of_generation(paused(), kLater)).generation == kLater + 1);
  CHECK(home.set({}).generation == kLater + 2);
  CHECK(home.set(of_generation(paused(), kLater + 8)).generation == kLater + 9);
}

TEST_CASE("pause: a copy replaces an earlier state, and is dropped if the partition has the same or a later one") {
  PausedPartition other;
  CHECK(other.copy(of_generation({}, 0)).generation == 0);
  CHECK(other.copy(of_generation(paused("first", 1h), 5)).generation == 5);
  CHECK(other.read().reason == "first");
  CHECK(other.read().left.value_or(0ms) > 59min);
  CHECK(other.copy(of_generation(paused("first", 2h), 5)).generation == 5);  // again: the end does not move
  CHECK(other.read().left.value_or(2h) <= 1h);
  const PauseState kept = other.copy(of_generation({}, 4));
  CHECK(kept.generation == 5);
  CHECK(kept.paused);
  CHECK(kept.reason == "first");
  CHECK_FALSE(other.copy(of_generation({}, 6)).paused);
  CHECK(redis().cmd({"EXISTS", other.keys().paused}) == 0);
  CHECK(other.copy(of_generation(paused("late"), 5)).generation == 6);
  CHECK_FALSE(other.read().paused);
  CHECK(other.copy(of_generation(paused("third", 0ms), 7)).generation == 7);  // it has just ended
  CHECK(test::eventually([&] { return !other.read().paused; }));
}

TEST_CASE("pause: a generation that no pause can have counts as absent") {
  for (const char* wrong : {"", "x", "-1", "1.5", "1e9", "12345678901234567", "9007199254740992", "9999999999999999"}) {
    PausedPartition other;
    other.put(wrong);
    CAPTURE(wrong);
    CHECK(other.read().generation == -1);
    CHECK(other.copy(of_generation(paused(), 0)).generation == 0);
    other.put(wrong);
    CHECK(other.set(paused()).paused);
    CHECK_FALSE(other.set({}).paused);
    CHECK_FALSE(other.read().paused);
  }
}

TEST_CASE("pause: after a generation that none can follow, a pause is refused with advice, and changes nothing") {
  PausedPartition home;
  home.put("9007199254740991");
  CHECK(test::thrown([&] { home.set(paused()); }).find("delete its field pause") != std::string::npos);
  CHECK_FALSE(home.read().paused);
}

TEST_CASE("pause: one of a program that knows no generations is read without one, also if its key is no string") {
  PausedPartition home;
  redis().cmd({"SET", home.keys().paused, "other program", "PX", "9223370000000000000"});
  const PauseState old = home.read();
  CHECK(old.paused);
  CHECK(old.reason == "other program");
  CHECK(old.generation == -1);
  CHECK(old.left);
  CHECK(home.set(old).generation > 0);  // its TTL is within the limits of Redis
  redis().cmd({"DEL", home.keys().paused});
  redis().cmd({"LPUSH", home.keys().paused, "x"});
  CHECK(home.read().paused);
  CHECK(home.read().wrong_type);
  CHECK(home.read().reason.empty());
  home.set({});
  CHECK_FALSE(home.read().paused);
  CHECK_FALSE(home.read().wrong_type);
}

TEST_CASE("pause: the other fields of the settings stay") {
  PausedPartition home;
  redis().cmd({"HSET", home.keys().settings, "top", "8"});
  home.set(paused());
  CHECK(redis().cmd({"HGET", home.keys().settings, "top"}) == "8");
}

TEST_CASE("pause: when memory is full it is copied and ended, and a new one is refused and changes nothing") {
  auto server = test::server_with({"--maxmemory", "1", "--maxmemory-policy", "noeviction"});
  redis::Address to;
  to.path = server.socket();
  redis::Connection connection(to, {{}, {}, "pause_test", 0}, {});
  Pipeline pipeline(connection);
  const auto copied = copy_pause(pipeline, make_keys("orders", {}), of_generation(paused("why"), 5));
  const auto ended = set_pause(pipeline, make_keys("orders", {}), {});
  const auto set = set_pause(pipeline, make_keys("orders", {}), paused("why"));
  const auto read = read_pause(pipeline, make_keys("orders", {}));
  pipeline.run();
  CHECK(copied.get().generation == 5);
  CHECK(copied.get().paused);
  CHECK_FALSE(ended.get().paused);
  CHECK(ended.get().generation > 5);
  CHECK(test::thrown([&] { return set.get(); }).find("OOM") != std::string::npos);
  CHECK_FALSE(read.get().paused);
  CHECK(read.get().generation == ended.get().generation);
}

}  // namespace
}  // namespace delayqueue::store
