#include "support/test.h"

#include "store/actions.h"
#include "support/model_moves.h"

namespace delayqueue::store {
namespace {

using test::redis;

class ActionList {
 public:
  ActionList() = default;
  ~ActionList() { redis().cmd({"DEL", keys_.actions}); }
  ActionList(const ActionList&) = delete;
  ActionList& operator=(const ActionList&) = delete;

  void add(const ActionEntry& entry) {
    Pipeline pipeline(connection_);
    const auto added = add_action(pipeline, keys_, entry);
    pipeline.run();
    const bool is_added = added.get();  // throws; a CHECK would catch it
    CHECK(is_added);
  }
  std::vector<ActionEntry> read() {
    Pipeline pipeline(connection_);
    const auto answer = read_actions(pipeline, keys_);
    pipeline.run();
    return answer.get();
  }
  ActionEntry read_as(const std::string& element) {
    redis().cmd({"LPUSH", keys_.actions, element});
    return read().front();
  }
  const Keys& keys() const { return keys_; }

 private:
  const Keys keys_ = make_keys(test::fresh_queue(), {});
  redis::Connection connection_ = test::model::connect();
};

TEST_CASE("actions: an entry is read as it was added, the last one first") {
  ActionList list;
  CHECK(list.read().empty());
  list.add({1'700'000'000'123'457, 12, "done", "anna@host7", "dqctl redrive orders --reason 'gate *'"});
  list.add({1'700'000'001'000'000, std::nullopt, "partly", "ben@host8", ""});
  const std::vector<ActionEntry> entries = list.read();
  REQUIRE(entries.size() == 2);
  CHECK(*entries[0].at_us == 1'700'000'001'000'000);
  CHECK_FALSE(entries[0].messages);
  CHECK(entries[0].outcome == "partly");
  CHECK(entries[0].who == "ben@host8");
  CHECK(entries[0].what.empty());
  CHECK(*entries[1].at_us == 1'700'000'000'123'457);
  CHECK(*entries[1].messages == 12);
  CHECK(entries[1].outcome == "done");
  CHECK(entries[1].who == "anna@host7");
  CHECK(entries[1].what == "dqctl redrive orders --reason 'gate *'");
  CHECK(redis().cmd({"LINDEX", list.keys().actions, "0"}) == "1700000001000000 - partly ben@host8 ");
}

TEST_CASE("actions: the latest 100 are kept") {
  ActionList list;
  for (std::uint64_t i = 0; i < kMostActions + 20; ++i) list.add({1, i, "done", "me@here", "x"});
  CHECK(redis().cmd({"LLEN", list.keys().actions}) == static_cast<int>(kMostActions));
  const std::vector<ActionEntry> entries = list.read();
  REQUIRE(entries.size() == kMostActions);
  CHECK(*entries.front().messages == kMostActions + 19);
  CHECK(*entries.back().messages == 20);
}

TEST_CASE("actions: texts are cut, and a name or outcome stays one field") {
  ActionList list;
  list.add({1, 2, "not\nat all", "two words\t@here", std::string(5000, 'x') + " end"});
  const ActionEntry entry = list.read().front();
  CHECK(entry.outcome == "not_at_all");
  CHECK(entry.who == "two_words_@here");
  CHECK(entry.what == std::string(1024, 'x'));
  list.add({1, 2, "", "", "x"});
  CHECK(list.read().front().who == "-");
  CHECK(list.read().front().outcome == "-");
  list.add({1, 2, std::string(500, 'o'), std::string(500, 'w'), "x"});
  CHECK(list.read().front().outcome.size() == 32);
  CHECK(list.read().front().who.size() == 256);
}

TEST_CASE("actions: an element of another program is an entry without a time, with its first bytes") {
  ActionList list;
  for (const std::string element : {"", " ", "x", "1 2 done me", "-5 2 done me what", "1.5 2 done me what",
                                    "12345678901234567 2 done me what", "1 -2 done me what", "1 2x done me what",
                                    "1 1234567890123456 done me what", " 2 done me what", "\x1b[2J 2 done me what"}) {
    CAPTURE(element);
    const ActionEntry entry = list.read_as(element);
    CHECK_FALSE(entry.at_us);
    CHECK_FALSE(entry.messages);
    CHECK(entry.who.empty());
    CHECK(entry.outcome.empty());
    CHECK(entry.what == element);
  }
  CHECK(list.read_as(std::string(100'000, 'x')).what.size() == 1024);
  const ActionEntry long_fields =
      list.read_as("1 2 " + std::string(100'000, 'o') + ' ' + std::string(100'000, 'w') + " x");
  CHECK(*long_fields.at_us == 1);
  CHECK(long_fields.outcome.size() == 32);
  CHECK(long_fields.who.size() == 256);
  CHECK(long_fields.what == "x");
}

TEST_CASE("actions: a key of another type is refused, and not changed") {
  ActionList list;
  redis().cmd({"SET", list.keys().actions, "of another program"});
  CHECK_THROWS(list.read());
  CHECK_THROWS(list.add({1, 2, "done", "me@here", "x"}));
  CHECK(redis().cmd({"GET", list.keys().actions}) == "of another program");
}

}  // namespace
}  // namespace delayqueue::store
