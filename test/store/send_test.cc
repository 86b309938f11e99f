#include "support/test.h"

#include "store/scripts.h"
#include "support/moves.h"
#include "support/seeds.h"

namespace delayqueue::store {
namespace {

using test::At;
using test::Scene;

SendTerms in(milliseconds delay, int retries = 3, milliseconds ttl = 0ms) { return {{delay, 0}, retries, ttl}; }
SendTerms at(std::int64_t ms) { return {{std::nullopt, ms}}; }

SendTerms fresh(SendTerms terms) {
  terms.new_ids = true;
  return terms;
}

std::vector<NewMessage> messages(const std::vector<std::string>& ids) {
  std::vector<NewMessage> out;
  for (const auto& id : ids) out.push_back({id, "new"});
  return out;
}

// Calls of the two scripts with the message "a" and with the clock of Redis at `now_us`.
test::Reply send_at(Scene& scene, const Keys& keys, std::int64_t now_us, const std::string& delay_ms,
                    const std::string& due_ms, const std::string& fresh = "0", const std::string& ttl_ms = "0") {
  return scene.run_at(now_us, scripts::send, test::key_names(calls::send::keys(keys), {keys.bodies + scene.id("a")}),
                      {fresh, delay_ms, due_ms, "3", ttl_ms, "new"});
}

test::Reply send_one_at(Scene& scene, const Keys& keys, std::int64_t now_us, const std::string& delay_ms,
                        const std::string& due_ms, const std::string& ttl_ms = "0") {
  return scene.run_at(now_us, scripts::send_one,
                      test::key_names(calls::send_one::keys(keys, {keys.bodies, scene.id("a")})),
                      {delay_ms, due_ms, "3", ttl_ms, "new"});
}

// The body and the token are stored ahead of the script, as the transaction does it.
test::Reply send_new_at(Scene& scene, const Keys& keys, std::int64_t now_us, const std::string& delay_ms,
                        const std::string& due_ms, const std::string& ttl_ms = "0") {
  const std::string body = keys.bodies + scene.id("a"), token = keys.staged + scene.id("a");
  scene.cmd({"MSETNX", token, "", body, "new"});
  return scene.run_at(now_us, scripts::send_new, test::key_names(calls::send_new::keys(keys, token), {body}),
                      {delay_ms, due_ms, "3", ttl_ms, "1", scene.id("a")});
}

TEST_CASE("send: a delayed message goes to pending, due that long after the time of Redis; nothing else changes") {
  for (const bool is_fresh : {false, true}) {
    Scene scene;
    auto terms = in(5min, 7);
    terms.new_ids = is_fresh;
    CHECK(scene.run(&Moves::send, {{scene.id("a"), "hello"}, {scene.id("b"), "world"}}, terms) == "11");
    CHECK(scene.changes() == std::string("msg +a=hello +b=world; ") + (is_fresh ? "" : "attempts +a=0 +b=0; ") +
                                 "pending +a@now+5m +b@now+5m; retry:cnt +a=7 +b=7; stats sent+2; ");
  }
}

TEST_CASE("send: messages due now go straight to ready, behind those there, in the order given") {
  for (const bool is_fresh : {false, true}) {
    Scene scene;
    auto terms = in(0ms, 0);
    terms.new_ids = is_fresh;
    CHECK(scene.run(&Moves::send, {{scene.id("b"), "1"}, {scene.id("a"), "2"}}, terms) == "11");
    CHECK(scene.changes() == std::string("msg +a=2 +b=1; ") + (is_fresh ? "" : "attempts +a=0 +b=0; ") +
                                 "ready [a b .r2 .r1]; retry:cnt +a=0 +b=0; stats sent+2; ");
  }
}

TEST_CASE("send: an absolute time is the due time to the millisecond; a past one is due now") {
  Scene scene;
  CHECK(scene.run(&Moves::send, messages({scene.id("a")}), at(scene.start_ms() + 300'000)) == "1");
  CHECK(scene.changes() == "msg +a=new; attempts +a=0; pending +a@start+5m; retry:cnt +a=3; stats sent+1; ");
  CHECK(scene.run(&Moves::send, messages({scene.id("b")}), at(scene.start_ms() - 1)) == "1");
  CHECK(scene.changes() == "msg +b=new; attempts +b=0; ready [b .r2 .r1]; retry:cnt +b=3; stats sent+1; ");
  CHECK(scene.run(&Moves::send, messages({scene.id("c")}), at(0)) == "1");
  CHECK(scene.changes() == "msg +c=new; attempts +c=0; ready [c b .r2 .r1]; retry:cnt +c=3; stats sent+1; ");
}

TEST_CASE("send: due exactly now is ready, a millisecond later is pending") {
  const std::int64_t now = 1'800'000'000'123'000;
  struct {
    const char* delay;
    const char* due;
    std::int64_t pending_us;  // 0: ready
  } const cases[] = {{"", "1800000000123", 0},
                     {"", "1800000000122", 0},
                     {"", "1800000000124", now + 1000},
                     {"0", "", 0},
                     {"1", "", now + 1000}};
  for (const auto& one : cases) {
    CAPTURE(std::string(one.delay));
    CAPTURE(std::string(one.due));
    Scene scene;
    CHECK(send_at(scene, scene.keys(), now, one.delay, one.due) == 1);
    CHECK(scene.score_us(scene.keys().pending, "a") == one.pending_us);
    Scene alone;
    CHECK(send_one_at(alone, alone.keys(), now, one.delay, one.due) == 1);
    CHECK(alone.score_us(alone.keys().pending, "a") == one.pending_us);
    Scene ahead;
    CHECK(send_new_at(ahead, ahead.keys(), now, one.delay, one.due) == 1);
    CHECK(ahead.score_us(ahead.keys().pending, "a") == one.pending_us);
  }
}

TEST_CASE("send: a delay within a millisecond is rounded up, so that no message is early") {
  Scene scene;
  CHECK(send_at(scene, scene.keys(), 1'800'000'000'123'001, "5", "") == 1);
  CHECK(scene.score_us(scene.keys().pending, "a") == 1'800'000'000'129'000);
  Scene alone;
  CHECK(send_one_at(alone, alone.keys(), 1'800'000'000'123'001, "5", "") == 1);
  CHECK(alone.score_us(alone.keys().pending, "a") == 1'800'000'000'129'000);
  Scene ahead;
  CHECK(send_new_at(ahead, ahead.keys(), 1'800'000'000'123'001, "5", "") == 1);
  CHECK(ahead.score_us(ahead.keys().pending, "a") == 1'800'000'000'129'000);
}

TEST_CASE("send_one, send_new: have the effect and the answer of send for a new message, in random states") {
  std::mt19937_64 random(14);
  const auto one_of = [&](const std::vector<std::string>& list) { return list[random() % list.size()]; };
  Scene scene;  // runs the scripts, on other queues
  const std::uint64_t rounds = test::seeds(600);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    // The delays and the absolute times are due at a score below, or before the first of them.
    const std::string delay = one_of({"0", "1", "60000", "", ""});
    const std::string due =
        delay.empty() ? one_of({"1799999999000", "1800000000123", "1800000000124", "1800000060124"}) : "";
    const std::string ttl = one_of({"0", "600000", "3600000"});
    const bool later = delay == "1" || delay == "60000" || due == "1800000000124" || due == "1800000060124";
    const std::string wrong = one_of({"count", later ? "pending" : "ready", "stats", "wake", "", "", "", "", "", ""});
    std::vector<std::vector<std::string>> contents;  // command, key, arguments
    for (std::size_t n = random() % 3; n > 0; --n) {
      contents.push_back({"ZADD", "pending",
                          one_of({"-inf", "1700000000", "1800000000.125", "1800000060.123", "1800000060.124",
                                  "1800000060.125", "1900000000", "inf"}),
                          "p" + std::to_string(n)});
    }
    for (std::size_t n = random() % 3; n > 0; --n) contents.push_back({"LPUSH", "ready", "r" + std::to_string(n)});
    if (random() % 2 == 0) contents.push_back({"HSET", "count", "p1", "3"});
    if (random() % 2 == 0) contents.push_back({"HSET", "stats", "sent", one_of({"0", "5", "no number"})});
    if (random() % 2 == 0) contents.push_back({"ZADD", "wake", one_of({"0", "1800000060.124", "1900000000"}), "w"});
    if (!wrong.empty()) contents.push_back({"SET", wrong, "something else"});

    std::vector<Keys> queues;
    std::vector<test::Snapshot> before;
    for (int i = 0; i < 3; ++i) {
      queues.push_back(make_keys(test::fresh_queue(), {}));
      const Keys& keys = queues.back();
      for (std::vector<std::string> words : contents) {
        words[1] = words[1] == "pending" ? keys.pending
                   : words[1] == "ready" ? keys.ready
                   : words[1] == "count" ? keys.count
                   : words[1] == "stats" ? keys.stats
                                         : keys.wake;
        CHECK_FALSE(scene.cmd(words).error());
      }
      before.push_back(test::snapshot(keys.base));
    }
    constexpr std::int64_t kNowUs = 1'800'000'000'123'456;
    const test::Reply by_send = send_at(scene, queues[0], kNowUs, delay, due, "1", ttl);
    const test::Reply by_send_one = send_one_at(scene, queues[1], kNowUs, delay, due, ttl);
    const test::Reply by_send_new = send_new_at(scene, queues[2], kNowUs, delay, due, ttl);
    CAPTURE(round);
    CHECK((before[0] == before[1]));
    CHECK((test::snapshot(queues[0].base) == test::snapshot(queues[1].base)));
    if (by_send_new.error()) scene.cmd({"UNLINK", queues[2].bodies + scene.id("a")});  // the client does it
    CHECK((test::snapshot(queues[0].base) == test::snapshot(queues[2].base)));
    CHECK(by_send.error() == (wrong == "count" || wrong == "pending" || wrong == "ready"));
    if (by_send.error()) {
      CHECK(by_send_one.text.find("WRONGTYPE") != std::string::npos);
      CHECK(by_send_new.text.find("WRONGTYPE") != std::string::npos);
      CHECK((test::snapshot(queues[1].base) == before[1]));
    } else {
      CHECK((by_send_one == by_send));
      CHECK((by_send_new == by_send));
      const auto left = [&](const Keys& keys) { return scene.cmd({"PTTL", keys.bodies + scene.id("a")}).integer; };
      // The later calls were a little later.
      CHECK(std::llabs(left(queues[1]) - left(queues[0])) < 20'000);
      CHECK(std::llabs(left(queues[2]) - left(queues[0])) < 20'000);
    }
    for (const Keys& keys : queues) {
      for (const auto& one : test::snapshot(keys.base)) scene.cmd({"UNLINK", keys.base + ":" + one.first});
    }
  }
}

TEST_CASE("send: the TTL counts from the due time") {
  struct {
    SendTerms terms;
    milliseconds life;
  } const cases[] = {{in(5min, 3, 10min), 15min}, {in(0ms, 3, 10min), 10min}, {fresh(in(5min, 3, 1ms)), 5min + 1ms}};
  for (const auto& one : cases) {
    Scene scene;
    CHECK(scene.run(&Moves::send, messages({scene.id("a"), scene.id("b")}), one.terms) == "11");
    for (const char* name : {"a", "b"}) {
      CHECK(scene.ttl_ms(name) <= one.life.count() + 1);
      CHECK(scene.ttl_ms(name) >= one.life.count() - 60'000);
    }
    CHECK(scene.changes().find("msg +a=new (expires) +b=new (expires); ") == 0);
  }
}

TEST_CASE("send: the TTL counts from a due time in the past, too; without a TTL a body never expires") {
  Scene scene;
  SendTerms terms = at(scene.start_ms() - 300'000);
  terms.ttl = 10min;
  CHECK(scene.run(&Moves::send, messages({scene.id("a")}), terms) == "1");
  CHECK(scene.ttl_ms("a") <= 300'000);
  CHECK(scene.ttl_ms("a") > 240'000);
  CHECK(scene.run(&Moves::send, messages({scene.id("b")}), in(5min)) == "1");
  CHECK(scene.ttl_ms("b") == -1);
}

TEST_CASE("send: one script stores 1, 199 or 200 messages, with and without looking whether they exist") {
  for (const bool is_fresh : {false, true}) {
    for (const std::size_t count : {1U, 199U, 200U}) {
      CAPTURE(count);
      Scene scene;
      const auto ids = scene.many("m", static_cast<int>(count));
      SendTerms terms = in(5min);
      terms.new_ids = is_fresh;
      CHECK(scene.run(&Moves::send, messages(ids), terms) == std::string(count, '1'));
      CHECK(scene.cmd({"ZCARD", scene.keys().pending}) == count + 2);
      for (const auto& id : ids) CHECK(scene.cmd({"GET", scene.keys().bodies + id}) == "new");
      CHECK(scene.run(&Moves::send, messages(ids), in(5min)) == std::string(count, '0'));
      CHECK(scene.changes().empty());
    }
  }
}

// ---- Large payloads: SET stages them, and the script renames the keys to the bodies. With new ids MSETNX stores the
// bodies, in one transaction with send_new ----

Scene::Setup staging() {
  Scene::Setup setup;
  setup.moves.staged_bytes = 0;
  return setup;
}

// For a user, "limited", who may do everything but this command.
Scene::Setup staging_without(const std::string& command) {
  Scene::Setup setup = staging();
  setup.login.user = "limited";
  setup.login.password = "secret";
  test::redis().cmd({"ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", "-" + command});
  return setup;
}

std::size_t staged(Scene& scene) { return scene.cmd({"KEYS", scene.keys().staged + "*"}).array.size(); }

TEST_CASE("send staged: stores what a send through the script stores, and leaves no staged payload") {
  for (const SendTerms& terms : {in(5min, 7), in(5min, 7, 10min), in(0ms, 0), at(0), fresh(in(5min, 7)),
                                 fresh(in(5min, 7, 10min)), fresh(in(0ms, 0)), fresh(at(0))}) {
    std::string changes[2];
    for (const bool stages : {false, true}) {
      Scene scene(stages ? staging() : Scene::Setup());
      const std::string command = terms.new_ids ? "cmdstat_msetnx" : "cmdstat_rename";
      const std::string before = test::info("commandstats", command);
      CHECK(scene.run(&Moves::send, {{scene.id("a"), "hello"}, {scene.id("b"), ""}}, terms) == "11");
      CHECK((test::info("commandstats", command) != before) == stages);
      changes[stages ? 1 : 0] = scene.changes();
      for (const char* name : {"a", "b"}) {
        const std::int64_t left = scene.ttl_ms(name);
        CHECK((terms.ttl > 0ms ? left > 600'000 : left == -1));
      }
      CHECK(staged(scene) == 0);
      CHECK(scene.run(&Moves::send, {{scene.id("a"), "other"}, {scene.id("b"), ""}}, in(5min)) == "00");
      CHECK(scene.changes().empty());
      CHECK(staged(scene) == 0);
    }
    CHECK(changes[0] == changes[1]);
    CHECK_FALSE(changes[0].empty());
  }
}

TEST_CASE("send staged: of several ids live messages are not changed, in any state, and the others are created") {
  Scene scene(staging());
  scene.put(At::pending, "o1").put(At::ready, "o2").put(At::retry, "o3").put(At::held, "o4").put(At::dead, "o5");
  scene.put(At::cancelled, "c").put(At::garbage, "g");
  CHECK(scene.run(&Moves::send, messages(scene.ids({"o1", "new", "o2", "o3", "o4", "o5", "c", "g", "new"})),
                  in(5min)) == "010000C10");
  CHECK(staged(scene) == 0);
  CHECK(scene.lost().empty());
}

TEST_CASE("send: from kStagedBytes on, on average, payloads are staged; of new ids from as many in all by send_new") {
  Scene scene;
  const std::string small(kStagedBytes - 1, 'x');
  const std::string large = small + 'x';
  const auto calls = [](const std::string& command) { return test::info("commandstats", "cmdstat_" + command); };
  const std::string before = calls("rename");
  const std::string by_send_new = calls("msetnx");
  CHECK(scene.run(&Moves::send, {{scene.id("a"), small}}, fresh(in(5min))) == "1");
  CHECK(scene.run(&Moves::send, {{scene.id("g"), "x"}, {scene.id("h"), "y"}}, fresh(in(5min))) == "11");
  CHECK(calls("msetnx") == by_send_new);
  CHECK(scene.run(&Moves::send, {{scene.id("i"), small}, {scene.id("j"), "x"}}, fresh(in(5min))) == "11");
  const std::string two = calls("msetnx");
  CHECK(two != by_send_new);
  CHECK(scene.run(&Moves::send, {{scene.id("b"), small}, {scene.id("c"), large}}, in(5min)) == "11");
  CHECK(calls("rename") == before);
  CHECK(scene.run(&Moves::send, {{scene.id("d"), large}}, fresh(in(5min))) == "1");
  CHECK(calls("msetnx") != two);
  CHECK(scene.run(&Moves::send, {{scene.id("k"), large}}, in(5min)) == "1");
  const std::string one = calls("rename");
  CHECK(one != before);
  CHECK(scene.run(&Moves::send, {{scene.id("e"), large}, {scene.id("f"), large}}, in(5min)) == "11");
  CHECK(calls("rename") != one);
}

TEST_CASE("send staged: a script that the server has not loaded takes the payloads all the same") {
  Scene scene(staging());
  scene.cmd({"SCRIPT", "FLUSH"});
  CHECK(scene.run(&Moves::send, {{scene.id("a"), "hello"}, {scene.id("b"), "world"}}, fresh(in(5min))) == "11");
  CHECK(scene.changes() == "msg +a=hello +b=world; pending +a@now+5m +b@now+5m; retry:cnt +a=3 +b=3; stats sent+2; ");
  CHECK(staged(scene) == 0);
}

TEST_CASE("send staged: stores nothing if a staged payload is missing; the other staged payloads expire") {
  Scene scene;
  const Keys& keys = scene.keys();
  const auto send = [&] {
    return scene.run_at(
        1'800'000'000'123'000, scripts::send,
        test::key_names(calls::send::keys(keys), {keys.bodies + scene.id("a"), keys.bodies + scene.id("b"),
                                                  keys.staged + "1", keys.staged + "2"}),
        {"1", "0", "", "3", "0"});
  };
  scene.cmd({"SET", keys.staged + "2", "stored", "PX", "60000"});
  const test::Reply refused = send();
  CHECK(refused.error());
  const std::string gone = "a payload that was stored ahead of the script (key " + keys.staged + "1) is gone: ";
  CHECK_MESSAGE(refused.text.find(gone) != std::string::npos, refused.text);
  CHECK(scene.changes().empty());
  CHECK(scene.cmd({"PTTL", keys.staged + "2"}).integer > 0);
  scene.cmd({"SET", keys.staged + "1", "", "PX", "60000"});
  CHECK(send() == 2);
  CHECK(staged(scene) == 0);
}

TEST_CASE("send staged: if a permission is missing, send throws and stores no body; staged payloads expire") {
  for (const std::string command : {"set", "rename", "persist", "evalsha", "lpush"}) {
    CAPTURE(command);
    Scene scene(staging_without(command));
    const std::string text = test::refusal([&] { scene.run(&Moves::send, {{scene.id("a"), "hello"}}, in(0ms)); });
    CHECK_MESSAGE(text.find("see \"The smallest ACL rule\"") != std::string::npos, text);
    CHECK(scene.cmd({"EXISTS", scene.keys().bodies + scene.id("a")}) == 0);
    for (const std::string& key : scene.cmd({"KEYS", scene.keys().staged + "*"}).strings()) {
      CHECK(!(scene.cmd({"PTTL", key}) == -1));
    }
    test::redis().cmd({"ACL", "SETUSER", "limited", "+" + command});
    CHECK(scene.run(&Moves::send, {{scene.id("a"), "hello"}}, in(0ms)) == "1");
  }
  test::redis().cmd({"ACL", "DELUSER", "limited"});
}

TEST_CASE("send_new: if a permission is missing, send throws and stores no message; MULTI is not needed") {
  for (const std::string command : {"multi", "exec", "msetnx", "evalsha", "lpush", "hset", "unlink", "pexpire"}) {
    CAPTURE(command);
    Scene scene(staging_without(command));
    const auto send = [&] {
      return scene.run(&Moves::send, {{scene.id("a"), "hello"}, {scene.id("b"), "you"}}, fresh(in(0ms, 3, 1h)));
    };
    if (command == "multi") {
      CHECK(send() == "11");
      CHECK(scene.changes() ==
            "msg +a=hello (expires) +b=you (expires); ready [b a .r2 .r1]; retry:cnt +a=3 +b=3; stats sent+2; ");
      continue;
    }
    const std::string text = test::refusal(send);
    CHECK_MESSAGE(text.find("see \"The smallest ACL rule\"") != std::string::npos, text);
    for (const char* name : {"a", "b"}) {
      CHECK(scene.cmd({"HEXISTS", scene.keys().count, scene.id(name)}) == 0);
    }
    test::redis().cmd({"ACL", "SETUSER", "limited", "+" + command});
    CHECK(scene.run(&Moves::send, {{scene.id("a"), "hello"}, {scene.id("b"), "you"}}, in(0ms)) == "11");
  }
  test::redis().cmd({"ACL", "DELUSER", "limited"});
}

TEST_CASE("send_new: stores nothing if its MSETNX has stored nothing") {
  Scene scene;
  const Keys& keys = scene.keys();
  for (const char* name : {"a", "b"}) scene.cmd({"SET", keys.bodies + scene.id(name), "of another call"});
  const auto before = scene.state();
  const test::Reply refused = scene.run_at(1'800'000'000'123'000, scripts::send_new,
                                           test::key_names(calls::send_new::keys(keys, {keys.staged, scene.id("a")})),
                                           {"0", "", "3", "0", "2", scene.id("a"), scene.id("b")});
  CHECK(refused.error());
  CHECK_MESSAGE(refused.text.find("the payloads are not stored: MSETNX") != std::string::npos, refused.text);
  CHECK((scene.state() == before));
}

TEST_CASE("send_new: leaves no token") {
  Scene scene(staging());
  CHECK(scene.run(&Moves::send, {{scene.id("a"), "hello"}, {scene.id("b"), "you"}}, fresh(in(0ms))) == "11");
  CHECK(staged(scene) == 0);
}

// The other message of the send is finished: its body is gone.
TEST_CASE("send_new: a call that arrives late, after a repeated send, changes nothing, in any state") {
  for (const At at : test::all_but({At::nowhere})) {
    for (const bool is_first : {false, true}) {
      CAPTURE(test::to_string(at));
      Scene scene(staging());
      scene.put(at, "a", {630s, "3", "", "", 1h});
      const std::int64_t life = scene.ttl_ms("a");
      std::vector<NewMessage> late{{scene.keep("a"), "late"}, {scene.keep("b"), "late"}};
      if (!is_first) std::swap(late[0], late[1]);
      const auto before = scene.state();
      const std::string text = test::refusal([&] { scene.run(&Moves::send, late, fresh(in(5min, 3, 2h))); });
      CHECK_MESSAGE(text.find("the payloads are not stored: MSETNX was refused") != std::string::npos, text);
      CHECK((scene.state() == before));
      CHECK(scene.ttl_ms("a") <= life);
      CHECK(staged(scene) == 0);
    }
  }
}

TEST_CASE("send_new: a late call that fails changes no body of a message, in any state") {
  for (const At at : test::all_but({At::cancelled, At::garbage, At::nowhere})) {
    CAPTURE(test::to_string(at));
    Scene scene(staging());
    scene.put(at, "a", {630s, "3", "", "", 1h});
    scene.cmd({"DEL", scene.keys().ready});
    scene.cmd({"SET", scene.keys().ready, "in the way"});
    const std::int64_t life = scene.ttl_ms("a");
    const std::string text = test::refusal([&] {
      scene.run(&Moves::send, {{scene.id("a"), "late"}, {scene.id("b"), "late"}}, fresh(in(5min)));
    });
    CHECK_MESSAGE(text.find("WRONGTYPE") != std::string::npos, text);
    CHECK(scene.cmd({"GET", scene.keys().bodies + scene.id("a")}) == "payload");
    CHECK(life > 0);
    CHECK(scene.ttl_ms("a") > 0);
    CHECK(scene.cmd({"EXISTS", scene.keys().bodies + scene.id("b")}) == 0);
  }
}

TEST_CASE("send: of several ids live messages are not changed, in any state, and the others are created") {
  Scene scene;
  scene.put(At::pending, "o1").put(At::ready, "o2").put(At::retry, "o3").put(At::held, "o4").put(At::dead, "o5");
  scene.put(At::garbage, "g");
  CHECK(scene.run(&Moves::send, messages(scene.ids({"o1", "a", "o2", "o3", "g", "o4", "o5", "b"})), in(5min)) ==
        "01001001");
  CHECK(scene.changes() ==
        "msg +a=new +b=new g=new; attempts +a=0 +b=0 +g=0; garbage -g; pending +a@now+5m +b@now+5m +g@now+5m; "
        "retry:cnt +a=3 +b=3 +g=3; stats sent+3; ");
}

TEST_CASE("send: an id twice in one send makes one message, the first") {
  Scene scene;
  const auto a = scene.id("a");
  CHECK(scene.run(&Moves::send, {{a, "first"}, {a, "second"}, {scene.id("b"), "third"}, {a, "fourth"}}, in(0ms)) ==
        "1010");
  CHECK(scene.changes() ==
        "msg +a=first +b=third; attempts +a=0 +b=0; ready [b a .r2 .r1]; retry:cnt +a=3 +b=3; stats sent+2; ");
}

TEST_CASE("send: an id in garbage leaves it and is a new message, without the metadata of the old one") {
  Scene scene;
  scene.put(At::garbage, "a", {0ms, "", "3 1700000000123457", "too bad", 1h});
  CHECK(scene.run(&Moves::send, messages({scene.id("a")}), in(5min)) == "1");
  CHECK(scene.changes() ==
        "msg a=new; attempts a=0; garbage -a; pending +a@now+5m; reason -a; retry:cnt +a=3; stats sent+1; ");
}

TEST_CASE("send: removes what is left of an earlier message whose body has expired") {
  for (const At at : test::all_but({At::nowhere})) {
    CAPTURE(to_string(at));
    Scene scene;
    scene.put(at, "a", {10min, "3", "2 1700000000123457", "too bad"});
    scene.cmd({"DEL", scene.keys().bodies + scene.id("a")});
    CHECK(scene.run(&Moves::send, messages({scene.id("a")}), in(5min, 9)) == "1");
    const bool counted = at != At::cancelled && at != At::dead && at != At::garbage;
    const bool held = at == At::held || at == At::held_by_go || at == At::backing_off || at == At::cancelled;
    CHECK(scene.changes() == std::string("msg +a=new; attempts a=0; ") + (at == At::dead ? "dead -a; " : "") +
                                 (at == At::garbage ? "garbage -a; " : "") +
                                 (at == At::pending ? "pending a@now+5m; " : "pending +a@now+5m; ") +
                                 "reason -a; retry:cnt " + (counted ? "a=9" : "+a=9") + "; stats sent+1; " +
                                 (held ? "unack -a; " : ""));
  }
}

TEST_CASE("send: payloads come back byte for byte: every value, none at all, a megabyte") {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  const std::vector<std::string> payloads = {every, "", std::string(3, '\0'), "\r\n$5\r\n",
                                             std::string(1 << 20, '\xff')};
  Scene scene;
  std::vector<NewMessage> all;
  const auto ids = scene.many("m", static_cast<int>(payloads.size()));
  for (std::size_t i = 0; i < ids.size(); ++i) all.push_back({ids[i], payloads[i]});
  CHECK(scene.run(&Moves::send, all, in(5min)) == "11111");
  auto wanted = ids;
  wanted.push_back(scene.id("none"));
  const auto bodies = scene.run(&Moves::bodies, wanted);
  REQUIRE(bodies.size() == 6);
  for (std::size_t i = 0; i < ids.size(); ++i) CHECK((bodies[i] == payloads[i]));
  CHECK_FALSE(bodies[5]);
  CHECK(scene.changes().empty());
}

TEST_CASE("send: bodies and keys follow the prefix, the hash tag and bodies_under_dp") {
  Scene scene;
  const KeyScheme options[] = {{"my", false, false}, {"my", true, false}, {"my", true, true}};
  const char* const bodies[] = {"my:q-keys:msg:", "{my:q-keys}:msg:", "{dp:q-keys}:msg:"};
  for (int i = 0; i < 3; ++i) {
    const Moves moves(make_keys("q-keys", options[i]));
    redis::Pipeline pipeline(scene.connection());
    const auto sent = moves.send(pipeline, messages({scene.id("a")}), in(5min));
    pipeline.run();
    CHECK(sent.get() == "1");
    CHECK(scene.cmd({"GET", bodies[i] + scene.id("a")}) == "new");
    CHECK(scene.cmd({"ZCARD", moves.keys().pending}) == 1);
    scene.cmd({"DEL", bodies[i] + scene.id("a"), moves.keys().pending, moves.keys().count, moves.keys().stats});
  }
}

}  // namespace
}  // namespace delayqueue::store
