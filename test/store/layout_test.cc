#include "support/test.h"

#include "store/layout.h"
#include "support/model_moves.h"

namespace delayqueue::store {
namespace {

using test::redis;

constexpr std::int64_t kFuture = 5'000'000'000'000'000;  // us; the year 2128: a clock that is behind

std::string layout_text(const Layout& layout) {
  return std::to_string(layout.generation) + " " + std::to_string(layout.partitions) + " " + std::to_string(layout.top);
}

// The copy of one partition on a real server.
class Copy {
 public:
  Layout read() {
    Pipeline pipeline(connection_);
    const auto answer = read_layout(pipeline, keys_);
    pipeline.run();
    return answer.get();
  }
  StoredLayout update(const Layout& known) {
    Pipeline pipeline(connection_);
    const auto answer = copy_layout(pipeline, keys_, known);
    pipeline.run();
    return answer.get();
  }
  StoredLayout set(const Layout& known, unsigned partitions) {
    Pipeline pipeline(connection_);
    const auto answer = set_layout(pipeline, keys_, known, partitions);
    pipeline.run();
    return answer.get();
  }
  void put(const std::string& generation, const std::string& partitions, const std::string& top) {
    redis().cmd({"HSET", key(), "generation", generation, "partitions", partitions, "top", top});
  }
  const std::string& key() const { return keys_.settings; }

 private:
  const Keys keys_ = make_keys(test::fresh_queue(), {});
  redis::Connection connection_ = test::model::connect();
};

std::int64_t redis_now() {
  const auto time = redis().cmd({"TIME"}).strings();
  return std::stoll(time.at(0)) * 1'000'000 + std::stoll(time.at(1));
}

TEST_CASE("layout: a queue has one partition until another number is set; reading and updating write nothing") {
  Copy copy;
  CHECK(copy.read() == Layout());
  CHECK(copy.update({}).copy == Layout());
  CHECK(redis().cmd({"EXISTS", copy.key()}) == 0);
}

TEST_CASE("layout: a number that is set has a generation of at least the time, and is read as it was set") {
  Copy copy;
  const std::int64_t before = redis_now();
  const StoredLayout set = copy.set({}, 8);
  CHECK(set.done);
  CHECK(set.copy.generation >= before);
  CHECK(set.copy.generation <= redis_now());
  CHECK(set.copy.partitions == 8);
  CHECK(set.copy.top == 8);
  CHECK(copy.read() == set.copy);
  const StoredLayout fewer = copy.set(set.copy, 2);
  CHECK(fewer.copy.generation > set.copy.generation);
  CHECK(fewer.copy.partitions == 2);
  CHECK(fewer.copy.top == 8);
  CHECK(copy.read() == fewer.copy);
}

TEST_CASE("layout: a generation is later than the one before it, even if the clock is behind") {
  Copy copy;
  copy.put(std::to_string(kFuture), "4", "4");
  CHECK(layout_text(copy.set({kFuture, 4, 4}, 8).copy) == std::to_string(kFuture + 1) + " 8 8");
  // Of a copy that was rolled back, by a caller that has read a later one.
  copy.put("7", "2", "2");
  CHECK(layout_text(copy.set({kFuture + 1, 8, 16}, 4).copy) == std::to_string(kFuture + 2) + " 4 16");
}

TEST_CASE("layout: setting a number is refused if another one was set since the caller has read") {
  Copy copy;
  const Layout first = copy.set({}, 8).copy;
  const StoredLayout second = copy.set({}, 32);
  CHECK_FALSE(second.done);
  CHECK(second.copy == first);
  CHECK(copy.read() == first);
  CHECK(copy.set(second.copy, 32).done);
}

TEST_CASE("layout: an update replaces an older number, keeps a later one, and raises top only") {
  struct Update {
    Layout copy, known, then;
  };
  const std::vector<Update> rows = {
      {{5, 4, 4}, {6, 2, 4}, {6, 2, 4}},     {{5, 4, 4}, {5, 4, 4}, {5, 4, 4}},     {{5, 4, 8}, {4, 2, 2}, {5, 4, 8}},
      {{5, 4, 4}, {4, 32, 32}, {5, 4, 32}},  {{5, 4, 4}, {5, 8, 8}, {5, 8, 8}},     {{5, 8, 8}, {5, 4, 4}, {5, 8, 8}},
      {{5, 1, 64}, {9, 2, 2}, {9, 2, 64}},   {{0, 1, 1}, {9, 16, 16}, {9, 16, 16}}, {{0, 1, 1}, {0, 1, 4}, {0, 1, 4}},
      {{5, 2, 2}, {0, 1, 128}, {5, 2, 128}}, {{5, 2, 2}, {6, 1, 2}, {6, 1, 2}},
  };
  for (const Update& row : rows) {
    CAPTURE(layout_text(row.copy));
    CAPTURE(layout_text(row.known));
    Copy copy;
    if (row.copy != Layout()) {
      copy.put(std::to_string(row.copy.generation), std::to_string(row.copy.partitions), std::to_string(row.copy.top));
    }
    const StoredLayout stored = copy.update(row.known);
    CHECK(stored.done);
    CHECK(layout_text(stored.copy) == layout_text(row.then));
    CHECK(layout_text(copy.read()) == layout_text(row.then));
    CHECK(layout_text(merged(row.copy, row.known)) == layout_text(row.then));
    CHECK(layout_text(merged(row.known, row.copy)) == layout_text(row.then));
  }
}

TEST_CASE("layout: fields that no layout can have count as absent, for the script as for a reader") {
  struct Stored {
    std::string generation, partitions, top;
    Layout read;
  };
  const std::string controls("\x1b[2J\0", 5);
  const std::vector<Stored> rows = {
      {"5", "4", "8", {5, 4, 8}},
      {"5", "4", "7", {5, 4, 7}},
      {"5", "4", "2", {5, 4, 4}},
      {"5", "3", "8", {0, 1, 8}},
      {"5", "0", "8", {0, 1, 8}},
      {"5", "512", "8", {0, 1, 8}},
      {"0", "4", "8", {0, 1, 8}},
      {"", "4", "8", {0, 1, 8}},
      {"-5", "4", "8", {0, 1, 8}},
      {"5.5", "4", "8", {0, 1, 8}},
      {"0x5", "4", "8", {0, 1, 8}},
      {"5e3", "4", "8", {0, 1, 8}},
      {" 5", "4", "8", {0, 1, 8}},
      {controls, "4", "8", {0, 1, 8}},
      {"12345678901234567", "4", "8", {0, 1, 8}},
      {"5", "4", "257", {5, 4, 4}},
      {"5", "4", "", {5, 4, 4}},
      {"5", "4", "many", {5, 4, 4}},
      {"5", "4", "256", {5, 4, 256}},
      {"5", controls, "x", {0, 1, 1}},
      {"9007199254740990", "4", "4", {9'007'199'254'740'990, 4, 4}},
      {"9007199254740992", "4", "8", {0, 1, 8}},  // 2^53
      {"9999999999999999", "4", "8", {0, 1, 8}},
  };
  for (const Stored& row : rows) {
    CAPTURE(row.generation);
    CAPTURE(row.partitions);
    CAPTURE(row.top);
    Copy copy;
    copy.put(row.generation, row.partitions, row.top);
    CHECK(layout_text(copy.read()) == layout_text(row.read));
    CHECK(layout_text(copy.update({}).copy) == layout_text(row.read));
    CHECK(redis().cmd({"HGET", copy.key(), "top"}) == row.top);  // nothing was known, so nothing was written
    CHECK(copy.set(row.read, 2).done);
    CHECK(copy.read().partitions == 2);
    CHECK(copy.read().top == std::max(row.read.top, 2U));
  }
}

TEST_CASE("layout: after a generation that none can follow, a setting is refused with advice, and changes nothing") {
  Copy copy;
  copy.put("9007199254740991", "4", "8");
  const Layout before = copy.read();
  try {
    copy.set(before, 8);
    FAIL("it was set");
  } catch (const ReplyError& e) {
    CHECK(std::string(e.what()).find("delete its field generation") != std::string::npos);
  }
  CHECK(copy.read() == before);
}

TEST_CASE("layout: the other fields of the settings stay") {
  Copy copy;
  redis().cmd({"HSET", copy.key(), "format", "1"});
  copy.set({}, 4);
  copy.update({kFuture, 8, 8});
  CHECK(redis().cmd({"HGET", copy.key(), "format"}) == "1");
  CHECK(redis().cmd({"HLEN", copy.key()}) == 4);
}

TEST_CASE("layout: settings of another type are refused, and stay") {
  Copy copy;
  redis().cmd({"SET", copy.key(), "something else"});
  CHECK_THROWS_AS(copy.read(), ReplyError);
  CHECK_THROWS_AS(copy.update({5, 4, 4}), ReplyError);
  CHECK_THROWS_AS(copy.set({}, 4), ReplyError);
  CHECK(redis().cmd({"GET", copy.key()}) == "something else");
}

TEST_CASE("layout: it is updated and set when Redis is out of memory") {
  Copy copy;
  copy.set({}, 2);
  CHECK(redis().cmd({"CONFIG", "SET", "maxmemory", "1"}) == "OK");
  const StoredLayout updated = copy.update({kFuture, 8, 8});
  const StoredLayout set = copy.set(updated.copy, 4);
  CHECK(redis().cmd({"CONFIG", "SET", "maxmemory", "0"}) == "OK");
  CHECK(layout_text(set.copy) == std::to_string(kFuture + 1) + " 4 8");
  CHECK(copy.read() == set.copy);
}

TEST_CASE("layout: what copies tell together depends neither on their order nor on how often they are read") {
  std::vector<Layout> all;
  for (const std::int64_t generation : {1, 2, 3}) {
    for (const unsigned partitions : {1U, 2U, 4U}) {
      for (const unsigned top : {4U, 8U}) all.push_back({generation, partitions, top});
    }
  }
  all.push_back({0, 1, 1});
  for (const Layout& a : all) {
    CHECK(merged(a, a) == a);
    for (const Layout& b : all) {
      CHECK(merged(a, b) == merged(b, a));
      CHECK(merged(merged(a, b), b) == merged(a, b));
      CHECK(merged(a, b).top >= b.top);
      CHECK(merged(a, b).generation >= b.generation);
      for (const Layout& c : all) CHECK(merged(merged(a, b), c) == merged(a, merged(b, c)));
    }
  }
}

TEST_CASE("layout: the number of partitions is a power of two from 1 to 256") {
  std::vector<unsigned> possible;
  for (unsigned n = 0; n <= 2000; ++n) {
    if (is_partition_count(n)) possible.push_back(n);
  }
  CHECK(possible == std::vector<unsigned>{1, 2, 4, 8, 16, 32, 64, 128, 256});
  CHECK_FALSE(is_partition_count(1U << 31));
}

}  // namespace
}  // namespace delayqueue::store
