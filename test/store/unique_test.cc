#include "support/test.h"

#include "store/script_calls.h"
#include "support/all_moves.h"
#include "support/regex.h"
#include "support/saved_queue.h"
#include "support/seeds.h"

#include <array>
#include <random>

// Messages with unique keys, and the limit of the length, in the scripts.
namespace delayqueue::store {
namespace {

using test::At;
using test::Cells;
using test::SavedQueue;
using test::Scene;

Scene::Setup quiet_setup() {
  Scene::Setup setup = Scene::Setup::without_lists();
  setup.recorded = false;
  return setup;
}

struct Wanted {
  KeyTerms terms{};
  SendTerms send{{0ms, 0}};
  std::string headers{};
};

// What became of a send: the outcome, the message that has the key, and how many calls it took.
struct Became {
  char outcome = '-';
  std::string id{};
  int calls = 0;
};

class KeyedQueue {
 public:
  explicit KeyedQueue(const Scene::Setup& setup = quiet_setup()) : scene(setup) {}

  // Sends a message with this name and payload, as a client does: again with the body of the message that has the key.
  Became send(const std::string& name, const std::string& key, const std::string& payload, const Wanted& wanted = {}) {
    Became became;
    std::string holder;
    do {
      const KeyedSent sent = scene.run(&Moves::send_keyed, {{scene.keep(name), payload, wanted.headers, key, holder}},
                                       wanted.send, wanted.terms);
      REQUIRE(sent.outcomes.size() == 1);
      became = {sent.outcomes[0], sent.ids[0], became.calls + 1};
      holder = sent.ids[0];
    } while (became.outcome == '?' && became.calls < 10);
    return became;
  }
  Taken take(std::size_t most = 200) { return scene.run(&Moves::ready2unack, {most, 25, most}, 1min); }
  std::string body(const std::string& name) { return scene.cmd({"GET", scene.keys().bodies + scene.id(name)}).text; }
  std::string entry(const std::string& key) { return scene.cmd({"HGET", scene.keys().unique, key}).text; }
  std::int64_t window_of(const std::string& key) {
    const std::string text = entry(key);
    return text.empty() ? -1 : std::stoll(text.substr(text.rfind(' ') + 1));
  }
  std::string field(const std::string& hash, const std::string& name) {
    return scene.cmd({"HGET", hash, scene.id(name)}).text;
  }
  // Puts a message with this key, which the entry of the key names.
  void put(At at, const std::string& name, const std::string& key, const test::Put& what = {}) {
    scene.put(at, name, what);
    scene.cmd({"HSET", scene.keys().keys, scene.id(name), key});
    scene.cmd({"HSET", scene.keys().unique, key, scene.id(name) + " 1700000000000000 0"});
  }

  Scene scene;
};

const Wanted kKeep{};
const Wanted kReplace{{Conflict::replace}};
Wanted postpone_by(milliseconds delay, std::optional<milliseconds> max_wait = {}) {
  return {{Conflict::postpone, true, 0ms, max_wait}, {{delay, 0}}};
}
Wanted with_window(milliseconds window) { return {{Conflict::keep, true, window}}; }
Wanted again(Wanted wanted) {
  wanted.send.new_ids = false;
  return wanted;
}
Wanted fresh(Wanted wanted) {
  wanted.send.new_ids = true;
  return wanted;
}

TEST_CASE("unique R12: a key is held while its message has a count, the key and a body; each alone frees it") {
  for (const std::string gone : {"nothing", "count", "key", "body", "another key", "garbage"}) {
    CAPTURE(gone);
    KeyedQueue queue;
    Scene& scene = queue.scene;
    REQUIRE(queue.send("a", "k", "1", fresh(kKeep)).outcome == '1');
    if (gone == "count") scene.cmd({"HDEL", scene.keys().count, scene.id("a")});
    if (gone == "key") scene.cmd({"HDEL", scene.keys().keys, scene.id("a")});
    if (gone == "body") scene.cmd({"DEL", scene.keys().bodies + scene.id("a")});
    if (gone == "another key") scene.cmd({"HSET", scene.keys().keys, scene.id("a"), "other"});
    if (gone == "garbage") scene.cmd({"SADD", scene.keys().garbage, scene.id("a")});  // a Go worker gave it up
    const Became second = queue.send("b", "k", "2", fresh(kKeep));
    CHECK(second.outcome == (gone == "nothing" ? 'U' : '1'));
    CHECK(second.id == (gone == "nothing" ? scene.id("a") : ""));
    CHECK(queue.body("b") == (gone == "nothing" ? "" : "2"));
    CHECK(queue.entry("k").substr(0, 36) == scene.id(gone == "nothing" ? "a" : "b"));
    // An id that was used again without the key does not hold it either.
    CHECK(scene.run(&Moves::cancel, scene.id("b")) == (gone == "nothing" ? "unknown" : "ready"));
    CHECK(scene.cmd({"HEXISTS", scene.keys().keys, scene.id("b")}) == 0);
  }
}

TEST_CASE("unique R12: an id that is used again without the key does not hold it") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  REQUIRE(queue.send("a", "k", "1").outcome == '1');
  scene.cmd({"DEL", scene.keys().bodies + scene.id("a")});
  CHECK(scene.run(&Moves::send, {{scene.id("a"), "without a key"}}, {{0ms, 0}}) == "1");
  CHECK(queue.send("b", "k", "2").outcome == '1');
}

TEST_CASE("unique R12: what garbage and dead say counts as for a send of the id") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  queue.put(At::held, "a", "in flight");
  scene.cmd({"SADD", scene.keys().garbage, scene.id("a")});
  CHECK(queue.send("b", "in flight", "2").outcome == 'U');
  queue.put(At::dead, "c", "dead");
  scene.cmd({"HSET", scene.keys().count, scene.id("c"), "3"});  // of a bury that was refused midway
  CHECK(queue.send("d", "dead", "4").outcome == '1');
  queue.put(At::pending, "e", "pending");  // of a send that was refused midway
  scene.cmd({"SADD", scene.keys().garbage, scene.id("e")});
  CHECK(queue.send("e", "pending", "5", again(kKeep)).outcome == '1');
}

TEST_CASE("unique R13: the body of a message that may hold a key is named first: nothing is stored before") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  REQUIRE(queue.send("a", "k", "1").outcome == '1');
  const auto before = scene.state();
  for (const Wanted& wanted : {kKeep, kReplace, postpone_by(1min)}) {
    const KeyedSent sent = scene.run(&Moves::send_keyed, {{scene.keep("b"), "2", {}, "k"}}, wanted.send, wanted.terms);
    CHECK(sent.outcomes == "?");
    CHECK(sent.ids[0] == scene.id("a"));
    CHECK(scene.state() == before);
  }
  CHECK(queue.send("b", "k", "2").calls == 2);
  CHECK(queue.send("c", "other", "3").calls == 1);
}

TEST_CASE("unique R13: of a batch the messages whose keys are free are stored by the first call") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  REQUIRE(queue.send("a", "k", "1").outcome == '1');
  const KeyedSent sent = scene.run(
      &Moves::send_keyed, {{scene.keep("b"), "2", {}, "free"}, {scene.keep("c"), "3", {}, "k"}, {scene.keep("d"), "4"}},
      {{0ms, 0}}, KeyTerms{});
  CHECK(sent.outcomes == "1?1");
  CHECK(sent.ids == std::vector<std::string>{"", scene.id("a"), ""});
  CHECK(queue.body("b") == "2");
  CHECK(queue.body("c").empty());
  CHECK(queue.body("d") == "4");
  CHECK(scene.cmd({"HLEN", scene.keys().keys}) == 2);
}

TEST_CASE("unique R17: a key is at most once in a call; else nothing is stored") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  const auto before = scene.state();
  const std::string text = test::refusal([&] {
    scene.run(&Moves::send_keyed, {{scene.keep("a"), "1", {}, "k"}, {scene.keep("b"), "2", {}, "k"}}, {{0ms, 0}},
              KeyTerms{});
  });
  CHECK(text.find("two messages of a call have one key") != std::string::npos);
  CHECK(scene.state() == before);
}

TEST_CASE("unique R14: keep: a message holds its key in every state but dead; or, if wanted, only while it waits") {
  for (const At at : test::all_but({})) {
    for (const bool while_in_flight : {true, false}) {
      CAPTURE(to_string(at));
      CAPTURE(while_in_flight);
      KeyedQueue queue;
      if (at == At::nowhere) {
        queue.scene.cmd({"HSET", queue.scene.keys().unique, "k", queue.scene.id("a") + " 1 0"});
      } else {
        queue.put(at, "a", "k");
      }
      const bool in_flight = at == At::held || at == At::held_by_go;
      const bool waits = at == At::pending || at == At::ready || at == At::retry || at == At::backing_off;
      const bool holds = waits || (in_flight && while_in_flight);
      Wanted wanted;
      wanted.terms.while_in_flight = while_in_flight;
      CHECK(queue.send("b", "k", "2", wanted).outcome == (holds ? 'U' : '1'));
      CHECK(queue.send("c", "k", "3", wanted).id == queue.scene.id(holds ? "a" : "b"));
      CHECK(queue.scene.lost().empty());
    }
  }
}

TEST_CASE("unique R14: a window counts after the message is gone, also for its own id, and ends") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  REQUIRE(queue.send("a", "k", "1", fresh(with_window(1h))).outcome == '1');
  const std::int64_t until = queue.window_of("k");
  CHECK(until > scene.now_us() + 3'590'000'000);
  const Taken taken = queue.take();
  REQUIRE(taken.messages.size() == 1);
  CHECK(scene.run(&Moves::ack, {{taken.messages[0].first, taken.lease_us}}) == "S");
  const Became kept = queue.send("b", "k", "2", with_window(1h));
  CHECK(kept.outcome == 'U');
  CHECK(kept.id == scene.id("a"));
  CHECK(kept.calls == 1);
  CHECK(queue.send("c", "k", "3").outcome == 'U');                            // it has no window
  CHECK(queue.send("a", "k", "1", again(with_window(1h))).outcome == 'U');    // the answer of the first was lost
  CHECK(scene.cmd({"EXISTS", scene.keys().count, scene.keys().ready}) == 1);  // bystanders have counts
  CHECK(scene.cmd({"HEXISTS", scene.keys().count, scene.id("a")}) == 0);
  CHECK(queue.window_of("k") == until);
  scene.cmd({"HSET", scene.keys().unique, "k", scene.id("a") + " 1 " + std::to_string(scene.now_us() - 1)});
  CHECK(queue.send("d", "k", "4").outcome == '1');
}

TEST_CASE("unique R14: a window that no clock of today can have written keeps no send out") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  const std::int64_t now = scene.now_us();
  const std::int64_t year = 365LL * 86'400 * 1'000'000;
  const auto entry_of = [&](const std::string& first, const std::string& until) {
    scene.cmd({"HSET", scene.keys().unique, "k", scene.id("gone") + ' ' + first + ' ' + until});
  };
  entry_of(std::to_string(now - 1000), "9999999999999999");
  CHECK(queue.send("a", "k", "1").outcome == '1');
  entry_of(std::to_string(now + 10 * year), std::to_string(now + 11 * year));  // the clock was set back since
  CHECK(queue.send("b", "k", "2").outcome == '1');
  entry_of(std::to_string(now - 1000), std::to_string(now + 10 * year));
  CHECK(queue.send("c", "k", "3").outcome == 'U');
}

TEST_CASE("unique R14: a repeated send completes the window that a refused one has not written, and moves none") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  REQUIRE(queue.send("a", "k", "1").outcome == '1');
  REQUIRE(queue.window_of("k") == 0);
  CHECK(queue.send("a", "k", "1", again(with_window(1h))).outcome == '0');
  const std::string entry = queue.entry("k");
  CHECK(queue.window_of("k") > scene.now_us() + 3'500'000'000);
  CHECK(queue.send("a", "k", "1", again(with_window(2h))).outcome == '0');
  CHECK(queue.entry("k") == entry);
  CHECK(queue.send("b", "k", "1", with_window(2h)).outcome == 'U');
  CHECK(queue.send("c", "other", "1").outcome == '1');
  scene.cmd({"HSET", scene.keys().unique, "other", entry.substr(0, 36) + " 1 0"});  // not of this message
  CHECK(queue.send("c", "other", "1", again(with_window(2h))).outcome == '0');
  CHECK(queue.window_of("other") == 0);
}

TEST_CASE("unique R14: replace and postpone do not wait for a window, and leave it") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  REQUIRE(queue.send("a", "k", "1", with_window(1h)).outcome == '1');
  const std::int64_t until = queue.window_of("k");
  CHECK(queue.send("b", "k", "2", kReplace).outcome == 'R');
  const Taken taken = queue.take();
  CHECK(scene.run(&Moves::ack, {{taken.messages.at(0).first, taken.lease_us}}) == "S");
  CHECK(queue.send("c", "k", "3", kReplace).outcome == '1');
  CHECK(queue.window_of("k") == until);
  CHECK(queue.send("d", "k", "4").id == scene.id("c"));
}

TEST_CASE("unique R15: replace changes payload and headers of a message that waits, and nothing else") {
  for (const bool staged : {false, true}) {
    for (const At at : {At::pending, At::ready, At::retry, At::backing_off}) {
      for (const bool with_headers : {false, true}) {
        CAPTURE(to_string(at));
        CAPTURE(staged);
        CAPTURE(with_headers);
        Scene::Setup setup;
        KeyedQueue queue(setup);
        Scene& scene = queue.scene;
        queue.put(at, "a", "k", {10min, "2", "", "why", 2h, "old", "\1h\1v"});
        if (at == At::retry) scene.cmd({"HSET", scene.keys().attempts, scene.id("a"), "1 1700000000123000"});
        const std::string payload = staged ? std::string(kStagedBytes, 'x') : "new";
        Wanted wanted = kReplace;
        if (with_headers) wanted.headers = "packed";
        const auto list = scene.cmd({"LRANGE", scene.keys().ready, "0", "-1"}).strings();
        const Became became = queue.send("b", "k", payload, wanted);
        CHECK(became.outcome == 'R');
        CHECK(became.id == scene.id("a"));
        CHECK((scene.changes() ==
               "msg a=" + payload + " (expires); headers" + (with_headers ? " a=packed" : " -a") + "; "));
        CHECK(scene.ttl_ms("a") > 7'000'000);
        CHECK(scene.cmd({"LRANGE", scene.keys().ready, "0", "-1"}).strings() == list);
        CHECK(scene.cmd({"KEYS", scene.keys().staged + "*"}).array.empty());
      }
    }
  }
}

TEST_CASE("unique R15: replace and postpone of a message in flight make a new one, so that no update is lost") {
  for (const At at : {At::held, At::held_by_go}) {
    for (const Wanted& wanted : {kReplace, postpone_by(1min)}) {
      KeyedQueue queue;
      queue.put(at, "a", "k");
      CHECK(queue.send("b", "k", "2", wanted).outcome == '1');
      CHECK(queue.body("b") == "2");
      CHECK(queue.body("a") == "payload");
      const Became third = queue.send("c", "k", "3", wanted);
      CHECK(third.outcome == 'R');
      CHECK(third.id == queue.scene.id("b"));
      CHECK(queue.body("b") == "3");
    }
  }
}

TEST_CASE("unique R15: a late ack does not settle a message that was replaced since") {
  for (const Wanted& wanted : {kReplace, postpone_by(0ms), postpone_by(1min)}) {
    KeyedQueue queue;
    Scene& scene = queue.scene;
    for (const std::int64_t end : {1'700'000'000'123'457, 1'700'000'000'000'457, 1'700'000'001'000'000}) {
      queue.put(At::retry, "a", "k");
      scene.cmd({"HSET", scene.keys().attempts, scene.id("a"), "2 " + std::to_string(end)});
      CHECK(queue.send("b", "k", "2", wanted).outcome == 'R');
      CHECK(scene.run(&Moves::ack, {{scene.keep("a"), end}}) == "T");
      CHECK(queue.body("a") == "2");
      CHECK(queue.field(scene.keys().attempts, "a").substr(0, 1) == "2");
      scene.cmd({"DEL", scene.keys().retry, scene.keys().ready, scene.keys().pending});
    }
  }
}

TEST_CASE("unique R15: postpone moves the due time, with its TTL, at the latest to the first send and max_wait") {
  for (const At at : {At::pending, At::ready, At::retry, At::backing_off}) {
    CAPTURE(to_string(at));
    KeyedQueue queue;
    Scene& scene = queue.scene;
    queue.put(at, "a", "k", {10min, "3", "", "", 1h});
    const std::int64_t first = scene.now_us() - 60'000'000;
    scene.cmd({"HSET", scene.keys().unique, "k", scene.id("a") + " " + std::to_string(first) + " 0"});
    CHECK(queue.send("b", "k", "2", postpone_by(20min)).outcome == 'R');
    CHECK(std::abs(scene.score_us(scene.keys().pending, "a") - scene.now_us() - 1'200'000'000) < 60'000'000);
    CHECK(scene.ttl_ms("a") > (at == At::pending ? 69 : 79) * 60'000);
    CHECK(scene.score_us(scene.keys().unack, "a") == 0);
    CHECK(queue.send("c", "k", "3", postpone_by(20min, 5min)).outcome == 'R');
    CHECK(scene.score_us(scene.keys().pending, "a") / 1000 == (first + 300'000'000 + 999) / 1000);
    CHECK(queue.body("a") == "3");
    CHECK(scene.cmd({"HGET", scene.keys().count, scene.id("a")}) == "3");
    // The time is over: it becomes due, and stays then where it is.
    CHECK(queue.send("d", "k", "4", postpone_by(20min, 30s)).outcome == 'R');
    CHECK(scene.score_us(scene.keys().pending, "a") == 0);
    const auto ready = scene.cmd({"LRANGE", scene.keys().ready, "0", "-1"}).strings();
    CHECK(std::count(ready.begin(), ready.end(), scene.id("a")) >= 1);
    CHECK(queue.send("e", "k", "5", postpone_by(20min, 30s)).outcome == 'R');
    CHECK(scene.score_us(scene.keys().pending, "a") == 0);
    CHECK(scene.cmd({"LRANGE", scene.keys().ready, "0", "-1"}).strings() == ready);
    CHECK(queue.body("a") == "5");
    CHECK(scene.ttl_ms("a") > 0);
    CHECK(scene.lost().empty());
  }
}

TEST_CASE("unique R15: a message whose max_wait is long over does not expire because it becomes due") {
  KeyedQueue queue;
  queue.put(At::pending, "a", "k", {10min, "3", "", "", 1h});  // it was first sent years ago
  CHECK(queue.send("b", "k", "2", postpone_by(20min, 1ms)).outcome == 'R');
  CHECK(queue.scene.ttl_ms("a") > 45 * 60'000);
}

TEST_CASE("unique R15: a backoff stays when the time of max_wait is over") {
  KeyedQueue queue;
  queue.put(At::backing_off, "a", "k");
  const std::int64_t until = queue.scene.score_us(queue.scene.keys().unack, "a");
  CHECK(queue.send("b", "k", "2", postpone_by(20min, 1ms)).outcome == 'R');
  CHECK(queue.scene.score_us(queue.scene.keys().unack, "a") == until);
  CHECK(queue.body("a") == "2");
}

TEST_CASE("unique R15: postpone to now moves a message out of its backoff") {
  KeyedQueue queue;
  queue.put(At::backing_off, "a", "k");
  CHECK(queue.send("b", "k", "2", postpone_by(0ms)).outcome == 'R');
  CHECK(queue.scene.cmd({"ZSCORE", queue.scene.keys().unack, queue.scene.id("a")}).nil());
  CHECK(queue.scene.cmd({"LPOS", queue.scene.keys().ready, queue.scene.id("a")}) == 0);
}

TEST_CASE("unique R17: a repeated send finds its own id, and changes nothing that others have replaced since") {
  for (const Wanted& wanted : {kKeep, kReplace, postpone_by(1min), with_window(1h)}) {
    KeyedQueue queue;
    REQUIRE(queue.send("a", "k", "1", wanted).outcome == '1');
    CHECK(queue.send("a", "k", "1", again(wanted)).outcome == '0');
    CHECK(queue.send("b", "k", "2", kReplace).outcome == 'R');
    CHECK(queue.send("a", "k", "1", again(wanted)).outcome == '0');
    CHECK(queue.body("a") == "2");
  }
}

TEST_CASE("unique R17: a repeated send that stays out leaves nothing of a first call that was refused") {
  for (const Wanted& wanted : {kKeep, kReplace}) {
    KeyedQueue queue;
    Scene& scene = queue.scene;
    // What a call leaves that is refused: before it stores the body or, if the id is not new, the count.
    scene.put(At::pending, "b");
    scene.put(At::garbage, "c");
    scene.cmd({"SREM", scene.keys().garbage, scene.id("c")});
    scene.cmd({"DEL", scene.keys().bodies + scene.id("b")});
    scene.cmd({"HSET", scene.keys().keys, scene.id("b"), "k"});
    scene.cmd({"HSET", scene.keys().headers, scene.id("b"), "\1h\1v"});
    REQUIRE(queue.send("a", "k", "1").outcome == '1');
    CHECK(queue.send("b", "k", "2", again(wanted)).outcome == (wanted.terms.conflict == Conflict::keep ? 'U' : 'R'));
    for (const std::string& hash : {scene.keys().count, scene.keys().keys, scene.keys().headers}) {
      CHECK(scene.cmd({"HEXISTS", hash, scene.id("b")}) == 0);
    }
    CHECK(scene.score_us(scene.keys().pending, "b") == 0);
    CHECK(queue.send("c", "k", "3", again(wanted)).id == scene.id("a"));
    CHECK(queue.body("c").empty());
  }
}

TEST_CASE("unique R18: a deleted entry makes a second message possible, and swallows no send") {
  KeyedQueue queue;
  REQUIRE(queue.send("a", "k", "1").outcome == '1');
  queue.scene.cmd({"HDEL", queue.scene.keys().unique, "k"});
  CHECK(queue.send("b", "k", "2").outcome == '1');
  CHECK(queue.send("c", "k", "3").id == queue.scene.id("b"));
}

TEST_CASE("unique: hostile or damaged entries hold nothing, and fail no send") {
  const std::string id = "00000000-0000-7000-8000-610000000000";  // of "a"
  const std::string digits(400, '9');
  for (const std::string& value :
       {std::string(), std::string("x"), id, id + " ", id + " 1", id + " 1 ", id + " 1 0 ", id + " -1 0", id + " 1 -1",
        id + " 1 1e300", id + " inf 0", id + " 1.5 0", id + " " + digits + " 0", id + " 1 " + digits,
        std::string(36, '-') + " 1 9999999999999999", std::string(36, 'z') + " 1 0", "A" + id.substr(1) + " 1 0",
        std::string("\0\n\r ", 4), std::string(1'000'000, 'x')}) {
    CAPTURE(value.substr(0, 80));
    for (const Wanted& wanted : {kKeep, kReplace, postpone_by(1min), with_window(1min)}) {
      KeyedQueue queue;
      REQUIRE(queue.send("a", "k", "1").outcome == '1');
      queue.scene.cmd({"HSET", queue.scene.keys().unique, "k", value});
      CHECK(queue.send("b", "k", "2", wanted).outcome == '1');
      CHECK(queue.body("b") == "2");
    }
  }
  KeyedQueue queue;
  Scene& scene = queue.scene;
  const std::string odd = "zzzzzzzz" + id.substr(8);  // no id, with all that a message has
  scene.cmd({"HSET", scene.keys().unique, "k", odd + " 1 0"});
  scene.cmd({"HSET", scene.keys().keys, odd, "k"});
  scene.cmd({"HSET", scene.keys().count, odd, "3"});
  scene.cmd({"SET", scene.keys().bodies + odd, "x"});
  CHECK(queue.send("b", "k", "2").outcome == '1');
}

TEST_CASE("unique: keys of 128 bytes of any kind are told apart") {
  KeyedQueue queue;
  const std::string long_key(128, '\xff');
  for (const std::string& key : {std::string("k"), std::string(" k"), std::string("k "), std::string("\0k", 2),
                                 long_key, long_key.substr(1), std::string("%s\r\n"), std::string("K")}) {
    CHECK(queue.send("n" + std::to_string(queue.scene.cmd({"HLEN", queue.scene.keys().unique}).integer), key, "x")
              .outcome == '1');
    CHECK(queue.send("other", key, "y").outcome == 'U');
  }
}

// ---- As send
// ----------------------------------------------------------------------------------------------------------

TEST_CASE("unique: what send_keyed stores is what send stores, besides the key") {
  for (const bool new_ids : {false, true}) {
    for (const milliseconds delay : {milliseconds(0), milliseconds(5min)}) {
      for (const milliseconds ttl : {milliseconds(0), milliseconds(1h)}) {
        for (const bool staged : {false, true}) {
          for (const std::string& headers : {std::string(), std::string("packed")}) {
            CAPTURE(new_ids);
            CAPTURE(delay.count());
            CAPTURE(ttl.count());
            CAPTURE(staged);
            const std::string payload = staged ? std::string(kStagedBytes, 'x') : "payload";
            const SendTerms terms{{delay, 0}, 7, ttl, new_ids};
            std::string changes[2], marker[2], probe[2];
            for (const bool keyed : {false, true}) {
              Scene::Setup setup = Scene::Setup::without_lists();
              KeyedQueue queue(setup);
              Scene& scene = queue.scene;
              if (!new_ids) {  // an earlier message with this id has left things behind
                scene.put(At::garbage, "a", {0ms, "", "3", "why", 0ms, "old", "old headers"});
                scene.put(At::retry, "other");
                scene.cmd({"ZADD", scene.keys().pending, "1", scene.id("a")});
                scene.cmd({"HSET", scene.keys().stats, "probe", scene.id("a") + " 1"});
              }
              if (keyed) {
                scene.run(&Moves::send_keyed, {{scene.keep("a"), payload, headers}, {scene.keep("b"), payload}}, terms,
                          KeyTerms{});
              } else {
                scene.run(&Moves::send, {{scene.keep("a"), payload, headers}, {scene.keep("b"), payload}}, terms);
              }
              changes[keyed] = test::replaced(scene.changes(), "[0-9]{16}", "time");
              probe[keyed] = scene.cmd({"HGET", scene.keys().stats, "probe"}).text.substr(0, 36);
              for (const std::string& word : scene.cmd({"ZRANGE", scene.keys().wake, "0", "-1"}).strings()) {
                marker[keyed] += word + " ";
              }
            }
            CHECK((changes[0] == changes[1]));
            CHECK(marker[0] == marker[1]);
            CHECK(probe[0] == probe[1]);
          }
        }
      }
    }
  }
}

TEST_CASE("unique: a message whose staged payload is missing is not stored, and replaces nothing") {
  for (const bool holds : {false, true}) {
    KeyedQueue queue;
    Scene& scene = queue.scene;
    if (holds) queue.put(At::ready, "holds", "k");
    const auto before = scene.state();
    const auto keys = test::key_names(
        calls::send_keyed::keys(scene.keys()),
        {scene.keys().bodies + scene.id("a"), scene.keys().staged + "none", scene.keys().bodies + scene.id("holds")});
    std::vector<std::string> words = {"EVAL", std::string(scripts::send_keyed.body), std::to_string(keys.size())};
    words.insert(words.end(), keys.begin(), keys.end());
    for (const char* word : {"0", "0", "", "3", "0", "", "replace", "1", "0", "", "0", "1", "", "k", ""}) {
      words.emplace_back(word);
    }
    const auto reply = scene.cmd(words);
    CHECK(reply.error());
    CHECK(reply.text.find("nothing was stored; send again") != std::string::npos);
    CHECK(scene.state() == before);
  }
}

TEST_CASE(
    "unique: with full memory send_keyed is refused whole, also for ids with counts; a send that is kept out works") {
  PrivateServer server;
  Scene::Setup setup = quiet_setup();
  setup.socket = server.socket();
  KeyedQueue queue(setup);
  Scene& scene = queue.scene;
  queue.put(At::ready, "a", "k");
  scene.put(At::garbage, "b");
  scene.cmd({"HSET", scene.keys().count, scene.id("b"), "3"});
  const auto before = scene.state();
  scene.cmd({"CONFIG", "SET", "maxmemory", "1"});
  for (const Wanted& wanted : {kKeep, kReplace, postpone_by(1min)}) {
    CHECK(test::refusal([&] { queue.send("b", "other", "1", wanted); }).find("OOM") != std::string::npos);
    const bool replaces = wanted.terms.conflict != Conflict::keep;
    char outcome = '-';
    const std::string text = test::refusal([&] { outcome = queue.send("c", "k", "1", wanted).outcome; });
    CHECK(outcome == (replaces ? '-' : 'U'));
    CHECK((text.find("OOM") != std::string::npos) == replaces);
  }
  scene.cmd({"CONFIG", "SET", "maxmemory", "0"});
  CHECK(scene.state() == before);
}

// ---- The ends of a message
// --------------------------------------------------------------------------------------------

TEST_CASE("unique R1: a take tells of keys and of headers, and only then an ack looks for keys") {
  for (const bool with_headers : {false, true}) {
    for (const bool with_keys : {false, true}) {
      for (const bool from_pending : {false, true}) {
        for (const bool paced : {false, true}) {
          CAPTURE(with_headers);
          CAPTURE(with_keys);
          CAPTURE(from_pending);
          CAPTURE(paced);
          KeyedQueue queue;
          Scene& scene = queue.scene;
          queue.put(from_pending ? At::pending : At::ready, "a", "k", {-1min});
          if (!with_keys) scene.cmd({"DEL", scene.keys().keys});
          if (with_headers) scene.cmd({"HSET", scene.keys().headers, scene.id("a"), "\1k\1v"});
          if (paced) scene.cmd({"HSET", scene.keys().limits, "running", "9"});
          Taken taken;
          if (from_pending && !paced) {
            taken = scene.run(&Moves::pending2unack, false, {"me", 1s}, {200, 200}, 1min).taken.value();
          } else {
            scene.run(&Moves::pending2ready, false, {"me", 1s});
            taken = paced ? scene.run(&Moves::take_paced, {200, 25, 200}, 1min, "me") : queue.take();
          }
          CHECK(taken.messages.size() == 1);
          CHECK(taken.has_keys == with_keys);
          CHECK(taken.has_headers == with_headers);
        }
      }
    }
  }
}

TEST_CASE("unique R16: an ack frees the key of its message, not one that another message holds, and keeps a window") {
  for (const std::size_t messages : {1U, 20U}) {
    KeyedQueue queue;
    Scene& scene = queue.scene;
    std::vector<std::string> ids;
    for (std::size_t i = 0; i < messages; ++i) {
      const std::string n = std::to_string(i);
      Wanted wanted = i % 3 == 0 ? with_window(1h) : kKeep;
      wanted.terms.while_in_flight = false;
      REQUIRE(queue.send("n" + n, "k" + n, "1", wanted).outcome == '1');
    }
    REQUIRE(queue.send("plain", "", "1").outcome == '1');
    const Taken taken = queue.take();
    REQUIRE(taken.messages.size() == messages + 1);
    if (messages > 1) REQUIRE(queue.send("new", "k1", "2", kReplace).outcome == '1');
    std::vector<Receipt> receipts;
    for (const auto& one : taken.messages) receipts.push_back({one.first, taken.lease_us});
    if (messages == 1) receipts.erase(receipts.begin() + 1);
    scene.run(&Moves::remove, {"acked", true}, receipts);
    for (std::size_t i = 0; i < messages; ++i) {
      CAPTURE(i);
      const std::string n = std::to_string(i);
      CHECK(queue.field(scene.keys().keys, "n" + n).empty());
      const bool other = messages > 1 && i == 1;
      CHECK(queue.entry("k" + n).empty() == (i % 3 != 0 && !other));
      if (other) CHECK(queue.entry("k1").substr(0, 36) == scene.id("new"));
    }
    CHECK(queue.send("later", "k0", "2").outcome == 'U');
    if (messages > 1) CHECK(queue.field(scene.keys().keys, "new") == "k1");
  }
}

TEST_CASE("unique R16: cancel frees the key of its message in every state, and ends its window") {
  for (const At at : test::all_but({At::nowhere, At::garbage, At::cancelled})) {
    CAPTURE(to_string(at));
    KeyedQueue queue;
    Scene& scene = queue.scene;
    queue.put(at, "a", "k");
    scene.cmd({"HSET", scene.keys().unique, "k", scene.id("a") + " 1 3100000000000000"});
    CHECK(scene.run(&Moves::cancel, scene.id("a")) != "unknown");
    CHECK(queue.entry("k").empty());
    CHECK(queue.field(scene.keys().keys, "a").empty());
    CHECK(queue.send("b", "k", "2").outcome == '1');
    CHECK(scene.run(&Moves::cancel, scene.id("b")) == "ready");
    scene.cmd({"HSET", scene.keys().keys, scene.id("c"), "k"});
    queue.put(At::pending, "d", "k");
    scene.put(At::ready, "c");
    CHECK(scene.run(&Moves::cancel, scene.id("c")) == "ready");  // its key is that of another message now
    CHECK(queue.entry("k").substr(0, 36) == scene.id("d"));
  }
}

TEST_CASE("unique R16: cancel and reschedule by key change the message that has it, and no other") {
  for (const bool cancels : {false, true}) {
    CAPTURE(cancels);
    KeyedQueue queue;
    Scene& scene = queue.scene;
    const auto change = [&](const std::string& name, const std::string& key) {
      return cancels ? scene.run(&Moves::cancel_by_key, scene.id(name), key)
                     : scene.run(&Moves::reschedule_by_key, scene.id(name), key, {5min, 0});
    };
    const std::string done = cancels ? "pending" : "moved";
    CHECK(scene.run(&Moves::last_with_key, "k").empty());
    CHECK(change("a", "k").answer == "unknown");
    queue.put(At::pending, "a", "k");
    queue.put(At::pending, "b", "other");
    CHECK(scene.run(&Moves::last_with_key, "k") == scene.id("a"));
    const auto before = scene.state();
    const ByKey another = change("b", "k");
    CHECK(another.call_id == scene.id("a"));
    CHECK(another.answer.empty());
    CHECK(change("a", "none").answer == "unknown");
    CHECK(scene.state() == before);
    scene.cmd({"HSET", scene.keys().keys, scene.id("a"), "changed"});  // its id was used again with another key
    CHECK(change("a", "k").answer == "unknown");
    scene.cmd({"HSET", scene.keys().keys, scene.id("a"), "k"});
    CHECK(change("a", "k").answer == done);
    queue.put(At::dead, "d", "dead");
    CHECK(change("d", "dead").answer == "unknown");
    queue.put(At::held, "h", "held");
    CHECK(change("h", "held").answer == (cancels ? "unack" : "held"));
    for (const std::string& value : {std::string("x"), std::string(36, 'z') + " 1 0", scene.id("b") + " 1"}) {
      scene.cmd({"HSET", scene.keys().unique, "other", value});
      CHECK(change("b", "other").answer == "unknown");
    }
    for (const std::string& hash : {scene.keys().unique, scene.keys().keys}) {
      scene.cmd({"DEL", hash});
      scene.cmd({"SET", hash, "of another program"});
      CHECK(change("b", "other").answer == "unknown");
      CHECK(scene.run(&Moves::cancel, scene.id(hash == scene.keys().keys ? "b" : "h")) != "unknown");
      scene.cmd({"DEL", hash});
    }
  }
}

TEST_CASE("unique R16: a redriven message takes its key, unless another message has it; of two the first takes it") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  for (const std::string name : {"a", "b", "c"}) queue.put(At::dead, name, "k");
  queue.put(At::dead, "d", "other");
  scene.put(At::dead, "plain");
  scene.cmd({"HSET", scene.keys().unique, "k", scene.id("c") + " 1 3100000000000000"});
  CHECK(scene.run(&Moves::redrive, scene.ids({"a", "b", "plain", "d", "none"}), 3) == "SKSSG");
  CHECK(queue.entry("k").substr(0, 36) == scene.id("a"));
  CHECK(queue.window_of("k") == 3'100'000'000'000'000);
  CHECK(queue.window_of("other") == 0);
  CHECK(queue.send("e", "k", "1").id == scene.id("a"));
  CHECK(queue.send("e", "other", "1").id == scene.id("d"));
  CHECK(scene.run(&Moves::redrive, scene.ids({"b", "c"}), 3) == "??");
  const ByKey asked = scene.run(&Moves::redrive_one, scene.id("b"), "", 3);
  CHECK(asked.call_id == scene.id("a"));
  const ByKey taken = scene.run(&Moves::redrive_one, scene.id("b"), asked.call_id, 3);
  CHECK(taken.call_id.empty());
  CHECK(taken.answer == "K");
  CHECK(scene.score_us(scene.keys().dead, "b") != 0);
  scene.cmd({"DEL", scene.keys().bodies + scene.id("a")});
  CHECK(scene.run(&Moves::redrive_one, scene.id("b"), scene.id("a"), 3).answer == "S");
  CHECK(queue.entry("k").substr(0, 36) == scene.id("b"));
  CHECK(scene.lost().find('b') == std::string::npos);
}

TEST_CASE("unique R16: a restored message takes its key, unless another message has it; a dead letter takes none") {
  for (const bool staged : {false, true}) {
    CAPTURE(staged);
    KeyedQueue queue;
    Scene& scene = queue.scene;
    const std::string payload = staged ? std::string(kStagedBytes, 'x') : "new";
    const auto record = [&](const std::string& name, std::string_view key, bool dead = false, bool replaces = false) {
      RestoreRecord one{scene.keep((scene.id(name), name)), dead, 0, 3, 0, 0ms, "", payload, "", replaces, key};
      return one;
    };
    queue.put(At::pending, "holds", "taken");
    CHECK(scene.run(&Moves::restore, {record("a", "k"), record("b", "k"), record("c", "k", true), record("d", ""),
                                      record("e", "taken")}) == "1K11?");
    CHECK(queue.entry("k").substr(0, 36) == scene.id("a"));
    CHECK(queue.field(scene.keys().keys, "a") == "k");
    CHECK(queue.field(scene.keys().keys, "c") == "k");
    CHECK(queue.body("a") == payload);
    for (const char* name : {"b", "e"}) {
      CHECK(queue.body(name).empty());
      CHECK(scene.cmd({"HEXISTS", scene.keys().count, scene.id(name)}) == 0);
    }
    CHECK(queue.send("f", "k", "1").id == scene.id("a"));
    const ByKey asked = scene.run(&Moves::restore_one, record("e", "taken"), "");
    CHECK(asked.call_id == scene.id("holds"));
    CHECK(scene.run(&Moves::restore_one, record("e", "taken"), asked.call_id).answer == "K");
    CHECK(scene.run(&Moves::restore, {record("holds", "taken", false, true)}) == "R");  // its own key
    CHECK(scene.run(&Moves::restore, {record("holds", "", false, true)}) == "R");
    CHECK(queue.field(scene.keys().keys, "holds").empty());
    CHECK(scene.run(&Moves::restore_one, record("e", "taken"), "").answer == "1");
    CHECK(queue.entry("taken").substr(0, 36) == scene.id("e"));
    queue.put(At::pending, "gone", "left");
    const ByKey first = scene.run(&Moves::restore_one, record("d", "left", false, true), "");
    CHECK(first.call_id == scene.id("gone"));
    scene.cmd({"DEL", scene.keys().bodies + scene.id("gone")});  // it expires between the two calls
    const ByKey second = scene.run(&Moves::restore_one, record("d", "left", false, true), first.call_id);
    CHECK(second.answer == "R");
    CHECK(second.call_id.empty());
    CHECK(scene.cmd({"KEYS", scene.keys().staged + "*"}).array.empty());
  }
}

TEST_CASE("unique R16: a redriven message takes over no window that no clock of today can have written") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  scene.put(At::dead, "a");
  scene.cmd({"HSET", scene.keys().keys, scene.id("a"), "k"});
  const std::int64_t later = scene.now_us() + 86'400'000'000;
  scene.cmd({"HSET", scene.keys().unique, "k",
             scene.id("a") + ' ' + std::to_string(later) + ' ' + std::to_string(later + 3'600'000'000)});
  CHECK(scene.run(&Moves::redrive_one, scene.id("a"), "", 3).answer == "S");
  CHECK(queue.window_of("k") == 0);
}

TEST_CASE("unique: entries and keys that no message holds are deleted; windows and damaged values stay") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  const Keys& keys = scene.keys();
  const auto name_of = [](At at) { return "s" + std::to_string(static_cast<int>(at)); };
  for (const At at : test::all_but({At::nowhere})) queue.put(at, name_of(at), to_string(at));
  queue.put(At::ready, "reused", "reused");
  scene.cmd({"HSET", keys.keys, scene.id("reused"), "another key"});
  scene.cmd({"HSET", keys.keys, scene.id("gone"), "gone"});
  scene.cmd({"HSET", keys.unique, "over", scene.id("gone") + " 1 2", "window", scene.id("gone") + " 1 3100000000000000",
             "damaged", "x", "long", std::string(20'000, 'x'), "empty", ""});
  const auto entries = scene.run(&Moves::sample_keys);
  CHECK(entries.size() == 15);
  CHECK(scene.run(&Moves::delete_orphaned_keys, entries) == 6);
  std::vector<std::string> left = scene.cmd({"HKEYS", keys.unique}).strings();
  std::sort(left.begin(), left.end());
  CHECK(left == std::vector<std::string>{"backing off", "damaged", "empty", "held", "held by Go", "pending", "ready",
                                         "retry", "window"});
  const auto ids = scene.run(&Moves::sample_metadata, keys.keys);
  CHECK(ids.size() == 11);
  CHECK(scene.run(&Moves::delete_orphaned_metadata, ids) == 1);
  CHECK(queue.field(keys.keys, "gone").empty());
  CHECK(queue.field(keys.keys, name_of(At::dead)) == "dead");
  CHECK(queue.field(keys.keys, name_of(At::cancelled)) == "cancelled");  // its consumer may still settle it
  CHECK(scene.run(&Moves::delete_orphaned_keys, {"none"}) == 0);
  for (const std::string& hash : {keys.unique, keys.keys}) {
    scene.cmd({"DEL", hash});
    scene.cmd({"SET", hash, "of another program"});
    CHECK(scene.run(&Moves::delete_orphaned_keys, entries) == 0);
    scene.run(&Moves::delete_orphaned_metadata, ids);
    CHECK(scene.cmd({"GET", hash}) == "of another program");
  }
}

TEST_CASE("unique: keys and entries of a wrong type fail no redrive") {
  for (const bool unique : {false, true}) {
    KeyedQueue queue;
    Scene& scene = queue.scene;
    queue.put(At::dead, "a", "k");
    const std::string hash = unique ? scene.keys().unique : scene.keys().keys;
    scene.cmd({"DEL", hash});
    scene.cmd({"SET", hash, "of another program"});
    CHECK(scene.run(&Moves::redrive, scene.ids({"a"}), 3) == "S");
    CHECK(scene.cmd({"GET", hash}) == "of another program");
  }
}

TEST_CASE("unique: keys and entries of a wrong type fail no ack") {
  for (const bool unique : {false, true}) {
    KeyedQueue queue;
    Scene& scene = queue.scene;
    queue.put(At::ready, "a", "k");
    const std::string hash = unique ? scene.keys().unique : scene.keys().keys;
    scene.cmd({"DEL", hash});
    scene.cmd({"SET", hash, "of another program"});
    const Taken taken = queue.take();
    CHECK(taken.has_keys);
    CHECK(scene.run(&Moves::remove, {"acked", true}, {{taken.messages.at(0).first, taken.lease_us}}) == "S");
    CHECK(scene.cmd({"GET", hash}) == "of another program");
  }
}

// ---- Length
// -----------------------------------------------------------------------------------------------------------

Wanted at_most(std::uint64_t length, KeyTerms terms = {}) {
  Wanted wanted;
  wanted.terms = terms;
  wanted.terms.length = length;
  return wanted;
}

TEST_CASE("limits R4: a queue with a limit of its length refuses sends beyond it, a batch as a whole") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  const auto counted = static_cast<std::uint64_t>(scene.cmd({"HLEN", scene.keys().count}).integer);
  const Wanted wanted = at_most(counted + 3);
  const std::vector<NewMessage> two = {{scene.keep("a"), "1"}, {scene.keep("b"), "2"}};
  CHECK(scene.run(&Moves::send_keyed, two, wanted.send, wanted.terms).outcomes == "11");
  const std::vector<NewMessage> others = {{scene.keep("c"), "3"}, {scene.keep("d"), "4"}};
  const auto before = scene.state();
  CHECK(scene.run(&Moves::send_keyed, others, wanted.send, wanted.terms).outcomes == "FF");
  CHECK(scene.state() == before);
  CHECK(scene.run(&Moves::send_keyed, two, wanted.send, wanted.terms).outcomes == "00");
  CHECK(queue.send("c", "", "3", wanted).outcome == '1');
  CHECK(queue.send("d", "", "4", wanted).outcome == 'F');
  queue.scene.put(At::dead, "dead");
  const Taken taken = queue.take(1);
  CHECK(queue.send("d", "", "4", wanted).outcome == 'F');
  CHECK(scene.run(&Moves::ack, {{taken.messages.at(0).first, taken.lease_us}}) == "S");
  CHECK(queue.send("d", "", "4", wanted).outcome == '1');
}

TEST_CASE("limits R4: in a full queue a send that another message takes the place of is not refused") {
  KeyedQueue queue;
  const auto full = [&] {
    return static_cast<std::uint64_t>(queue.scene.cmd({"HLEN", queue.scene.keys().count}).integer);
  };
  REQUIRE(queue.send("a", "k", "1").outcome == '1');
  CHECK(queue.send("b", "k", "2", at_most(full())).outcome == 'U');
  CHECK(queue.send("b", "k", "2", at_most(full(), {Conflict::replace})).outcome == 'R');
  CHECK(queue.body("a") == "2");
  CHECK(queue.send("b", "other", "2", at_most(full())).outcome == 'F');
  CHECK(queue.entry("other").empty());
}

TEST_CASE("limits R4: the count that a refused call left of an id counts once, and goes if the queue is full") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  scene.put(At::pending, "a");
  scene.cmd({"DEL", scene.keys().bodies + scene.id("a")});
  const auto counted = static_cast<std::uint64_t>(scene.cmd({"HLEN", scene.keys().count}).integer);
  CHECK(queue.send("a", "", "1", at_most(counted - 1)).outcome == 'F');
  CHECK(scene.cmd({"HLEN", scene.keys().count}) == static_cast<long long>(counted - 1));
  scene.cmd({"HSET", scene.keys().count, scene.id("a"), "3"});
  CHECK(queue.send("a", "", "1", at_most(counted)).outcome == '1');
}

TEST_CASE("limits R4: a batch with keys is stored whole or not at all, though their holders are not known at first") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  REQUIRE(queue.send("a", "k", "1").outcome == '1');
  const auto counted = static_cast<std::uint64_t>(scene.cmd({"HLEN", scene.keys().count}).integer);
  const auto send = [&](std::uint64_t length, std::string_view holder, std::string_view own) {
    const Wanted wanted = at_most(length);
    return scene.run(&Moves::send_keyed, {{scene.keep("b"), "2", {}, "", own}, {scene.keep("c"), "3", {}, "k", holder}},
                     wanted.send, wanted.terms);
  };
  const auto before = scene.state();
  const KeyedSent first = send(counted + 1, "", "");
  CHECK(first.outcomes == "??");
  CHECK(first.ids == std::vector<std::string>{scene.id("b"), scene.id("a")});
  CHECK(scene.state() == before);
  CHECK(send(counted + 1, scene.keep("a"), scene.keep("b")).outcomes == "1U");
  CHECK(send(counted + 9, "", "").outcomes == "0?");
  scene.run(&Moves::cancel, scene.id("b"));
  CHECK(send(counted + 2, "", "").outcomes == "1?");
}

TEST_CASE("limits R4: while it is not known whether a batch fits, it replaces nothing either") {
  KeyedQueue queue;
  Scene& scene = queue.scene;
  REQUIRE(queue.send("a", "ka", "1").outcome == '1');
  REQUIRE(queue.send("b", "kb", "1").outcome == '1');
  const auto counted = static_cast<std::uint64_t>(scene.cmd({"HLEN", scene.keys().count}).integer);
  const Wanted wanted = at_most(counted + 1, {Conflict::replace});
  const KeyedSent sent = scene.run(&Moves::send_keyed,
                                   {{scene.keep("c"), "2", {}, "ka", scene.keep("a")},
                                    {scene.keep("d"), "2", {}, "kb"},
                                    {scene.keep("e"), "2", {}, "kc"}},
                                   wanted.send, wanted.terms);
  CHECK(sent.outcomes == "???");
  CHECK(sent.ids == std::vector<std::string>{scene.id("a"), scene.id("b"), scene.id("e")});
  CHECK(queue.body("a") == "1");
}

TEST_CASE("limits R4: a refused send leaves no staged payload") {
  KeyedQueue queue;
  const std::string large(kStagedBytes, 'x');
  REQUIRE(queue.send("a", "k", large).outcome == '1');
  CHECK(queue.send("b", "k", large).outcome == 'U');
  CHECK(queue.send("c", "other", large, at_most(1)).outcome == 'F');
  CHECK(queue.scene.cmd({"KEYS", queue.scene.keys().staged + "*"}).array.empty());
  CHECK(queue.body("a") == large);
}

// ---- Random runs
// ------------------------------------------------------------------------------------------------------

// Racing senders, consumers and operators, with and without calls that Redis refuses midway, and with keys, counts,
// bodies and entries that are deleted behind the queue's back. After each step the queue is compared with the rules.
class RandomKeys {
 public:
  RandomKeys(std::uint64_t seed, bool breaks, bool vandal, Conflict conflict)
      : random_(static_cast<unsigned>(seed)),
        breaks_(breaks),
        vandal_(vandal),
        conflict_(conflict),
        queue_(setup()),
        saved_(queue_.scene) {}

  void run() {
    for (int step = 0; step < 120; ++step) {
      CAPTURE(step);
      one_step();
      check();
    }
    drain();
  }

 private:
  static Scene::Setup setup() {
    Scene::Setup wanted = quiet_setup();
    wanted.breakable = true;
    static const PrivateServer server;
    wanted.socket = server.socket();
    return wanted;
  }

  std::size_t below(std::size_t n) { return random_() % n; }
  std::string any_key() { return "k" + std::to_string(below(3)); }
  bool has(const Cells& cells, const char* place, const std::string& id) { return cells.count({place, id}) > 0; }

  // By the rules of R12, from the stored data.
  bool is_alive(const Cells& cells, const std::string& id, const std::string& key) {
    const auto noted = cells.find({"keys", id});
    if (!has(cells, "msg", id) || !has(cells, "retry:cnt", id)) return false;
    if (noted == cells.end() || noted->second != key) return false;
    return has(cells, "unack", id) || has(cells, "pending", id) ||
           (!has(cells, "garbage", id) && !has(cells, "dead", id));
  }
  bool in_flight(const Cells& cells, const std::string& id) {
    const auto found = cells.find({"unack", id});
    return found != cells.end() && std::llround(std::strtod(found->second.c_str(), nullptr) * 1e6) % 1000 != 0;
  }
  // Whether a consumer will get it.
  bool is_placed(const Cells& cells, const std::string& id) {
    return has(cells, "pending", id) || has(cells, "unack", id) || has(cells, "ready", id) || has(cells, "retry", id);
  }

  void one_step() {
    Scene& scene = queue_.scene;
    switch (below(vandal_ ? 14 : 11)) {
      case 0:
      case 1:
      case 2:
        return send();
      case 3:
        scene.run(&Moves::pending2ready, false, {"me", 1s});
        return take();
      case 4:
        return settle(false);
      case 5:
        return settle(true);
      case 6: {  // all leases end
        for (const auto& [at, score] : saved_.cells()) {
          if (at.first == "unack" && own(at.second)) scene.cmd({"ZADD", scene.keys().unack, "1.0000005", at.second});
        }
        scene.run(&Moves::unack2retry, false);
        return;
      }
      case 7: {
        const std::string id = any_id();
        if (!id.empty()) static_cast<void>(scene.run(&Moves::cancel, id));
        return;
      }
      case 8: {
        const std::string key = any_key();
        const std::string id = scene.run(&Moves::last_with_key, key);
        if (!id.empty()) scene.run(&Moves::reschedule_by_key, id, key, {milliseconds(below(2)), 0});
        return;
      }
      case 9: {
        for (const auto& [at, score] : saved_.cells()) {
          if (at.first != "dead" || !own(at.second)) continue;
          ByKey answer;
          for (int calls = 0; calls == 0 || !answer.call_id.empty(); ++calls) {
            const std::string holder = answer.call_id;
            answer = scene.run(&Moves::redrive_one, at.second, holder, 3);
          }
          break;
        }
        return;
      }
      case 10: {
        std::vector<std::string> ids;
        for (const auto& [at, value] : saved_.cells()) {
          if (at.first == "garbage") ids.push_back(at.second);
        }
        if (!ids.empty()) scene.run(&Moves::gc, ids);
        return;
      }
      default:
        return vandalize();
    }
  }

  bool own(const std::string& id) { return id.size() == 36 && id.find("8000-6d") != std::string::npos; }  // "m..."

  std::string any_id() {
    std::vector<std::string> ids;
    for (const auto& [at, value] : saved_.cells()) {
      if (at.first == "msg" && own(at.second)) ids.push_back(at.second);
    }
    return ids.empty() ? "" : ids[below(ids.size())];
  }

  void send() {
    Scene& scene = queue_.scene;
    const std::string name = "m" + std::to_string(++sent_);
    const std::string key = any_key(), payload = "p" + std::to_string(sent_);
    Wanted wanted;
    wanted.terms.conflict = conflict_;
    wanted.terms.max_wait = below(2) == 0 ? std::optional<milliseconds>(below(20)) : std::nullopt;
    wanted.send.due.delay = milliseconds(below(2) * 3);
    wanted.send.new_ids = true;
    const std::string own_id = scene.id(name);
    std::string holder;
    int calls = 0;
    for (bool repeats = breaks_ && below(3) == 0;; ++calls) {
      REQUIRE(calls < 20);
      const Cells before = saved_.cells();
      if (repeats) scene.break_at(static_cast<int>(below(12)));
      KeyedSent sent;
      const std::string refused = test::refusal([&] {
        sent = scene.run(&Moves::send_keyed, {{scene.keep(name), payload, {}, key, holder}}, wanted.send, wanted.terms);
      });
      scene.break_at(-1);
      repeats = false;
      if (!refused.empty()) {
        wanted.send.new_ids = false;
        if (below(4) == 0) return;  // the sender dies
        continue;
      }
      const char outcome = sent.outcomes[0];
      const std::string& other = sent.ids[0];
      CAPTURE(outcome);
      CAPTURE(other);
      holder = other;
      if (outcome == '?') continue;
      const Cells after = saved_.cells();
      ++outcomes_[outcome];
      if (outcome == 'U') {
        CHECK(is_alive(before, other, key));
        CHECK(is_placed(before, other));
      } else if (outcome == 'R') {
        CHECK(is_alive(before, other, key));
        CHECK_FALSE(in_flight(before, other));
        CHECK(is_placed(after, other));
        CHECK(after.at({"msg", other}).substr(0, payload.size() + 1) == payload + " ");
        payloads_[other] = payload;
      } else if (outcome == '1') {
        CHECK(is_placed(after, own_id));
        CHECK(is_alive(after, own_id, key));
        payloads_[own_id] = payload;
        // Nothing else held the key.
        const auto entry = before.find({"unique", key});
        const std::string last = entry == before.end() ? "" : entry->second.substr(0, 36);
        if (conflict_ == Conflict::keep && last != own_id) CHECK_FALSE(is_alive(before, last, key));
        if (last != own_id && !in_flight(before, last)) CHECK_FALSE(is_alive(before, last, key));
      } else {
        CHECK(outcome == '0');
      }
      if (outcome == 'U' || outcome == 'R') {
        for (const char* place : {"msg", "retry:cnt", "keys", "headers"}) CHECK_FALSE(has(after, place, own_id));
      }
      return;
    }
  }

  void take() {
    const Taken taken = queue_.take(1 + below(4));
    const Cells cells = saved_.cells();
    for (const auto& [id, deliveries] : taken.messages) {
      const auto body = cells.find({"msg", id});
      if (body == cells.end()) {
        queue_.scene.run(&Moves::remove, {"expired", true}, {{id, taken.lease_us}});
        continue;
      }
      const auto sent = payloads_.find(id);  // the last one that a sender was told of
      if (sent != payloads_.end() && !breaks_) CHECK(body->second == sent->second + " 0");
      held_.emplace_back(id, taken.lease_us);
      last_read_[{id, taken.lease_us}] = body->second;
    }
  }

  // Also late, with a lease that has ended.
  void settle(bool fails) {
    if (held_.empty()) return;
    const std::size_t which = below(held_.size());
    const auto [id, end] = held_[which];
    const Cells before = saved_.cells();
    if (!fails) {
      const bool settled = queue_.scene.run(&Moves::remove, {"acked", true}, {{id, end}}) == "S";
      // What is acknowledged is what the consumer has read.
      const auto body = before.find({"msg", id});
      const bool same = body == before.end() || body->second == last_read_[{id, end}];
      if (settled) CHECK(same);
      const auto noted = saved_.cells();
      if (settled) CHECK_FALSE(has(noted, "keys", id));
    } else if (below(3) == 0) {
      queue_.scene.run(&Moves::release, {{id, end}}, milliseconds(below(2)));
    } else {
      queue_.scene.run(&Moves::nack, {{{id, end}, below(3) == 0 ? std::nullopt : std::optional(1ms), "why"}});
    }
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void vandalize() {
    Scene& scene = queue_.scene;
    const std::string id = any_id();
    switch (below(5)) {
      case 0:
        if (!id.empty()) scene.cmd({"DEL", scene.keys().bodies + id});
        return;
      case 1:
        if (!id.empty()) scene.cmd({"HDEL", scene.keys().count, id});
        return;
      case 2:
        if (!id.empty()) scene.cmd({"HDEL", scene.keys().keys, id});
        return;
      case 3:
        scene.cmd({"HDEL", scene.keys().unique, any_key()});
        two_possible_ = true;
        return;
      default:  // a Go worker gives it up
        if (id.empty()) return;
        scene.cmd({"LREM", scene.keys().ready, "0", id});
        scene.cmd({"SADD", scene.keys().garbage, id});
        two_possible_ = true;  // it may still be taken from retry
    }
  }

  // Never two alive with a key.
  void check() {
    if (conflict_ != Conflict::keep || two_possible_) return;
    const Cells cells = saved_.cells();
    std::map<std::string, int> alive;
    for (const auto& [at, key] : cells) {
      if (at.first == "keys" && own(at.second) && is_alive(cells, at.second, key)) ++alive[key];
    }
    for (const auto& entry : alive) CHECK_MESSAGE(entry.second == 1, entry.first);
  }

  // All that is left is delivered, and then the keys are free.
  void drain() {
    Scene& scene = queue_.scene;
    for (int i = 0; i < 20; ++i) {
      for (const auto& [at, score] : saved_.cells()) {
        if (!own(at.second)) continue;
        if (at.first == "unack") scene.cmd({"ZADD", scene.keys().unack, "1.0000005", at.second});
        if (at.first == "pending") scene.cmd({"ZADD", scene.keys().pending, "1", at.second});
        if (at.first == "dead") scene.run(&Moves::purge_ids, scene.keys().dead, {at.second});
      }
      scene.run(&Moves::unack2retry, false);
      scene.run(&Moves::pending2ready, false, {"me", 1s});
      const Taken taken = queue_.take();
      for (const auto& one : taken.messages) {
        scene.run(&Moves::remove, {"acked", true}, {{one.first, taken.lease_us}});
      }
    }
    for (const std::string key : {"k0", "k1", "k2"}) {
      CHECK(queue_.send("m" + std::to_string(++sent_), key, "x", fresh(kKeep)).outcome == '1');
    }
  }

  std::mt19937 random_;
  const bool breaks_, vandal_;
  const Conflict conflict_;
  KeyedQueue queue_;
  SavedQueue saved_;
  int sent_ = 1000;
  bool two_possible_ = false;  // an entry was deleted
  std::map<std::string, std::string> payloads_;
  std::vector<std::pair<std::string, std::int64_t>> held_;
  std::map<std::pair<std::string, std::int64_t>, std::string> last_read_;
  std::map<char, int> outcomes_;
};

TEST_CASE("unique R12 to R18: random runs: never two with a key, no send swallowed, no update lost") {
  constexpr std::array kConflicts{Conflict::keep, Conflict::replace, Conflict::postpone};
  for (std::uint64_t seed = 1; seed <= test::seeds(60); ++seed) {  // 12 combinations in turn
    CAPTURE(seed);
    RandomKeys(seed, seed / 3 % 2 == 1, seed / 6 % 2 == 1, kConflicts[seed % 3]).run();
  }
}

}  // namespace
}  // namespace delayqueue::store
