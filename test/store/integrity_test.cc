#include "support/test.h"

#include "store/integrity.h"
#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::Scene;
using Words = std::vector<std::string>;

constexpr char kVerdicts[] = "MONBTLCKSVWEGA";

Words split(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::string score_from_now(Scene& scene, std::int64_t from_now_us) {
  const std::string digits = std::to_string(scene.now_us() + from_now_us);
  return digits.substr(0, digits.size() - 6) + "." + digits.substr(digits.size() - 6);
}

// Stores these parts of an id with plain commands.
void store_of(Scene& scene, const std::string& id, const Words& parts) {
  const Keys& k = scene.keys();
  const auto far = [&](std::int64_t s) { return std::to_string(scene.now_us() / 1'000'000 + s); };
  const std::pair<const char*, Words> commands[] = {
      {"pending", {"ZADD", k.pending, score_from_now(scene, 300'000'000), id}},
      {"due", {"ZADD", k.pending, score_from_now(scene, -300'000'000), id}},
      {"held", {"ZADD", k.unack, far(60) + ".123457", id}},
      {"over", {"ZADD", k.unack, far(-60) + ".123457", id}},
      {"backoff", {"ZADD", k.unack, far(60) + ".123", id}},
      {"go", {"ZADD", k.unack, far(60), id}},
      {"go-late", {"ZADD", k.unack, far(-60), id}},
      {"go-long", {"ZADD", k.unack, far(7200), id}},
      {"year", {"ZADD", k.unack, far(365 * 86400) + ".123457", id}},
      {"ms", {"ZADD", k.unack, far(0) + "123", id}},
      {"inf", {"ZADD", k.unack, "inf", id}},
      {"dead", {"ZADD", k.dead, score_from_now(scene, -60'000'000), id}},
      {"count", {"HSET", k.count, id, "3"}},
      {"body", {"SET", k.bodies + id, "payload"}},
      {"hash", {"HSET", k.bodies + id, "some", "thing"}},
      {"garbage", {"SADD", k.garbage, id}},
      {"ready", {"LPUSH", k.ready, id}},
      {"retry", {"LPUSH", k.retry, id}},
      {"attempts", {"HSET", k.attempts, id, "2"}},
      {"reason", {"HSET", k.reason, id, "why"}},
      {"headers", {"HSET", k.headers, id, "\1k\1v"}},
      {"keys", {"HSET", k.keys, id, "key"}}};
  for (const std::string& part : parts) {
    const auto command =
        std::find_if(std::begin(commands), std::end(commands), [&](const auto& known) { return known.first == part; });
    REQUIRE(command != std::end(commands));
    REQUIRE(!scene.cmd(command->second).error());
  }
}

// The parts that are stored of an id.
std::string stored(Scene& scene, const std::string& id) {
  const Keys& k = scene.keys();
  std::string parts;
  const auto add = [&](const char* part, bool there) {
    parts += there ? (parts.empty() ? "" : " ") + std::string(part) : "";
  };
  add("pending", !scene.cmd({"ZSCORE", k.pending, id}).nil());
  add("unack", !scene.cmd({"ZSCORE", k.unack, id}).nil());
  add("dead", !scene.cmd({"ZSCORE", k.dead, id}).nil());
  add("count", scene.cmd({"HEXISTS", k.count, id}) == 1);
  add("body", scene.cmd({"EXISTS", k.bodies + id}) == 1);
  add("garbage", scene.cmd({"SISMEMBER", k.garbage, id}) == 1);
  add("ready", !scene.cmd({"LPOS", k.ready, id}).nil());
  add("retry", !scene.cmd({"LPOS", k.retry, id}).nil());
  add("attempts", scene.cmd({"HEXISTS", k.attempts, id}) == 1);
  add("reason", scene.cmd({"HEXISTS", k.reason, id}) == 1);
  add("headers", scene.cmd({"HEXISTS", k.headers, id}) == 1);
  add("keys", scene.cmd({"HEXISTS", k.keys, id}) == 1);
  return parts;
}

template <class Ask>
Words ask(Scene& scene, Ask ask) {
  Pipeline pipeline(scene.connection());
  const auto answer = ask(pipeline);
  pipeline.run();
  return answer.get();
}

Words classify(Scene& scene, const Words& ids) {
  const auto before = scene.state();
  const Words words = ask(scene, [&](Pipeline& pipeline) { return store::classify(pipeline, scene.keys(), ids); });
  CHECK((scene.state() == before));
  return words;
}

Words confirm(Scene& scene, const std::vector<Candidate>& candidates) {
  const auto before = scene.state();
  const Words words =
      ask(scene, [&](Pipeline& pipeline) { return store::confirm(pipeline, scene.keys(), candidates); });
  CHECK((scene.state() == before));
  return words;
}

Words repair(Scene& scene, const std::vector<Candidate>& candidates) {
  return ask(scene, [&](Pipeline& pipeline) { return store::repair(pipeline, scene.keys(), candidates, 5); });
}

struct Row {
  const char* before;
  const char* verdict;
  const char* after = "";  // after a repair; empty: unchanged
};

constexpr Row kHealthy[] = {
    {"pending count body", "."},
    {"pending count body attempts reason", "."},
    {"pending count body headers", "."},
    {"pending count body ready", "."},
    {"due count body retry", "."},
    {"held count body", "."},
    {"held count body ready retry", "."},
    {"over count body", "."},
    {"backoff count body reason", "."},
    {"go count body", "."},
    {"year count body", "."},
    {"held body attempts", "."},
    {"held body headers", "."},
    {"held count", "."},
    {"held", "."},
    {"over", "."},
    {"backoff count", "."},
    {"go", "."},
    {"go pending count body", "."},
    {"go-late pending count body", "."},
    {"go dead body", "."},
    {"go-late dead body", "."},
    {"dead body attempts reason", "."},
    {"dead body headers", "."},
    {"dead body ready", "."},
    {"ready", "."},
    {"retry", "."},
    {"", "."},
};

constexpr Row kDamaged[] = {
    {"count body", "Mcb", "count body ready"},
    {"count body attempts", "Mcb", "count body ready attempts"},
    {"body", "Ob", "count body ready"},
    {"body ready", "Ob", "count body ready"},
    {"body reason", "Ob", "count body ready reason"},
    {"body headers", "Ob", "count body ready headers"},
    {"pending body", "Npb", "pending count body"},
    {"due body", "Npb", "pending count body"},
    {"pending count", "Bpc", "garbage"},
    {"pending count attempts reason", "Bpc", "garbage"},
    {"pending", "Ep", "garbage"},
    {"due count", "Epc", "garbage"},
    {"dead", "Ed", "garbage"},
    {"dead attempts reason", "Ed", "garbage"},
    {"dead headers", "Ed", "garbage"},
    {"dead count body", "Kdcb", "dead body"},
    {"count", "Cc", "garbage"},
    {"count attempts reason", "Cc", "garbage"},
    {"pending dead count body", "Tpdcb", "pending count body"},
    {"pending dead body", "Tpdb", "dead body"},
    {"held dead count body", "Tudcb", "unack count body"},
    {"held dead body", "Tudb", "dead body"},
    {"go-long dead body", "Tudb", "dead body"},
    {"pending held count body", "Tpucb", "pending count body"},
    {"pending over count body", "Tpucb", "pending count body"},
    {"due held count body", "Tpucb", "unack count body"},
    {"pending go-long count body", "Tpucb", "unack count body"},
    {"pending held dead count body", "Tpudcb", "pending count body"},
    {"due go dead count body", "Tpudcb", "unack count body"},
    {"pending held dead body", "Tpudb", "dead body"},
    {"pending held body", "Tpub", "pending body"},
    {"ms count body", "Lucb", "count body ready"},
    {"inf count body attempts", "Lucb", "count body ready attempts"},
    {"inf body", "Lub", "count body ready"},
    {"inf pending count body", "Lpucb", "pending count body"},
    {"inf dead body", "Ludb", "dead body"},
    {"inf count", "Luc", "garbage"},
    {"ms", "Lu", "garbage"},
    {"year", "Lu", "garbage"},
    {"garbage", "G"},
    {"garbage body", "Gb"},
    {"garbage pending count body", "Gpcb"},
    {"attempts", "Aa", " "},
    {"reason", "A", " "},
    {"headers", "Hh", " "},
    {"headers ready", "Hh", "ready"},
    {"keys", "H", " "},
    {"headers keys", "Hh", " "},
    {"attempts reason headers", "Aa", " "},
    {"attempts reason ready", "Aa", "ready"},
    {"hash count pending", "Wpc"},
    {"hash", "W"},
};

TEST_CASE("check: the verdict on each combination, and what a repair makes of it") {
  for (const bool healthy : {true, false}) {
    for (const Row* row = healthy ? std::begin(kHealthy) : std::begin(kDamaged);
         row != (healthy ? std::end(kHealthy) : std::end(kDamaged)); ++row) {
      CAPTURE(row->before);
      Scene scene;
      const std::string id = scene.id("x");
      store_of(scene, id, split(row->before));
      const std::string before = stored(scene, id);
      CHECK(classify(scene, {id}) == Words{row->verdict});
      for (const char verdict : std::string(kVerdicts)) {
        if (verdict == row->verdict[0] || (verdict == 'E' && row->verdict[0] == 'C')) continue;
        CAPTURE(verdict);
        CHECK(confirm(scene, {{id, verdict}}) == Words{"."});
        const auto state = scene.state();
        CHECK(repair(scene, {{id, verdict}}) == Words{"."});
        CHECK((scene.state() == state));
      }
      if (row->verdict[0] == '.') continue;
      CHECK(confirm(scene, {{id, row->verdict[0]}}) == Words{row->verdict});
      CHECK(repair(scene, {{id, row->verdict[0]}}) == Words{row->verdict});
      const std::string after = row->after;
      CHECK(stored(scene, id) == (after.empty() ? before : after == " " ? "" : after));
      CHECK(scene.lost().empty());
    }
  }
}

TEST_CASE("check: an id in a list is healthy with a body and expired without one; else it is stranded or left over") {
  for (const char* list : {"ready", "retry"}) {
    Scene scene;
    store_of(scene, scene.id("a"), {"count", "body", list});
    store_of(scene, scene.id("b"), {"count", list});
    CHECK(classify(scene, scene.ids({"a", "b"})) == Words{"Mcb", "Cc"});
    CHECK(confirm(scene, {{scene.id("a"), 'M'}, {scene.id("b"), 'C'}}) == Words{".", "."});
    CHECK(repair(scene, {{scene.id("a"), 'M'}, {scene.id("b"), 'E'}}) == Words{".", "Ec"});
    CHECK(stored(scene, scene.id("a")) == std::string("count body ") + list);
    CHECK(stored(scene, scene.id("b")) == std::string("garbage ") + list);
  }
}

TEST_CASE("check: confirm searches both ends of both lists, as far as one call allows") {
  for (const char* list : {"ready", "retry"}) {
    Scene scene;
    const std::string& key = std::string(list) == "ready" ? scene.keys().ready : scene.keys().retry;
    scene.cmd({"DEL", scene.keys().ready, scene.keys().retry});
    const auto fill = [&](const std::string& name, int count) {
      Words push = {"RPUSH", key};
      for (int i = 0; i < count; ++i) push.push_back("filler");
      store_of(scene, scene.id(name), {"count", "body"});
      push.push_back(scene.id(name));
      scene.cmd(push);
    };
    fill("left", 9'999), fill("mid", 2'000), fill("right", 2'000);
    Words tail = {"RPUSH", key};
    tail.resize(2 + 9'999, "filler");
    scene.cmd(tail);
    CHECK(confirm(scene, {{scene.id("left"), 'M'}}) == Words{"."});
    CHECK(confirm(scene, {{scene.id("right"), 'M'}}) == Words{"."});
    CHECK(confirm(scene, {{scene.id("mid"), 'M'}}) == Words{"Mcb"});
  }
}

TEST_CASE("check: a repair removes foreign ids; a body with a foreign id, and its other keys, are not changed") {
  const std::string names[] = {"hello",
                               "",
                               "two words",
                               std::string("\0\xff\r\n", 4),
                               std::string(1000, 'x'),
                               "00000000-0000-0000-0000-00000000000",
                               "0197F3A4-5B6C-7D8E-9F01-23456789ABCD"};
  for (const std::string& id : names) {
    CAPTURE(id);
    Scene scene;
    store_of(scene, id, {"pending", "held", "dead", "count", "attempts", "ready"});
    CHECK(classify(scene, {id}) == Words{"Spudc"});
    CHECK(repair(scene, {{id, 'S'}}) == Words{"Spudc"});
    CHECK(stored(scene, id) == "ready");
    store_of(scene, id, {"pending", "count", "body"});
    CHECK(classify(scene, {id}) == Words{"Vpcb"});
    const auto state = scene.state();
    CHECK(repair(scene, {{id, 'V'}}) == Words{"Vpcb"});
    CHECK((scene.state() == state));
  }
}

// Every possible combination of parts.
TEST_CASE("check: repeated repairs leave no finding, delete no body, and each body can be delivered or inspected") {
  const Words unacks = {"", "held", "over", "backoff", "go", "go-long", "inf"};
  std::size_t combinations = 0;
  Scene scene;
  for (int bits = 0; bits < 64; ++bits) {
    for (const char* pending : {"", "pending", "due"}) {
      for (const std::string& unack : unacks) {
        const std::string id = scene.id("c" + std::to_string(combinations++));
        std::string before = std::string(pending) + ' ' + unack;
        int i = 0;
        for (const char* part : {"count", "body", "dead", "garbage", "ready", "attempts"}) {
          if ((bits >> i++ & 1) != 0) before += std::string(" ") + part;
        }
        store_of(scene, id, split(before));
        const bool body = (bits & 2) != 0, garbage = (bits & 8) != 0;
        const bool cancelled = (bits & 1) == 0 && !unack.empty() && unack != "inf";
        Words verdict;
        for (int round = 0; round < 4; ++round) {
          verdict = ask(scene, [&](Pipeline& pipeline) { return store::classify(pipeline, scene.keys(), {id}); });
          if (verdict[0] != ".") repair(scene, {{id, verdict[0][0]}});
        }
        const std::string after = stored(scene, id);
        CAPTURE(before);
        CAPTURE(after);
        const auto has = [&](const char* part) { return after.find(part) != std::string::npos; };
        const bool settled = verdict[0] == "." || verdict[0][0] == 'G' || (has("ready") && has("count"));
        CHECK(settled);
        CHECK(has("body") == body);
        if (!body || garbage) continue;
        const bool placed = has("dead") || (has("count") && (has("pending") || has("unack") || has("ready")));
        CHECK((placed || (cancelled && has("unack"))));
      }
    }
  }
  CHECK(combinations == 64 * 3 * 7);
}

}  // namespace
}  // namespace delayqueue::store
