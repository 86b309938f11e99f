#include "support/test.h"

#include "support/moves.h"
#include "support/regex.h"

// The table of docs/protocol.md: the effect of each operation on a message in each state. Each test runs one operation
// in every state, on a queue with other messages in all states, and compares the outcome and all changes.
namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

// What an operation answers in these states, and what it changes.
struct Cell {
  std::vector<At> states;
  const char* outcome;
  const char* changes = "";
};

// The receipt of a lease before the last one.
Receipt earlier(Scene& scene) {
  Receipt receipt = scene.receipt("x");
  receipt.end_us = scene.start_ms() * 1000 - 61'000'543;
  return receipt;
}

template <class Operation>
void check(const std::vector<Cell>& column, Operation operation, const test::Put& put = {}) {
  for (const Cell& cell : column) {
    for (const At at : cell.states) {
      CAPTURE(to_string(at));
      Scene scene;
      scene.put(at, "x", put);
      CHECK(std::string(operation(scene)) == cell.outcome);
      CHECK(test::replaced(scene.changes(), "[0-9]{16}", "time") == cell.changes);
    }
  }
}

TEST_CASE("table: send again finds a live message and does not change it; a finished or unknown one is created") {
  check(
      {{{At::pending, At::ready, At::retry, At::held, At::held_by_go, At::backing_off, At::dead}, "0"},
       {{At::cancelled}, "C"},
       {{At::garbage}, "1", "msg x=new; attempts +x=0; garbage -x; pending +x@now+5m; retry:cnt +x=3; stats sent+1; "},
       {{At::nowhere}, "1", "msg +x=new; attempts +x=0; pending +x@now+5m; retry:cnt +x=3; stats sent+1; "}},
      [](Scene& s) {
        return s.run(&Moves::send, {{s.id("x"), "new"}}, {{5min, 0}});
      });
}

TEST_CASE(
    "table: cancel removes messages that are not held, leaves ids in lists, and deletes the retries of held ones") {
  check({{{At::pending}, "pending", "msg -x; pending -x; retry:cnt -x; stats cancelled+1; "},
         {{At::ready}, "ready", "msg -x; retry:cnt -x; stats cancelled+1; "},
         {{At::retry}, "retry", "msg -x; attempts -x; retry:cnt -x; stats cancelled+1; "},
         {{At::held, At::held_by_go}, "unack", "retry:cnt -x; stats cancelled+1; "},
         {{At::backing_off}, "retry", "msg -x; retry:cnt -x; stats cancelled+1; unack -x; "},
         {{At::cancelled}, "unack"},
         {{At::dead}, "dead", "msg -x; attempts -x; dead -x; stats cancelled+1; "},
         {{At::garbage, At::nowhere}, "unknown"}},
        [](Scene& s) { return s.run(&Moves::cancel, s.id("x")); });
}

TEST_CASE("table: cancel also removes the metadata of a message") {
  check({{{At::pending}, "pending", "msg -x; attempts -x; pending -x; reason -x; retry:cnt -x; stats cancelled+1; "},
         {{At::ready, At::retry}, "ready", "msg -x; attempts -x; reason -x; retry:cnt -x; stats cancelled+1; "},
         {{At::backing_off}, "retry", "msg -x; attempts -x; reason -x; retry:cnt -x; stats cancelled+1; unack -x; "},
         {{At::dead}, "dead", "msg -x; attempts -x; dead -x; reason -x; stats cancelled+1; "}},
        [](Scene& s) { return s.run(&Moves::cancel, s.id("x")); }, {10min, "3", "2", "too bad", 1h});
}

TEST_CASE(
    "table: reschedule moves messages that are neither held nor dead, leaves ids in lists, deletes the last lease") {
  check({{{At::pending}, "moved", "pending x@now+20m; "},
         {{At::ready}, "moved", "pending +x@now+20m; "},
         {{At::retry}, "moved", "attempts x=1; pending +x@now+20m; "},
         {{At::held, At::held_by_go, At::cancelled}, "held"},
         {{At::dead}, "dead"},
         {{At::backing_off}, "moved", "attempts +x=1; pending +x@now+20m; unack -x; "},
         {{At::garbage, At::nowhere}, "unknown"}},
        [](Scene& s) {
          return s.run(&Moves::reschedule, s.id("x"), {20min, 0});
        });
}

TEST_CASE("table: reschedule to now puts a message behind those in ready") {
  check({{{At::pending}, "moved", "pending -x; ready [x .r2 .r1]; "},
         {{At::ready}, "moved", "ready [x x .r2 .r1]; "},
         {{At::retry}, "moved", "attempts x=1; ready [x .r2 .r1]; "},
         {{At::held, At::held_by_go, At::cancelled}, "held"},
         {{At::dead}, "dead"},
         {{At::backing_off}, "moved", "attempts +x=1; ready [x .r2 .r1]; unack -x; "},
         {{At::garbage, At::nowhere}, "unknown"}},
        [](Scene& s) {
          return s.run(&Moves::reschedule, s.id("x"), {0ms, 0});
        });
}

TEST_CASE("table: release without a receipt moves waiting messages to the head of ready, and no held ones") {
  check({{{At::pending}, "S", "pending -x; ready [.r2 .r1 x]; "},
         {{At::ready, At::retry, At::dead, At::garbage, At::nowhere}, "G"},
         {{At::held, At::held_by_go, At::cancelled}, "H"},
         {{At::backing_off}, "S", "attempts +x=1; ready [.r2 .r1 x]; unack -x; "}},
        [](Scene& s) { return s.run(&Moves::release_waiting, s.ids({"x"}), false); });
}

TEST_CASE("table: release by force also moves held messages; their delivery stays counted") {
  check({{{At::pending}, "S", "pending -x; ready [.r2 .r1 x]; "},
         {{At::ready, At::retry, At::dead, At::garbage, At::nowhere}, "G"},
         {{At::held, At::held_by_go}, "S", "attempts +x=1; ready [.r2 .r1 x]; unack -x; "},
         {{At::backing_off}, "S", "attempts +x=1; ready [.r2 .r1 x]; unack -x; "},
         {{At::cancelled}, "G", "garbage +x; unack -x; "}},
        [](Scene& s) { return s.run(&Moves::release_waiting, s.ids({"x"}), true); });
}

TEST_CASE("table: bury makes messages that are not held dead letters, with the reason, and leaves ids in lists") {
  check({{{At::pending}, "S", "attempts +x=0; dead +x@now; pending -x; reason +x=why; retry:cnt -x; stats dead+1; "},
         {{At::ready}, "S", "attempts +x=0; dead +x@now; reason +x=why; retry:cnt -x; stats dead+1; "},
         {{At::retry}, "S", "dead +x@now; reason +x=why; retry:cnt -x; stats dead+1; "},
         {{At::held, At::held_by_go}, "H"},
         {{At::backing_off}, "S", "attempts +x=1; dead +x@now; reason +x=why; retry:cnt -x; stats dead+1; unack -x; "},
         {{At::cancelled, At::garbage, At::nowhere}, "G"},
         {{At::dead}, "D"}},
        [](Scene& s) { return s.run(&Moves::bury, s.ids({"x"}), "why", false); });
}

TEST_CASE(
    "table: bury by force also takes held messages and keeps the end of the lease; without a reason the last one "
    "stays") {
  check({{{At::pending}, "S", "attempts +x=0; dead +x@now; pending -x; retry:cnt -x; stats dead+1; "},
         {{At::ready}, "S", "attempts +x=0; dead +x@now; retry:cnt -x; stats dead+1; "},
         {{At::retry}, "S", "dead +x@now; retry:cnt -x; stats dead+1; "},
         {{At::held, At::held_by_go}, "S", "attempts +x=1,end; dead +x@now; retry:cnt -x; stats dead+1; unack -x; "},
         {{At::backing_off}, "S", "attempts +x=1; dead +x@now; retry:cnt -x; stats dead+1; unack -x; "},
         {{At::cancelled, At::garbage, At::nowhere}, "G"},
         {{At::dead}, "D"}},
        [](Scene& s) { return s.run(&Moves::bury, s.ids({"x"}), "", true); });
}

TEST_CASE("table: extend prolongs backoffs and leases of Go workers; leases of this library by force only") {
  std::vector<Cell> column = {
      {{At::pending, At::ready, At::retry, At::cancelled, At::dead, At::garbage, At::nowhere}, "G"},
      {{At::held_by_go}, "S", "unack x@gotime; "},
      {{At::backing_off}, "S", "unack x@backofftime; "},
      {{At::held}, "H"}};
  check(column, [](Scene& s) { return s.run(&Moves::extend, s.ids({"x"}), 5min, false); });
  column.back() = {{At::held}, "S", "unack x@leasetime; "};
  check(column, [](Scene& s) { return s.run(&Moves::extend, s.ids({"x"}), 5min, true); });
}

TEST_CASE("table: purge_ids deletes messages in the given state, and no others") {
  const auto deletes = [](At at, std::string Keys::*state, const char* changes) {
    check({{test::all_but({at}), "G"}, {{at}, "S", changes}},
          [&](Scene& s) { return s.run(&Moves::purge_ids, s.keys().*state, s.ids({"x"})).outcomes; });
  };
  deletes(At::pending, &Keys::pending, "msg -x; pending -x; retry:cnt -x; stats purged+1; ");
  deletes(At::dead, &Keys::dead, "msg -x; attempts -x; dead -x; stats purged+1; ");
  deletes(At::ready, &Keys::ready, "msg -x; ready [.r2 .r1]; retry:cnt -x; stats purged+1; ");
  deletes(At::retry, &Keys::retry, "msg -x; attempts -x; retry [.t2 .t1]; retry:cnt -x; stats purged+1; ");
}

TEST_CASE("table: restore does not change live messages, and creates finished and unknown ones") {
  const auto restore = [](bool dead) {
    return [dead](Scene& s) {
      const std::int64_t at = s.start_ms() * 1000 + (dead ? -1200 : 1200) * 1'000'000LL;
      return s.run(&Moves::restore, {{s.keep("x"), dead, at, 2, 3, 0ms, "why", "new"}});
    };
  };
  std::vector<Cell> column = {
      {{At::pending, At::ready, At::retry, At::held, At::held_by_go, At::backing_off, At::dead}, "0"},
      {{At::cancelled}, "C"}};
  std::vector<Cell> alive = column;
  alive.push_back({{At::garbage},
                   "1",
                   "msg x=new; attempts +x=3; garbage -x; pending +x@start+20m; reason +x=why; retry:cnt +x=2; "
                   "stats sent+1; "});
  alive.push_back({{At::nowhere},
                   "1",
                   "msg +x=new; attempts +x=3; pending +x@start+20m; reason +x=why; retry:cnt +x=2; stats sent+1; "});
  check(alive, restore(false));
  std::vector<Cell> dead = column;
  dead.push_back(
      {{At::garbage}, "1", "msg x=new; attempts +x=3; dead +x@start+-20m; garbage -x; reason +x=why; stats sent+1; "});
  dead.push_back({{At::nowhere}, "1", "msg +x=new; attempts +x=3; dead +x@start+-20m; reason +x=why; stats sent+1; "});
  check(dead, restore(true));
}

TEST_CASE("table: restore with replace changes every message that no consumer holds, and none that one holds") {
  const auto replace = [](bool dead) {
    return [dead](Scene& s) {
      const std::int64_t at = s.start_ms() * 1000 + (dead ? -1200 : 1200) * 1'000'000LL;
      return s.run(&Moves::restore, {{s.keep("x"), dead, at, 2, 3, 0ms, "why", "new", "", true}});
    };
  };
  std::vector<Cell> column = {{{At::held, At::held_by_go}, "H"}, {{At::cancelled}, "C"}};
  std::vector<Cell> alive = column;
  alive.push_back(
      {{At::pending}, "R", "msg x=new; attempts +x=3; pending x@start+20m; reason +x=why; retry:cnt x=2; "});
  alive.push_back({{At::ready}, "R", "msg x=new; attempts +x=3; pending +x@start+20m; reason +x=why; retry:cnt x=2; "});
  alive.push_back({{At::retry}, "R", "msg x=new; attempts x=3; pending +x@start+20m; reason +x=why; retry:cnt x=2; "});
  alive.push_back({{At::backing_off},
                   "R",
                   "msg x=new; attempts +x=3; pending +x@start+20m; reason +x=why; retry:cnt x=2; unack -x; "});
  alive.push_back(
      {{At::dead}, "R", "msg x=new; attempts x=3; dead -x; pending +x@start+20m; reason +x=why; retry:cnt +x=2; "});
  check(alive, replace(false));
  std::vector<Cell> dead = column;
  dead.push_back(
      {{At::pending}, "R", "msg x=new; attempts +x=3; dead +x@start+-20m; pending -x; reason +x=why; retry:cnt -x; "});
  dead.push_back({{At::ready}, "R", "msg x=new; attempts +x=3; dead +x@start+-20m; reason +x=why; retry:cnt -x; "});
  dead.push_back({{At::retry}, "R", "msg x=new; attempts x=3; dead +x@start+-20m; reason +x=why; retry:cnt -x; "});
  dead.push_back({{At::backing_off},
                  "R",
                  "msg x=new; attempts +x=3; dead +x@start+-20m; reason +x=why; retry:cnt -x; unack -x; "});
  dead.push_back({{At::dead}, "R", "msg x=new; attempts x=3; dead x@start+-20m; reason +x=why; "});
  check(dead, replace(true));
}

TEST_CASE("table: release by receipt needs the receipt of the current lease; its delivery is not counted") {
  check({{{At::held}, "S", "ready [.r2 .r1 x]; unack -x; "}, {{At::cancelled}, "S", "garbage +x; unack -x; "}},
        [](Scene& s) { return s.run(&Moves::release, {s.receipt("x")}, 0ms); });
  check({{{At::pending, At::ready, At::retry, At::dead, At::garbage, At::nowhere}, "G"},
         {{At::held, At::held_by_go, At::backing_off, At::cancelled}, "T"}},
        [](Scene& s) { return s.run(&Moves::release, {earlier(s)}, 0ms); });
}

TEST_CASE("table: a late ack settles a message in a list or in dead if its last lease was this one") {
  const auto late_ack = [](Scene& s) { return s.run(&Moves::ack, {s.last_receipt("x")}); };
  check({{{At::retry}, "S", "msg -x; attempts -x; retry:cnt -x; stats acked+1; "},
         {{At::dead}, "S", "msg -x; attempts -x; dead -x; stats acked+1; "}},
        late_ack);
  check({{{At::pending, At::held, At::held_by_go, At::backing_off, At::cancelled}, "T"},
         {{At::ready, At::retry}, "S", "msg -x; attempts -x; reason -x; retry:cnt -x; stats acked+1; "},
         {{At::dead}, "S", "msg -x; attempts -x; dead -x; reason -x; stats acked+1; "},
         {{At::garbage, At::nowhere}, "G"}},
        late_ack, {10min, "3", "2 1700000000123457", "too bad"});
}

TEST_CASE("table: an ack or nack of an earlier lease is stale or gone, and changes nothing") {
  const std::vector<Cell> column = {
      {{At::pending, At::ready, At::retry, At::held, At::held_by_go, At::backing_off, At::cancelled, At::dead}, "T"},
      {{At::garbage, At::nowhere}, "G"}};
  check(column, [](Scene& s) { return s.run(&Moves::ack, {earlier(s)}); });
  check(column, [](Scene& s) { return s.run(&Moves::expire, {earlier(s)}); });
  check(column, [](Scene& s) { return s.run(&Moves::nack, {{earlier(s), 5min, "late"}}); });
  check(column, [](Scene& s) { return s.run(&Moves::nack, {{earlier(s), std::nullopt, "late"}}); });
}

TEST_CASE("table: a late nack is stale even for the last lease, since unack2retry has moved the message") {
  check({{{At::pending, At::ready, At::retry, At::dead}, "T"}, {{At::garbage, At::nowhere}, "G"}},
        [](Scene& s) {
          return s.run(&Moves::nack, {{s.last_receipt("x"), 5min, "late"}});
        },
        {10min, "3", "2 1700000000123457", "too bad"});
}

TEST_CASE("table: a late renew changes nothing: stale for another lease, gone after the message has left unack") {
  check({{{At::pending, At::ready, At::retry, At::dead, At::garbage, At::nowhere}, "G"},
         {{At::held, At::held_by_go, At::backing_off, At::cancelled}, "T"}},
        [](Scene& s) { return s.run(&Moves::renew, {earlier(s)}, s.start_ms() * 1000 + 1'200'000'001).outcomes; });
}

TEST_CASE("table: renew refuses an end at a whole millisecond, which would be a backoff") {
  for (const std::int64_t end : {0, 1000}) {
    Scene scene;
    scene.put(At::held, "x");
    const std::int64_t till = scene.start_ms() / 1000 * 1'000'000 + 1'200'000'000 + end;
    CHECK(test::refusal([&] { scene.run(&Moves::renew, {scene.receipt("x")}, till); }).find("whole milliseconds") !=
          std::string::npos);
    CHECK(scene.changes().empty());
  }
}

TEST_CASE("table: a message in garbage and in no zset is finished, even with a retry count and an entry in a list") {
  const auto finished = [](Scene& s) {
    s.cmd({"SADD", s.keys().garbage, s.id("x")});
    return s.id("x");
  };
  check({{{At::ready}, "1", "msg x=new; attempts +x=0; garbage -x; pending +x@now+5m; stats sent+1; "}}, [&](Scene& s) {
    return s.run(&Moves::send, {{finished(s), "new"}}, {{5min, 0}});
  });
  check({{{At::ready}, "1", "msg x=new; attempts +x=0; garbage -x; pending +x@start+5m; stats sent+1; "}},
        [&](Scene& s) {
          finished(s);
          return s.run(&Moves::restore, {{s.keep("x"), false, (s.start_ms() + 300'000) * 1000, 3, 0, 0ms, "", "new"}});
        });
  check({{{At::ready}, "unknown"}}, [&](Scene& s) { return s.run(&Moves::cancel, finished(s)); });
  check({{{At::ready}, "unknown"}}, [&](Scene& s) { return s.run(&Moves::reschedule, finished(s), {0ms, 0}); });
  check({{{At::ready}, "G"}}, [&](Scene& s) { return s.run(&Moves::bury, {finished(s)}, "why", false); });
}

// A Go worker may put an id into garbage that a zset still has. gc does not delete such a message.
TEST_CASE("table: a message in garbage and in a zset is alive, but in garbage and only pending it is created again") {
  const auto finished_by_go = [](Scene& s) {
    s.cmd({"SADD", s.keys().garbage, s.id("x")});
    return s.id("x");
  };
  check({{{At::dead, At::held}, "0"},
         {{At::pending}, "1", "msg x=new; attempts +x=0; garbage -x; pending x@now+5m; stats sent+1; "},
         {{At::cancelled}, "C"}},
        [&](Scene& s) {
          return s.run(&Moves::send, {{finished_by_go(s), "new"}}, {{5min, 0}});
        });
  const char* const kRestored =
      "msg x=new; attempts +x=3; dead +x@time; garbage -x; pending -x; reason +x=why; retry:cnt -x; stats sent+1; ";
  check({{{At::dead, At::held}, "0"}, {{At::pending}, "1", kRestored}, {{At::cancelled}, "C"}}, [&](Scene& s) {
    finished_by_go(s);
    return s.run(&Moves::restore, {{s.keep("x"), true, 1'700'000'000'000'000, 2, 3, 0ms, "why", "new"}});
  });
  check({{{At::dead}, "dead", "msg -x; attempts -x; dead -x; stats cancelled+1; "},
         {{At::pending}, "pending", "msg -x; pending -x; retry:cnt -x; stats cancelled+1; "}},
        [&](Scene& s) { return s.run(&Moves::cancel, finished_by_go(s)); });
  check({{{At::dead}, "D"}}, [&](Scene& s) { return s.run(&Moves::bury, {finished_by_go(s)}, "why", false); });
  check({{{At::pending}, "moved", "garbage -x; pending -x; ready [x .r2 .r1]; "}}, [&](Scene& s) {
    return s.run(&Moves::reschedule, finished_by_go(s), {0ms, 0});
  });
  check({{{At::pending}, "S", "garbage -x; pending -x; ready [.r2 .r1 x]; "}},
        [&](Scene& s) { return s.run(&Moves::release_waiting, {finished_by_go(s)}, false); });
}

TEST_CASE(
    "table: cancel also removes from pending a message that a Go worker took from a list, so its id can be sent "
    "again") {
  Scene scene;
  scene.put(At::held_by_go, "x");
  scene.cmd({"ZADD", scene.keys().pending, "9999999999", scene.id("x")});
  CHECK(scene.run(&Moves::cancel, scene.id("x")) == "unack");
  CHECK(scene.changes() == "pending -x; retry:cnt -x; stats cancelled+1; ");
  CHECK(scene.run(&Moves::send, {{scene.id("x"), "new"}}, {{5min, 0}}) == "C");
  scene.cmd({"ZREM", scene.keys().unack, scene.id("x")});  // the Go worker has finished it, since it has no count
  CHECK(scene.run(&Moves::send, {{scene.id("x"), "new"}}, {{5min, 0}}) == "1");
}

TEST_CASE("table: a message in pending without a retry count is created again, since it would be dropped when due") {
  Scene scene;
  scene.put(At::pending, "x");
  scene.cmd({"HDEL", scene.keys().count, scene.id("x")});
  CHECK(scene.run(&Moves::send, {{scene.id("x"), "new"}}, {{5min, 0}}) == "1");
  CHECK(scene.cmd({"HGET", scene.keys().count, scene.id("x")}) == "3");
}

TEST_CASE(
    "table: a message in pending without a retry count is not rescheduled or released, since it would be dropped") {
  const auto without_count = [](Scene& s) {
    s.cmd({"HDEL", s.keys().count, s.id("x")});
    return s.id("x");
  };
  for (const auto delay : {0ms, 1'200'000ms}) {
    check({{{At::pending}, "unknown"}}, [&](Scene& s) {
      return s.run(&Moves::reschedule, without_count(s), {delay, 0});
    });
  }
  for (const bool force : {false, true}) {
    check({{{At::pending}, "G"}}, [&](Scene& s) { return s.run(&Moves::release_waiting, {without_count(s)}, force); });
  }
  check({{{At::backing_off}, "G", "garbage +x; unack -x; "}},
        [&](Scene& s) { return s.run(&Moves::release_waiting, {without_count(s)}, false); });
}

}  // namespace
}  // namespace delayqueue::store
