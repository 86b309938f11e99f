#include "support/test.h"

#include "store/integrity.h"
#include "store/layout.h"
#include "store/limits.h"
#include "store/pause.h"
#include "store/registry.h"
#include "store/scripts.h"
#include "support/all_moves.h"
#include "support/saved_queue.h"

// Every move, with every kind of value that another user of the same Redis can write into the fields that it reads. The
// damaged message may end where the contract says. All other messages must end where they end without the damage, and
// none may be lost.
namespace delayqueue::store {
namespace {

using test::alike;
using test::AnyMove;
using test::Cells;
using test::SavedQueue;
using test::Scene;

const char* const kFields[] = {"sent", "delivered", "acked",     "nacked",   "retried",
                               "dead", "expired",   "cancelled", "redriven", "purged"};

const std::string kDigits(400, '9');

// One kind of damage: to one message or, without an id, to statistics and hints.
struct Damage {
  std::string what;
  std::string id;
  std::vector<std::vector<std::string>> commands;
};

// Damage to each field of a message that has these cells.
std::vector<Damage> damages_to(const Keys& keys, const std::string& id, const Cells& cells) {
  std::vector<Damage> all;
  const auto add = [&](const std::string& place, const std::string& value, std::vector<std::string> command) {
    all.push_back({place + " = " + value.substr(0, 40), id, {std::move(command)}});
  };
  for (const std::string place : {"pending", "unack", "dead"}) {
    if (cells.count({place, id}) == 0) continue;
    for (const char* score : {"inf", "-inf", "1e300", "-1e300", "-1", "0", "1e18", "1e-300"}) {
      add(place, score, {"ZADD", keys.base + ":" + place, score, id});
    }
  }
  const std::vector<std::string> numbers = {"bar", "",    "-1",  "2.5", "1e300", "9223372036854775807",
                                            "inf", "nan", "0x1", " 3",  kDigits};
  if (cells.count({"retry:cnt", id}) > 0) {
    for (const auto& count : numbers) add("retry:cnt", count, {"HSET", keys.count, id, count});
  }
  std::vector<std::string> attempts = numbers;
  for (const std::string end : {"inf", "-1", "1e300", "9223372036854775807", "1 1", "000"})
    attempts.push_back("1 " + end);
  attempts.push_back(kDigits + " " + kDigits);
  for (const auto& noted : attempts) add("attempts", noted, {"HSET", keys.attempts, id, noted});
  const std::string megabyte(1'000'000, 'x');
  for (const std::string& reason : {std::string("lease ended 9223372036854775807 times"),
                                    "lease ended " + kDigits + " times", std::string("%d%s%n%%"), megabyte}) {
    add("reason", reason, {"HSET", keys.reason, id, reason});
  }
  for (const std::string& packed : {std::string(), std::string("\0\xff", 2), kDigits, megabyte}) {
    add("headers", packed, {"HSET", keys.headers, id, packed});
  }
  for (const std::string& key : {std::string(), std::string("another"), std::string("\0\n\xff", 3), megabyte}) {
    add("keys", key, {"HSET", keys.keys, id, key});
  }
  if (cells.count({"msg", id}) > 0) {
    for (const char* ttl : {"9223370000000000000", "9000000000000000", "4000000000000000000"}) {
      add("TTL", ttl, {"PEXPIRE", keys.bodies + id, ttl});
    }
    all.push_back({"body", id, {{"DEL", keys.bodies + id}, {"LPUSH", keys.bodies + id, "x"}}});
  }
  return all;
}

// Damage to statistics and hints.
std::vector<Damage> damages_beside(const Keys& keys) {
  std::vector<Damage> all;
  for (const std::string value : {"9223372036854775807", "-9223372036854775808", "bar", "", "1e300", " 5", "2.5"}) {
    std::vector<std::string> command = {"HSET", keys.stats};
    for (const char* field : kFields) command.insert(command.end(), {field, value});
    all.push_back({"stats = " + value, "", {command}});
  }
  for (const std::string& key : {keys.stats, keys.wake, keys.watch}) {
    const std::string name = key.substr(keys.base.size() + 1);
    all.push_back({name + " is a list", "", {{"DEL", key}, {"LPUSH", key, "x"}}});
    if (key != keys.wake) all.push_back({name + " is a zset", "", {{"DEL", key}, {"ZADD", key, "inf", "x"}}});
    if (key != keys.watch) all.push_back({name + " is a string", "", {{"DEL", key}, {"SET", key, "x"}}});
  }
  for (const std::string value : {"1 zz", "", "x", "inf x", "-1 x", "9223372036854775807 x"}) {
    all.push_back({"watch = " + value, "", {{"SET", keys.watch, value}}});
  }
  all.push_back({"watch = 400 digits", "", {{"SET", keys.watch, kDigits + " x"}}});
  for (const std::string& entry : {std::string(), std::string("x"), kDigits, std::string(36, 'x') + " 1 0",
                                   std::string("00000000-0000-7000-8000-000000000000 1 ") + kDigits}) {
    std::vector<std::string> command = {"HSET", keys.unique};
    for (const char* name : {"later", "ready", "retry", "held", "over", "back", "dead", "garb", "none"}) {
      command.insert(command.end(), {std::string("key ") + name, entry});
    }
    all.push_back({"unique = " + entry.substr(0, 40), "", {command}});
  }
  for (const std::string score : {"inf", "-inf", "1e300"}) {
    all.push_back({"wake = " + score, "", {{"DEL", keys.wake}, {"ZADD", keys.wake, score, "w", score, "x"}}});
  }
  return all;
}

// Texts that are no ids (short, long, with odd characters), in every key where moves find ids.
std::vector<Damage> foreign_ids(const Keys& keys) {
  std::vector<Damage> all;
  for (const std::string& id : {std::string(), std::string("x"), std::string("../../etc/passwd"), std::string("a b 1"),
                                std::string(36, 'z'), std::string(36, ' '), std::string(2000, 'a'),
                                std::string("00000000-0000-7000-8000-0000000000AA"), std::string("\0\n\x1b", 3)}) {
    const std::vector<std::string> count = {"HSET", keys.count, id, "3"};
    const std::vector<std::string> body = {"SET", keys.bodies + id, "x"};
    for (const std::string& list : {keys.ready, keys.retry}) {
      all.push_back({id + " in " + list, id, {{"RPUSH", list, id}, count, body}});
      all.push_back({id + " in " + list + ", without a count", id, {{"RPUSH", list, id}}});
    }
    for (const std::string& zset : {keys.pending, keys.unack, keys.dead}) {
      all.push_back({id + " in " + zset, id, {{"ZADD", zset, "1", id}, count, body}});
    }
    all.push_back({id + " in garbage", id, {{"SADD", keys.garbage, id}}});
  }
  return all;
}

// The other scripts: queries, forget, layout, pause, register_consumer, unlock, and the integrity check. They read the
// same fields as the moves.
const std::vector<AnyMove>& other_scripts() {
  static const auto show = [](Scene& scene, const auto& ask) {
    redis::Pipeline pipeline(scene.connection());
    const auto answer = ask(pipeline);
    pipeline.run();
    answer.get();
  };
  static const std::vector<std::string> names = {"due",  "later", "ready", "retry", "held", "last",
                                                 "over", "overl", "go",    "back",  "dead", "garb"};
  static const std::vector<AnyMove> all = {
      {"counts", [](Scene& s) { show(s, [&](Pipeline& p) { return counts(p, s.keys()); }); }},
      {"find",
       [](Scene& s) {
         for (const auto& name : names) show(s, [&](Pipeline& p) { return find(p, s.keys(), s.id(name)); });
       }},
      {"page",
       [](Scene& s) {
         for (const auto* key : {&s.keys().pending, &s.keys().unack, &s.keys().dead}) {
           show(s, [&](Pipeline& p) { return page_of_zset(p, s.keys(), *key, {}, 200); });
         }
         for (const auto* key : {&s.keys().ready, &s.keys().retry}) {
           show(s, [&](Pipeline& p) { return page_of_list(p, s.keys(), *key, {}, 200); });
         }
       }},
      {"forget", [](Scene& s) { show(s, [&](Pipeline& p) { return s.moves().forget(p); }); }},
      {"layout", [](Scene& s) { show(s, [&](Pipeline& p) {
                                  return copy_layout(p, s.keys(), {1, 4, 8});
                                }); }},
      {"pause",
       [](Scene& s) {
         PauseState state;
         state.generation = 5;
         show(s, [&](Pipeline& p) { return copy_pause(p, s.keys(), state); });
       }},
      {"limits", [](Scene& s) { show(s, [&](Pipeline& p) { return read_limits(p, s.keys()); }); }},
      {"register_consumer",
       [](Scene& s) {
         show(s, [&](Pipeline& p) { return register_consumer(p, s.keys(), "me", "host=x", milliseconds(60'000)); });
       }},
      {"read_schedules",
       [](Scene& s) {
         show(s, [&](Pipeline& p) { return s.moves().due_schedules(p, 100, 0); });
         show(s, [&](Pipeline& p) { return s.moves().read_schedules(p, {"tick", "none"}); });
       }},
      {"unlock", [](Scene& s) { show(s, [&](Pipeline& p) { return s.moves().unlock(p, "another"); }); }},
      {"check", [](Scene& s) {
         const std::vector<std::string> ids = s.ids(names);
         redis::Pipeline pipeline(s.connection());
         const auto seen = classify(pipeline, s.keys(), ids);
         pipeline.run();
         const std::vector<std::string> words = seen.get();
         REQUIRE(words.size() == ids.size());
         std::vector<Candidate> candidates;
         for (std::size_t i = 0; i < ids.size(); ++i) {
           if (words[i] != "." && words[i].front() != 'W') candidates.emplace_back(ids[i], words[i].front());
         }
         if (!candidates.empty()) show(s, [&](Pipeline& p) { return repair(p, s.keys(), candidates, 3); });
       }}};
  return all;
}

std::vector<AnyMove> all_scripts() {
  std::vector<AnyMove> all = test::all_moves();
  all.insert(all.end(), other_scripts().begin(), other_scripts().end());
  return all;
}

// Whether a move chooses among the messages: then damage to one may change which others it takes.
bool chooses(const std::string& move) {
  return move == "purge pending" || move == "purge ready" || move == "purge retry" || move == "purge dead" ||
         move.rfind("send_keyed", 0) == 0 || move == "reschedule by key" || move == "restore with keys" ||
         move == "restore replacing with keys" || move == "redrive with a key" ||
         move == "ready2unack one possible poison message" || move == "pending2unack";
}

// Runs one move on a queue without damage, and then with each kind of damage.
class DamageTest {
 public:
  explicit DamageTest(const AnyMove& move) : move_(move), saved_(prepared(scene_, move)) {
    first_ = saved_.cells();
    REQUIRE(test::refusal([&] { move_.run(scene_); }) == "");
    whole_ = saved_.cells();
  }

  // The ids whose cells the move changes. Damage to others shows little.
  std::set<std::string> touched() {
    std::set<std::string> ids;
    for (const auto* one : {&first_, &whole_}) {
      const Cells& other = one == &first_ ? whole_ : first_;
      for (const auto& [at, value] : *one) {
        const auto found = other.find(at);
        if (at.second.size() == 36 && (found == other.end() || !alike(found->second, value))) ids.insert(at.second);
      }
    }
    return ids;
  }

  const Cells& first() const { return first_; }
  const Keys& keys() const { return scene_.keys(); }

  void check(const Damage& damage) {
    CAPTURE(move_.name);
    CAPTURE(damage.what);
    CAPTURE(damage.id);
    saved_.restore();
    for (const auto& command : damage.commands) REQUIRE(!scene_.cmd(command).error());
    CHECK(test::refusal([&] { move_.run(scene_); }) == "");
    const Cells after = saved_.cells();
    std::set<std::pair<std::string, std::string>> all;
    for (const auto& cell : whole_) all.insert(cell.first);
    for (const auto& cell : after) all.insert(cell.first);
    for (const auto& at : all) {
      const std::string place = at.first;
      const std::string id = at.second;
      if (place == "stats" || place == "wake" || place == "watch" || place == "consumers" || id == damage.id) continue;
      if (place == "unique") continue;
      if (place == "limits" && id == "full") continue;  // a hint, which the message beside may have deleted
      const auto is = after.find(at);
      const std::string value = is == after.end() ? "-" : is->second;
      const auto as = [&](const Cells& cells) {
        const auto found = cells.find(at);
        return alike(found == cells.end() ? "-" : found->second, value);
      };
      CHECK_MESSAGE((chooses(move_.name) || as(whole_)), place << " " << id << ": " << value);
    }
    for (const auto& cell : whole_) {
      const std::string id = cell.first.second;
      if (cell.first.first == "msg" && id.size() == 36) CHECK_MESSAGE(is_somewhere(after, id), id << ": lost");
    }
  }

 private:
  static Scene& prepared(Scene& scene, const AnyMove& move) {
    test::put_messages_for(scene, move);
    return scene;
  }

  static bool is_somewhere(const Cells& cells, const std::string& id) {
    const auto has = [&](const char* place) { return cells.count({place, id}) > 0; };
    const bool placed = has("pending") || has("unack") || has("ready") || has("retry");
    return has("msg") && (has("dead") || has("garbage") || (placed && (has("retry:cnt") || has("unack"))));
  }

  const AnyMove& move_;
  Scene scene_{quick()};
  SavedQueue saved_;
  Cells first_, whole_;

  static Scene::Setup quick() {
    Scene::Setup setup;
    setup.recorded = false;
    static const PrivateServer server;
    setup.socket = server.socket();
    return setup;
  }
};

TEST_CASE("hostile: these tests run every script") {
  std::set<std::string> tried;
  for (const AnyMove& one : all_scripts()) tried.insert(test::script_of(one.name));
  std::set<std::string> files;
  for (const auto* script : scripts::all()) files.insert(std::string(script->name));
  CHECK((tried == files));
}

TEST_CASE("hostile: damage to a field of one message fails no move, and changes no move of the other messages") {
  for (const AnyMove& one : all_scripts()) {
    DamageTest damage_test(one);
    std::set<std::string> ids = damage_test.touched();
    if (ids.empty()) {  // a query: all ids
      for (const auto& [at, value] : damage_test.first()) {
        if (at.second.size() == 36) ids.insert(at.second);
      }
    }
    for (const std::string& id : ids) {
      for (const Damage& damage : damages_to(damage_test.keys(), id, damage_test.first())) damage_test.check(damage);
    }
  }
}

TEST_CASE("hostile: damage to statistics and hints fails no move, and leaves no move half done") {
  for (const AnyMove& one : all_scripts()) {
    DamageTest damage_test(one);
    for (const Damage& damage : damages_beside(damage_test.keys())) damage_test.check(damage);
  }
}

TEST_CASE("hostile: foreign ids in any key fail no move, and change no move of a message") {
  for (const AnyMove& one : all_scripts()) {
    DamageTest damage_test(one);
    for (const Damage& damage : foreign_ids(damage_test.keys())) damage_test.check(damage);
  }
}

}  // namespace
}  // namespace delayqueue::store
