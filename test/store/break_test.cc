#include "support/test.h"

#include "store/scripts.h"
#include "support/all_moves.h"
#include "support/regex.h"

// What is left of a queue after Redis has refused a move, before its first write or in the middle. Redis does not roll
// back scripts.
namespace delayqueue::store {
namespace {

using test::AnyMove;
using test::At;
using test::Scene;

const AnyMove& move(const std::string& name) {
  for (const auto& one : test::all_moves()) {
    if (one.name == name) return one;
  }
  throw std::logic_error("no move " + name);
}

// The messages that the move removes when it succeeds. Their removal is no loss.
std::set<std::string> settled_by(const std::string& name) {
  static const std::map<std::string, std::set<std::string>> settled = {
      {"ack", {"held", "last", "retry"}},
      {"ack one", {"held"}},
      {"ack one with headers", {"held"}},
      {"ack with headers", {"held", "last", "retry"}},
      {"ack late", {"retry", "dead"}},
      {"ack_paced", {"held", "last", "retry"}},
      {"ack_paced one", {"held"}},
      {"expire", {"held"}},
      {"cancel pending", {"later"}},
      {"cancel ready", {"ready"}},
      {"cancel with headers", {"later"}},
      {"cancel with a key", {"later"}},
      {"cancel held with a key", {"held"}},
      {"ack_paced with keys", {"held", "last", "retry"}},
      {"ack_paced one with a key", {"held"}},
      {"cancel backing off", {"back"}},
      {"cancel held", {"held"}},
      {"cancel dead", {"dead"}},
      {"purge_ids dead", {"dead"}},
      {"purge_ids pending", {"later"}},
      {"purge_ids with headers", {"dead"}},
      {"purge_ids with keys", {"dead"}},
      {"purge_ids ready", {"ready"}},
      {"purge pending", {"due"}},
      {"purge dead", {"dead"}},
      {"purge ready", {".r1", ".r2", "ready"}},
      {"purge retry", {".t1", ".t2", "retry"}}};
  const auto found = settled.find(name);
  return found == settled.end() ? std::set<std::string>() : found->second;
}

// Whether the move stores new messages, or makes dead letters ready: the caller keeps them until it succeeds, or calls
// again, so Redis may refuse it out of memory.
bool brings(const std::string& name) {
  const std::string first = name.substr(0, name.find(' '));
  const bool schedules = first == "advance" || name.substr(0, 12) == "schedule set" || name == "schedule resume";
  return schedules || first.substr(0, 4) == "send" || first == "restore" || first == "redrive";
}

// Names of lost messages, without those that the move removes.
std::string lost_by(Scene& scene, const std::string& name) {
  const auto allowed = settled_by(name);
  std::string rest;
  std::string word;
  for (const char c : scene.lost() + " ") {
    if (c != ' ') {
      word += c;
    } else {
      if (!word.empty() && allowed.count(word) == 0) rest += (rest.empty() ? "" : " ") + word;
      word.clear();
    }
  }
  return rest;
}

std::string source_of(const std::string& name) {
  for (const auto* script : scripts::all()) {
    if (script->name == name) return std::string(script->body);
  }
  FAIL("there is no script " << name);
  return {};
}

// The distinct commands that the script calls.
std::vector<std::string> commands_of(const std::string& script) {
  const std::string source = source_of(script);
  std::set<std::string> found;
  for (const auto& match : test::matches(source, "redis\\.p?call\\('([A-Z]+)'")) found.insert(match[1]);
  return {found.begin(), found.end()};
}

std::string run(Scene& scene, const AnyMove& one) {
  return test::refusal([&] { one.run(scene); });
}

TEST_CASE("wrong type: a move refuses a key of another type and writes nothing, or does not use the key") {
  const auto keys = [](Scene& scene) {
    const Keys& k = scene.keys();
    return std::vector<std::string>{k.pending, k.ready, k.unack, k.retry,   k.count,  k.garbage, k.attempts,
                                    k.reason,  k.dead,  k.stats, k.headers, k.unique, k.keys};
  };
  for (const AnyMove& one : test::all_moves()) {
    int refused = 0;
    for (std::size_t i = 0; i < 13; ++i) {
      Scene scene;
      test::put_messages_for(scene, one);
      const std::string key = keys(scene)[i];
      scene.cmd({"DEL", key});
      scene.cmd({"SET", key, "something else"});
      CAPTURE(one.name);
      CAPTURE(key);
      const auto before = scene.state();
      const std::string text = run(scene, one);
      CHECK(scene.cmd({"GET", key}) == "something else");
      if (text.empty()) continue;
      ++refused;
      CHECK(text.find("WRONGTYPE") != std::string::npos);
      CHECK(text.find("something else uses a key of this queue") != std::string::npos);
      if (test::script_of(one.name) == "send_new") {  // MSETNX has stored the bodies: the client deletes them
        scene.cmd({"UNLINK", scene.keys().bodies + scene.id("none"), scene.keys().bodies + scene.id("none2"),
                   scene.keys().staged + scene.id("none")});
      }
      CHECK((scene.state() == before));
    }
    CHECK(refused > 0);
  }
}

TEST_CASE("wrong type: a body of another type fails no move") {
  for (const AnyMove& one : test::all_moves()) {
    Scene scene;
    test::put_messages_for(scene, one);
    for (const char* name : {"due", "later", "ready", "retry", "held", "last", "over", "back", "dead", "garb"}) {
      scene.cmd({"DEL", scene.keys().bodies + scene.id(name)});
      scene.cmd({"LPUSH", scene.keys().bodies + scene.id(name), "x"});
    }
    CAPTURE(one.name);
    CHECK(run(scene, one) == "");
    CHECK(lost_by(scene, one.name) == "");
  }
}

// Forbids the commands of the script one after another. After a partial move each message must still be in a list or
// zset, with its body and its count.
TEST_CASE("refused midway: with any one command forbidden, a move may duplicate messages but loses none") {
  for (const AnyMove& one : test::all_moves()) {
    int refused = 0;
    for (const std::string& command : commands_of(test::script_of(one.name))) {
      CAPTURE(one.name);
      CAPTURE(command);
      Scene::Setup setup;
      setup.login.user = "limited";
      setup.login.password = "secret";
      test::redis().cmd({"ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", "-" + command});
      Scene scene(setup);
      test::put_messages_for(scene, one);
      const std::string text = run(scene, one);
      CHECK(lost_by(scene, one.name) == "");
      if (!text.empty()) ++refused;
      // The caller repeats a failed send; the second one must succeed.
      if (one.name.substr(0, 4) != "send" || text.empty()) continue;
      test::redis().cmd({"ACL", "SETUSER", "limited", "+" + command});
      CHECK(scene.run(&Moves::send, {{scene.id("none"), "new"}, {scene.id("garb"), "new"}}, {{5min, 0}}).size() == 2);
      scene.put(At::nowhere, "none");
      for (const char* name : {"none", "garb"}) {
        const bool fresh = one.name != "send" && one.name != "send now" && one.name != "send staged";
        if (fresh && std::string(name) == "garb") continue;
        CAPTURE(std::string(name));
        const bool counted = scene.cmd({"HEXISTS", scene.keys().count, scene.id(name)}) == 1;
        const bool ready = !scene.cmd({"LPOS", scene.keys().ready, scene.id(name)}).nil();
        CHECK((counted && (ready || scene.score_us(scene.keys().pending, name) != 0)));
      }
    }
    test::redis().cmd({"ACL", "DELUSER", "limited"});
    CHECK(refused > 0);
  }
}

TEST_CASE("refused midway: a second restore completes a partial one, and dead letters are never delivered") {
  for (const std::string& command : commands_of("restore")) {
    CAPTURE(command);
    Scene::Setup setup;
    setup.lists = false;
    setup.login.user = "limited";
    setup.login.password = "secret";
    test::redis().cmd({"ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", "-" + command});
    Scene scene(setup);
    const std::int64_t died = 1'700'000'000'123'000;
    const std::vector<RestoreRecord> all = {{scene.keep("dead"), true, died, 0, 4, 0ms, "why", "body"},
                                            {scene.keep("due"), false, 0, 2, 1, 1h, "again", "body"}};
    test::refusal([&] { scene.run(&Moves::restore, all); });
    test::redis().cmd({"ACL", "SETUSER", "limited", "+" + command});
    const Taken early = scene.run(&Moves::ready2unack, {200, 200, 200}, 5min);  // a consumer in between
    for (const auto& [id, attempt] : early.messages) CHECK(id != scene.id("dead"));
    CHECK(scene.run(&Moves::restore, all).size() == 2);
    CHECK(scene.score_us(scene.keys().dead, "dead") == died);
    CHECK(scene.cmd({"HGET", scene.keys().reason, scene.id("dead")}) == "why");
    CHECK(scene.cmd({"HGET", scene.keys().attempts, scene.id("dead")}) == "4");
    CHECK(scene.cmd({"HEXISTS", scene.keys().count, scene.id("dead")}) == 0);
    for (const char* name : {"dead", "due"}) {
      CHECK(scene.cmd({"GET", scene.keys().bodies + scene.id(name)}) == "body");
    }
    const bool listed = !scene.cmd({"LPOS", scene.keys().ready, scene.id("due")}).nil();
    CHECK((listed || scene.score_us(scene.keys().unack, "due") != 0));
    CHECK(scene.cmd({"HGET", scene.keys().count, scene.id("due")}) == "2");
    test::redis().cmd({"ACL", "DELUSER", "limited"});
  }
}

TEST_CASE("refused midway: a message that a failed unack2retry left behind is delivered, and only once") {
  for (const std::string command : {"HSET", "LPUSH", "HDEL", "ZADD", "SADD"}) {
    CAPTURE(command);
    Scene::Setup setup;
    setup.lists = false;
    setup.login.user = "limited";
    setup.login.password = "secret";
    test::redis().cmd({"ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", "-" + command});
    Scene scene(setup);
    scene.put(At::held, "a", {-1min}).put(At::held, "b", {-1min, "0"}).put(At::cancelled, "c", {-1min});
    CHECK(run(scene, move("unack2retry")) != "");
    CHECK(run(scene, move("unack2retry")) != "");
    CHECK(scene.cmd({"HGET", scene.keys().count, scene.id("a")}) == "3");  // no attempt has spent a retry
    test::redis().cmd({"ACL", "SETUSER", "limited", "+" + command});
    const Reclaimed reclaimed = scene.run(&Moves::unack2retry, false);
    CHECK(reclaimed.dead_lettered == scene.ids({"b"}));  // so that the caller takes the TTL off its body
    CHECK(scene.cmd({"HGET", scene.keys().count, scene.id("a")}) == "2");
    for (const char* name : {"a", "b"}) {
      CHECK(scene.cmd({"HGET", scene.keys().reason, scene.id(name)}) == "lease ended 1 time");
    }
    CHECK(scene.lost().empty());
    const Taken taken = scene.run(&Moves::ready2unack, {200, 200, 200}, 5min);
    REQUIRE(taken.messages.size() == 1);
    CHECK(taken.messages[0].first == scene.id("a"));
    CHECK(scene.score_us(scene.keys().dead, "b") != 0);
    CHECK(scene.cmd({"SISMEMBER", scene.keys().garbage, scene.id("c")}) == 1);
    test::redis().cmd({"ACL", "DELUSER", "limited"});
  }
}

TEST_CASE(
    "refused midway: a take that Redis refuses leases nothing, since the end of such a lease would spend a retry") {
  for (const AnyMove& one : test::all_moves()) {
    const std::string script = test::script_of(one.name);
    if (script != "ready2unack" && script != "take_paced" && script != "pending2unack") continue;
    for (const std::string& command : commands_of(script)) {
      CAPTURE(one.name);
      CAPTURE(command);
      Scene::Setup setup;
      setup.login.user = "limited";
      setup.login.password = "secret";
      test::redis().cmd({"ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", "-" + command});
      Scene scene(setup);
      test::put_messages_for(scene, one);
      const auto held = scene.cmd({"ZCARD", scene.keys().unack});
      const std::string text = run(scene, one);
      if (!text.empty()) CHECK(scene.cmd({"ZCARD", scene.keys().unack}) == held);
      CHECK(lost_by(scene, one.name) == "");
    }
    test::redis().cmd({"ACL", "DELUSER", "limited"});
  }
}

TEST_CASE("refused midway: a reschedule that searches the lists leaves the message in at least one place") {
  for (const milliseconds delay : {milliseconds(0), milliseconds(20min)}) {
    for (const std::string& command : commands_of("reschedule")) {
      CAPTURE(command);
      CAPTURE(delay.count());
      Scene::Setup setup;
      setup.moves.search_lists = 5000;
      setup.login.user = "limited";
      setup.login.password = "secret";
      test::redis().cmd({"ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", "-" + command});
      Scene scene(setup);
      scene.put(At::ready, "ready").put(At::retry, "retry");
      for (const char* name : {"ready", "retry"}) {
        test::refusal([&] { scene.run(&Moves::reschedule, scene.id(name), {delay, 0}); });
      }
      CHECK(scene.lost().empty());
      test::redis().cmd({"ACL", "DELUSER", "limited"});
    }
  }
}

TEST_CASE("refused midway: a total that is no number costs no extra retry, and strands no message") {
  Scene::Setup quiet;
  quiet.lists = false;
  Scene scene(quiet);
  scene.cmd({"HSET", scene.keys().stats, "retried", "abc", "delivered", "abc", "sent", "abc"});
  scene.put(At::held, "a", {-1min, "5"});
  for (int i = 0; i < 3; ++i) run(scene, move("unack2retry"));
  CHECK(scene.cmd({"HGET", scene.keys().count, scene.id("a")}) == "4");
  CHECK(scene.score_us(scene.keys().unack, "a") == 0);
  CHECK(scene.cmd({"LLEN", scene.keys().retry}) == 1);
}

class FullRedis {
 public:
  FullRedis() { setup_.socket = server_.socket(); }
  const Scene::Setup& setup() const { return setup_; }
  static void fill(Scene& scene) { CHECK(scene.cmd({"CONFIG", "SET", "maxmemory", "1"}) == "OK"); }
  static void empty(Scene& scene) { CHECK(scene.cmd({"CONFIG", "SET", "maxmemory", "0"}) == "OK"); }

 private:
  PrivateServer server_;
  Scene::Setup setup_;
};

TEST_CASE("out of memory: every move except send, restore and redrive does all that it does with memory") {
  const FullRedis redis;
  for (const AnyMove& one : test::all_moves()) {
    if (brings(one.name)) continue;
    CAPTURE(one.name);
    std::string changes[2];
    for (const bool full : {false, true}) {
      Scene scene(redis.setup());
      test::put_messages_for(scene, one);
      if (full) FullRedis::fill(scene);
      CHECK(run(scene, one) == "");
      FullRedis::empty(scene);
      changes[full ? 1 : 0] = scene.changes();
      CHECK(lost_by(scene, one.name) == "");
    }
    // The ends of leases depend on when the move ran, and the ids of occurrences on their slots.
    for (auto& text : changes) {
      text = test::replaced(test::replaced(text, "[0-9]{16}", "time"), "[0-9a-f-]{14}-5[0-9a-f-]{21}", "occurrence");
    }
    CHECK(changes[0] == changes[1]);
    CHECK_FALSE(changes[0].empty());
  }
}

TEST_CASE("out of memory: send, restore and redrive are refused whole, with advice, and succeed with memory") {
  const FullRedis redis;
  for (const AnyMove& one : test::all_moves()) {
    if (!brings(one.name)) continue;
    CAPTURE(one.name);
    Scene scene(redis.setup());
    test::put_messages_for(scene, one);
    const auto before = scene.state();
    FullRedis::fill(scene);
    const std::string text = run(scene, one);
    CHECK(text.find("OOM") != std::string::npos);
    CHECK(text.find("raise maxmemory") != std::string::npos);
    FullRedis::empty(scene);
    CHECK((scene.state() == before));
    CHECK(run(scene, one) == "");
    const std::string changes = scene.changes();
    CHECK_FALSE(changes.empty());
    const bool replaces = one.name.find("replacing") != std::string::npos;  // that adds to no total
    CHECK((changes.find("stats ") != std::string::npos) == !replaces);
  }
}

}  // namespace
}  // namespace delayqueue::store
