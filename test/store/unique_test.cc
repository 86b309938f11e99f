#include "support/test.h"

#include "store/script_calls.h"
#include "support/all_moves.h"
#include "support/saved_queue.h"

#include <random>

// Messages with unique keys, and the limit of the length, in the scripts.
namespace delayqueue::store {
namespace {

using test::At;
using test::Cells;
using test::Scene;

Scene::Setup bare() {
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
  explicit KeyedQueue(const Scene::Setup& setup = bare()) : scene(setup) {}

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

TEST_CASE("unique R15: a backoff stays when the time of max_wait is over") {
  KeyedQueue queue;
  queue.put(At::backing_off, "a", "k");
  const std::int64_t until = queue.scene.score_us(queue.scene.keys().unack, "a");
  CHECK(queue.send("b", "k", "2", postpone_by(20min, 1ms)).outcome == 'R');
  CHECK(queue.scene.score_us(queue.scene.keys().unack, "a") == until);
  CHECK(queue.body("a") == "2");
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
    scene.put(At::pending, "b");  // what a call leaves that is refused before the body is stored
    scene.cmd({"DEL", scene.keys().bodies + scene.id("b")});
    scene.cmd({"HSET", scene.keys().keys, scene.id("b"), "k"});
    scene.cmd({"HSET", scene.keys().headers, scene.id("b"), "\1h\1v"});
    REQUIRE(queue.send("a", "k", "1").outcome == '1');
    CHECK(queue.send("b", "k", "2", again(wanted)).outcome == (wanted.terms.conflict == Conflict::keep ? 'U' : 'R'));
    for (const std::string& hash : {scene.keys().count, scene.keys().keys, scene.keys().headers}) {
      CHECK(scene.cmd({"HEXISTS", hash, scene.id("b")}) == 0);
    }
    CHECK(scene.score_us(scene.keys().pending, "b") == 0);
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

// ---- Length -----------------------------------------------------------------------------------------------------------

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

TEST_CASE("limits R4: a refused send leaves no staged payload") {
  KeyedQueue queue;
  const std::string large(kStagedBytes, 'x');
  REQUIRE(queue.send("a", "k", large).outcome == '1');
  CHECK(queue.send("b", "k", large).outcome == 'U');
  CHECK(queue.send("c", "other", large, at_most(1)).outcome == 'F');
  CHECK(queue.scene.cmd({"KEYS", queue.scene.keys().staged + "*"}).array.empty());
  CHECK(queue.body("a") == large);
}

}  // namespace
}  // namespace delayqueue::store
