#include "support/test.h"

#include "store/scripts.h"
#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Put;
using test::Scene;

const Put kNoted = {10min, "3", "2", "no gateway", 1h};

Receipt off_by(Receipt receipt, std::int64_t us) {
  receipt.end_us += us;
  return receipt;
}

TEST_CASE("ack: deletes everything of a message, and counts it") {
  Scene scene;
  scene.put(At::held, "a").put(At::held, "b", kNoted).put(At::held, "c");
  CHECK(scene.run(&Moves::ack, {scene.receipt("a"), scene.receipt("b")}) == "SS");
  CHECK(scene.changes() == "msg -a -b; attempts -b; reason -b; retry:cnt -a -b; stats acked+2; unack -a -b; ");
}

TEST_CASE("ack: one message alone is settled as among others, in every state and with every receipt") {
  const auto same_effect = [](At at, bool noted, bool others_noted, int which) {
    std::string outcomes[2];
    std::string changes[2];
    for (const bool alone : {true, false}) {
      Scene scene;
      if (!others_noted) scene.cmd({"DEL", scene.keys().attempts, scene.keys().reason});
      scene.put(at, "a", noted ? kNoted : Put());
      Receipt receipt = which == 2 ? scene.last_receipt("a") : scene.receipt("a");
      if (which == 1) receipt = off_by(receipt, 1);
      std::vector<Receipt> receipts = {receipt};
      if (!alone) receipts.push_back({scene.keep("none"), 5});
      outcomes[alone ? 0 : 1] = scene.run(&Moves::ack, receipts);
      changes[alone ? 0 : 1] = scene.changes();
    }
    CHECK(outcomes[0] + "G" == outcomes[1]);
    CHECK(changes[0] == changes[1]);
  };
  for (const At at : test::all_but({})) {
    CAPTURE(to_string(at));
    for (const bool noted : {false, true}) {
      for (const bool others_noted : {false, true}) {
        for (int which = 0; which < 3; ++which) {
          CAPTURE(which);  // 0: the receipt of the lease, 1: another one, 2: that of the last lease
          same_effect(at, noted, others_noted, which);
        }
      }
    }
  }
}

TEST_CASE("ack: compares the receipt to the microsecond") {
  Scene scene;
  scene.put(At::held, "a");
  for (const std::int64_t us : {-1, 1, -1000, 1000, 1'000'000}) {
    CHECK(scene.run(&Moves::ack, {off_by(scene.receipt("a"), us)}) == "T");
    CHECK(scene.changes().empty());
    CHECK(scene.run(&Moves::nack, {{off_by(scene.receipt("a"), us), 1min, ""}}) == "T");
    CHECK(scene.changes().empty());
    CHECK(scene.run(&Moves::release, {off_by(scene.receipt("a"), us)}, 0ms) == "T");
    CHECK(scene.changes().empty());
  }
  CHECK(scene.run(&Moves::ack, {scene.receipt("a")}) == "S");
}

TEST_CASE("ack: an ended lease still settles until unack2retry has moved the message") {
  Scene scene;
  scene.put(At::held, "a", {-5min});
  CHECK(scene.run(&Moves::ack, {scene.receipt("a")}) == "S");
  CHECK(scene.changes() == "msg -a; retry:cnt -a; stats acked+1; unack -a; ");
}

TEST_CASE("ack: a second ack is gone, and changes nothing") {
  Scene scene;
  scene.put(At::held, "a");
  const Receipt receipt = scene.receipt("a");
  CHECK(scene.run(&Moves::ack, {receipt}) == "S");
  CHECK(scene.run(&Moves::ack, {receipt}) == "G");
  CHECK(scene.changes().empty());
  CHECK(scene.run(&Moves::nack, {{receipt, 1min, ""}}) == "G");
  CHECK(scene.changes().empty());
}

TEST_CASE("ack: each of several messages has its own outcome, in their order") {
  Scene scene;
  scene.put(At::held, "a").put(At::held, "b").put(At::pending, "c").put(At::retry, "d").put(At::dead, "e");
  CHECK(scene.run(&Moves::ack, {scene.receipt("a"),
                                off_by(scene.receipt("b"), 1),
                                {scene.id("none"), 5},
                                scene.last_receipt("d"),
                                {scene.id("c"), 7},
                                scene.last_receipt("e")}) == "STGSTS");
  CHECK(scene.changes() == "msg -a -d -e; attempts -d -e; dead -e; retry:cnt -a -d; stats acked+3; unack -a; ");
}

TEST_CASE("ack: among many messages that were taken together, and others, each has its own outcome") {
  Scene::Setup setup;
  setup.lists = false;
  Scene scene(setup);
  const auto taken = [&](const char* letter) {
    scene.put_many(At::ready, letter, 60);
    return scene.run(&Moves::ready2unack, {60, 0, 0}, 5min).lease_us;
  };
  const std::int64_t end_of_a = taken("a"), end_of_b = taken("b");
  scene.put(At::held, "c").put(At::retry, "d").put_many(At::backing_off, "e", 20);
  const auto a = scene.many("a", 60), b = scene.many("b", 60), e = scene.many("e", 20);
  std::vector<Receipt> receipts;
  std::string expected;
  const auto add = [&](const Receipt& receipt, char outcome) {
    receipts.push_back(receipt);
    expected += outcome;
  };
  for (std::size_t i = 0; i < 40; ++i) {
    add({a[i], end_of_a}, 'S');
    i % 2 == 0 ? add({b[i], end_of_b}, 'S') : add({b[i], end_of_a}, 'T');
  }
  for (const auto& id : e) add({id, end_of_b}, 'T');
  const std::string none = scene.id("none");
  add(scene.receipt("c"), 'S');
  add(scene.last_receipt("d"), 'S');
  add({none, end_of_b}, 'G');
  for (std::size_t i = 50; i < 60; ++i) add({b[i], end_of_b}, 'S');
  CHECK(scene.run(&Moves::ack, receipts) == expected);
  CHECK(scene.cmd({"ZCARD", scene.keys().unack}) == 8 + 60 + 60 + 20 - (40 + 20 + 10));
  for (std::size_t i = 0; i < 60; ++i) {
    CHECK((scene.score_us(scene.keys().unack, "a0" + std::to_string(100 + i).substr(1)) == 0) == (i < 40));
    CHECK((scene.score_us(scene.keys().unack, "b0" + std::to_string(100 + i).substr(1)) == 0) ==
          (i >= 50 || (i < 40 && i % 2 == 0)));
  }
}

TEST_CASE("ack: a late ack leaves the id in retry, where ready2unack skips it") {
  Scene scene;
  scene.put(At::retry, "a");
  CHECK(scene.run(&Moves::ack, {scene.last_receipt("a")}) == "S");
  CHECK(scene.changes() == "msg -a; attempts -a; retry:cnt -a; stats acked+1; ");
  const Taken taken = scene.run(&Moves::ready2unack, {200, 200, 200}, 5min);
  CHECK(taken.popped == 5);
  for (const auto& [id, number] : taken.messages) CHECK(id != scene.id("a"));
}

TEST_CASE("ack: a late ack is stale after the message was taken again, rescheduled or redriven") {
  Scene scene;
  scene.put(At::retry, "a").put(At::retry, "b").put(At::dead, "c");
  const std::vector<Receipt> old = {scene.last_receipt("a"), scene.last_receipt("b"), scene.last_receipt("c")};
  CHECK(scene.run(&Moves::reschedule, scene.id("b"), {0ms, 0}) == "moved");
  CHECK(scene.run(&Moves::redrive, {scene.id("c")}, 3) == "S");
  CHECK(scene.run(&Moves::ack, old) == "STT");
  scene.put(At::retry, "d");
  const Receipt other = scene.last_receipt("d");
  scene.run(&Moves::ready2unack, {200, 200, 200}, 5min);
  CHECK(scene.run(&Moves::ack, {other}) == "T");
  CHECK(scene.run(&Moves::ack, {scene.receipt("d")}) == "S");
}

TEST_CASE("ack: settles messages that were cancelled while held, and messages without a body") {
  Scene scene;
  scene.put(At::cancelled, "a").put(At::held, "b");
  scene.cmd({"DEL", scene.keys().bodies + scene.id("b")});
  CHECK(scene.run(&Moves::ack, {scene.receipt("a"), scene.receipt("b")}) == "SS");
  CHECK(scene.changes() == "msg -a; retry:cnt -b; stats acked+2; unack -a -b; ");
}

TEST_CASE("expire: deletes everything of a message without a body, by receipt, and counts it as expired") {
  Scene scene;
  scene.put(At::held, "a", kNoted).put(At::held, "b");
  scene.cmd({"DEL", scene.keys().bodies + scene.id("a")});
  CHECK(scene.run(&Moves::expire, {scene.receipt("a"), off_by(scene.receipt("b"), 1)}) == "ST");
  CHECK(scene.changes() == "attempts -a; reason -a; retry:cnt -a; stats expired+1; unack -a; ");
}

TEST_CASE("ack, expire, nack, renew, release: take 1, 199 or 200 messages at once") {
  for (const std::size_t count : {1U, 199U, 200U}) {
    CAPTURE(count);
    const std::string all(count, 'S');
    Scene scene;
    const int n = static_cast<int>(count);
    for (const char* letter : {"a", "e", "n", "d", "r", "s"}) scene.put_many(At::held, letter, n);
    CHECK(scene.run(&Moves::ack, scene.receipts(scene.many("a", n))) == all);
    CHECK(scene.run(&Moves::expire, scene.receipts(scene.many("e", n))) == all);
    std::vector<Nack> nacks;
    for (const auto& receipt : scene.receipts(scene.many("n", n))) nacks.push_back({receipt, 5min, "why"});
    CHECK(scene.run(&Moves::nack, nacks) == all);
    nacks.clear();
    for (const auto& receipt : scene.receipts(scene.many("d", n))) nacks.push_back({receipt, std::nullopt, "why"});
    CHECK(scene.run(&Moves::nack, nacks) == std::string(count, 'D'));
    CHECK(scene.run(&Moves::renew, scene.receipts(scene.many("r", n)), scene.start_ms() * 1000 + 3'600'000'001)
              .outcomes == std::string(count, 'N'));
    CHECK(scene.run(&Moves::release, scene.receipts(scene.many("r", n)), 0ms) == all);
    CHECK(scene.run(&Moves::release, scene.receipts(scene.many("s", n)), 5min) == all);
    CHECK(scene.cmd({"ZCARD", scene.keys().unack}) == 8 + count);
    CHECK(scene.cmd({"ZCARD", scene.keys().dead}) == 2 + count);
    CHECK(scene.cmd({"LLEN", scene.keys().ready}) == 2 + count);
    CHECK(scene.cmd({"ZCARD", scene.keys().pending}) == 2 + count);
  }
}

TEST_CASE("nack: turns the lease into a backoff from the time of Redis, stores the reason, and spends no retry yet") {
  Scene scene;
  scene.put(At::held, "a").put(At::held, "b", kNoted);
  CHECK(scene.run(&Moves::nack, {{scene.receipt("a"), 5min, "first"}, {scene.receipt("b"), 0ms, "again"}}) == "SS");
  CHECK(scene.changes() == "reason +a=first b=again; stats nacked+2; unack a@backoff+5m b@backoff+0m; ");
}

TEST_CASE("nack: a backoff ends at a whole millisecond that is no whole second, and never early") {
  struct {
    std::int64_t now_us;
    const char* delay;
    std::int64_t end_us;
  } const cases[] = {{1'800'000'000'123'000, "5", 1'800'000'000'128'000},
                     {1'800'000'000'123'001, "5", 1'800'000'000'129'000},
                     {1'800'000'000'995'000, "5", 1'800'000'001'001'000},
                     {1'800'000'000'994'001, "5", 1'800'000'001'001'000},
                     {1'800'000'000'000'000, "0", 1'800'000'000'001'000}};
  for (const auto& one : cases) {
    Scene scene;
    scene.put(At::held, "a");
    const Keys& keys = scene.keys();
    CHECK(scene.run_at(one.now_us, scripts::nack,
                       test::key_names(calls::nack::keys(keys), {keys.bodies + scene.id("a")}),
                       {"1", std::to_string(scene.receipt("a").end_us), one.delay, ""}) == "S");
    CHECK(scene.score_us(keys.unack, "a") == one.end_us);
    CHECK_FALSE(is_lease(one.end_us));
  }
}

TEST_CASE("nack: without retries or a delay it makes a dead letter with the reason, and removes the body's TTL") {
  Scene scene;
  scene.put(At::held, "a", {10min, "0", "", "", 1h}).put(At::held, "b", {10min, "3", "2", "x", 1h});
  CHECK(scene.run(&Moves::nack, {{scene.receipt("a"), 5min, "bad"}, {scene.receipt("b"), std::nullopt, "worse"}}) ==
        "DD");
  CHECK(scene.changes() ==
        "msg a=payload b=payload; dead +a@now +b@now; reason +a=bad b=worse; retry:cnt -a -b; "
        "stats dead+2 nacked+2; unack -a -b; ");
}

TEST_CASE("nack: without keep_dead a message that would be dead goes straight to garbage") {
  Scene::Setup setup;
  setup.moves.keep_dead = false;
  Scene scene(setup);
  scene.put(At::held, "a", {10min, "0", "2", "note"}).put(At::held, "b");
  CHECK(scene.run(&Moves::nack, {{scene.receipt("a"), 5min, "bad"}, {scene.receipt("b"), 5min, "bad"}}) == "DS");
  CHECK(scene.changes() ==
        "attempts -a; garbage +a; reason -a +b=bad; retry:cnt -a; stats dead+1 nacked+2; unack -a b@backoff+5m; ");
}

TEST_CASE("nack: a message cancelled while held goes to garbage, with any verdict") {
  Scene scene;
  scene.put(At::cancelled, "a", {10min, "", "2", "note"}).put(At::cancelled, "b");
  CHECK(scene.run(&Moves::nack, {{scene.receipt("a"), 5min, "bad"}, {scene.receipt("b"), std::nullopt, ""}}) == "SS");
  CHECK(scene.changes() == "attempts -a; garbage +a +b; reason -a; stats nacked+2; unack -a -b; ");
}

TEST_CASE("nack: each of several messages has its own outcome, in their order") {
  Scene scene;
  scene.put(At::held, "a").put(At::held, "b", {10min, "0"}).put(At::held, "c").put(At::retry, "d");
  scene.put(At::garbage, "e");
  CHECK(scene.run(&Moves::nack, {{scene.receipt("a"), 1min, "1"},
                                 {{scene.id("e"), 5}, 1min, "2"},
                                 {scene.receipt("b"), 1min, "3"},
                                 {off_by(scene.receipt("c"), 1), 1min, "4"},
                                 {scene.last_receipt("d"), 1min, "5"},
                                 {{scene.id("none"), 5}, 1min, "6"}}) == "SGDTTG");
  CHECK(scene.changes() ==
        "dead +b@now; reason +a=1 +b=3; retry:cnt -b; stats dead+1 nacked+2; unack -b a@backoff+1m; ");
}

TEST_CASE("nack: a retry count that is no whole number counts as 0, and strands no message") {
  for (const std::string retries : {"2.5", "", "abc", "-1", "1e3", " 3"}) {
    CAPTURE(retries);
    Scene scene;
    scene.put(At::held, "a", {10min, retries}).put(At::held, "b");
    CHECK(scene.run(&Moves::nack, {{scene.receipt("a"), 5min, ""}, {scene.receipt("b"), 5min, ""}}) == "DS");
    CHECK(scene.changes() ==
          "dead +a@now; reason +a= +b=; retry:cnt -a; stats dead+1 nacked+2; unack -a b@backoff+5m; ");
  }
}

TEST_CASE("nack: a late nack does not bring back a finished message") {
  Scene scene;
  scene.put(At::held, "a");
  const Receipt receipt = scene.receipt("a");
  scene.run(&Moves::ack, {receipt});
  CHECK(scene.run(&Moves::nack, {{receipt, 0ms, ""}}) == "G");
  CHECK(scene.score_us(scene.keys().unack, "a") == 0);
  scene.run(&Moves::send, {{scene.id("a"), "sent again"}}, {{5min, 0}});
  CHECK(scene.run(&Moves::nack, {{receipt, 0ms, ""}}) == "T");
  CHECK(scene.run(&Moves::ack, {receipt}) == "T");
  CHECK(scene.changes().empty());
}

TEST_CASE("nack: a reason may contain any bytes") {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  Scene scene;
  scene.put(At::held, "a");
  CHECK(scene.run(&Moves::nack, {{scene.receipt("a"), 5min, every}}) == "S");
  CHECK(scene.cmd({"HGET", scene.keys().reason, scene.id("a")}) == every);
}

}  // namespace
}  // namespace delayqueue::store
