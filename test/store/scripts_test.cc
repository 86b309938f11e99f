#include "support/test.h"

#include <regex>

#include "store/scripts.h"
#include "support/all_moves.h"
#include "support/paths.h"

namespace delayqueue::store {
namespace {

using redis::Script;

const std::string kFolder = test::source_path("scripts/lua");

std::string file_of(const Script& script) {
  std::ifstream file(kFolder + "/" + std::string(script.name) + ".lua", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Parts {
  std::string header;  // the comment at the start
  std::string code;    // the rest, without comments
};

Parts parts_of(const Script& script) {
  Parts parts;
  bool in_header = true;
  const std::string body(script.body);
  for (std::size_t from = 0; from < body.size();) {
    const std::size_t end = std::min(body.find('\n', from), body.size());
    const std::string line = body.substr(from, end - from);
    in_header = in_header && line.substr(0, 2) == "--";
    (in_header ? parts.header : parts.code) += (in_header ? line : line.substr(0, line.find("--"))) + "\n";
    from = end + 1;
  }
  return parts;
}

std::vector<std::smatch> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return {std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()};
}

// Indices of KEYS or ARGV: the single ones, and the first index of a part of any length (0: there is none).
struct Indices {
  std::set<int> fixed;
  int rest = 0;
};

bool operator==(const Indices& a, const Indices& b) { return a.fixed == b.fixed && a.rest == b.rest; }

std::string to_text(const Indices& indices) {
  std::string text;
  for (const int n : indices.fixed) text += std::to_string(n) + " ";
  return text + (indices.rest == 0 ? "" : "and from " + std::to_string(indices.rest));
}

Indices documented(const std::string& header, const std::string& name) {
  Indices indices;
  for (const auto& match : matches(header, "(?:-- |  )" + name + "\\[(\\d+)(\\.\\.\\.)?\\]")) {
    if (match[2].matched) {
      indices.rest = std::stoi(match[1]);
    } else {
      indices.fixed.insert(std::stoi(match[1]));
    }
  }
  return indices;
}

// "8 + i" and "3 * i - 1" count as their value at i = 1; "i" counts as the start of its loop.
Indices used(const std::string& code, const std::string& name) {
  Indices indices;
  std::set<int> rest;
  for (const auto& match : matches(code, name + "\\[([^\\]]+)\\]")) {
    const std::string at = match[1];
    std::smatch m;
    if (std::regex_match(at, std::regex("\\d+"))) {
      indices.fixed.insert(std::stoi(at));
    } else if (std::regex_match(at, m, std::regex("(\\d+) \\+ (?:messages \\+ )?i|i \\+ (\\d+)"))) {
      rest.insert(std::stoi(m[1].matched ? m[1] : m[2]) + 1);
    } else if (std::regex_match(at, m, std::regex("(\\d+) \\* i(?: ([+-]) (\\d+))?"))) {
      const int offset = m[3].matched ? std::stoi(m[3]) : 0;
      rest.insert(std::stoi(m[1]) + (m[2] == "-" ? -offset : offset));
    } else {
      const auto loops = matches(code, "for " + at + " = (\\d+), #" + name);
      CHECK_MESSAGE(loops.size() == 1, name << "[" << at << "] is not understood");
      if (!loops.empty()) rest.insert(std::stoi(loops[0][1]));
    }
  }
  for (const auto& match : matches(code, "unpack\\(" + name + "(?:, (\\d+))?\\)")) {
    rest.insert(match[1].matched ? std::stoi(match[1]) : 1);
  }
  if (!rest.empty()) indices.rest = *rest.begin();
  return indices;
}

TEST_CASE("scripts: each is built in unchanged, under the name of its file; there are no others") {
  std::set<std::string> built_in;
  for (const Script* script : scripts::all()) {
    CHECK((file_of(*script) == script->body));
    built_in.insert(std::string(script->name));
  }
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) files.insert(entry.path().stem().string());
  CHECK((built_in == files));
}

TEST_CASE("scripts: the SHA1 of each is the one that Redis computes") {
  for (const Script* script : scripts::all()) {
    CHECK(test::redis().cmd({"SCRIPT", "LOAD", std::string(script->body)}) == script->sha1);
  }
}

TEST_CASE("scripts: each header begins with the name and a summary, and documents the answer") {
  for (const Script* script : scripts::all()) {
    CAPTURE(std::string(script->name));
    const auto header = parts_of(*script).header;
    CHECK(header.find("-- " + std::string(script->name) + ": ") == 0);
    CHECK(header.find("-- Returns ") != std::string::npos);
  }
}

TEST_CASE("scripts: the indices of KEYS and ARGV in the code are those in the header") {
  for (const Script* script : scripts::all()) {
    const Parts parts = parts_of(*script);
    for (const std::string name : {"KEYS", "ARGV"}) {
      CAPTURE(std::string(script->name));
      CAPTURE(name);
      const Indices in_header = documented(parts.header, name);
      const Indices in_code = used(parts.code, name);
      CHECK_MESSAGE((in_header == in_code), "documented: " << to_text(in_header) << "; used: " << to_text(in_code));
    }
    CHECK(documented(parts.header, "KEYS").fixed.count(1) == 1);
  }
}

TEST_CASE("scripts: every command is a literal, for proxies to see; no call leaves the slot or ignores errors") {
  for (const Script* script : scripts::all()) {
    CAPTURE(std::string(script->name));
    const std::string code = parts_of(*script).code;
    const auto calls = matches(code, "redis\\.p?call");
    CHECK(calls.size() > 0);
    CHECK(matches(code, "redis\\.p?call\\('[A-Z]+'[,)]").size() == calls.size());
    // pcall is only for hints and statistics, and for reads that decide about hints: no move depends on them. send and
    // restore also delete staged payloads by it, and those of a RENAME that was refused, before it returns that error.
    // pause reads the reason by it, whose key another program may have written. counts reads by it whether the probe is
    // still in ready. ready2unack and pending2unack call by it what they write after the leases: if Redis refuses that,
    // they take the leases back, since their ends would spend retries, and return the error.
    const std::string hints =
        "redis\\.pcall\\('[A-Z]+', (?:wake|watch|stats)[,)]|redis\\.pcall\\('ZRANGE', pending, (?:0, 0|rank)";
    const std::string staged =
        "redis\\.pcall\\('UNLINK', unpack\\(KEYS, 1[23]|redis\\.pcall\\('(?:RENAME|PEXPIRE)', bodies\\[i \\+ 1\\]";
    const std::string reason = "redis\\.pcall\\('GETRANGE', paused";
    const std::string probe = "redis\\.pcall\\('HMGET', (?:count|attempts), probe";
    const std::string leased =
        "redis\\.pcall\\('HSET', attempts, unpack\\(again\\)|redis\\.pcall\\('ZREMRANGEBYRANK', pending, 0, #ids - 1";
    const bool leases = script->name == "ready2unack" || script->name == "pending2unack";
    const std::string allowed = script->name == "send" || script->name == "restore" ? hints + '|' + staged
                                : script->name == "pause"                           ? hints + '|' + reason
                                : script->name == "counts"                          ? hints + '|' + probe
                                : leases                                            ? hints + '|' + leased
                                                                                    : hints;
    const std::string take_back =
        "redis\\.call\\('ZREM', unack, unpack\\(redis\\.call\\('ZRANGEBYSCORE', unack, score, score";
    CHECK(matches(code, take_back).size() == (leases ? 1 : 0));
    CHECK(matches(code, allowed).size() == matches(code, "redis\\.pcall").size());
    for (const char* word : {"PUBLISH", "loadstring", "'EVAL", "'KEYS'", "'SCAN'", "redis.log"}) {
      CHECK(code.find(word) == std::string::npos);
    }
  }
}

TEST_CASE("scripts: every key comes from KEYS: no command gets a key that the script has built") {
  for (const Script* script : scripts::all()) {
    CAPTURE(std::string(script->name));
    const std::string code = parts_of(*script).code;
    for (const auto& match : matches(code, "redis\\.p?call\\('([A-Z]+)', ([^,)]+)")) {
      const std::string first = match[2];
      CAPTURE(first);
      CHECK(first.find("..") == std::string::npos);
      CHECK(first.find('\'') == std::string::npos);
    }
  }
}

TEST_CASE("scripts: the clock is read at most once") {
  for (const Script* script : scripts::all()) {
    CAPTURE(std::string(script->name));
    CHECK(matches(parts_of(*script).code, "'TIME'").size() <= 1);
  }
}

TEST_CASE("scripts: a server that has not loaded a script gets its body within the call") {
  test::Scene scene;
  const auto flush = [&] { CHECK(scene.cmd({"SCRIPT", "FLUSH"}) == "OK"); };
  const auto known = [&](const Script& script) {
    return scene.cmd({"SCRIPT", "EXISTS", std::string(script.sha1)}).strings().at(0) == "1";
  };
  flush();
  CHECK(scene.run(&Store::cancel, scene.id(".p1")) == "pending");
  CHECK(scene.changes() == "msg -.p1; pending -.p1; retry:cnt -.p1; stats cancelled+1; ");
  CHECK(known(scripts::cancel));
  CHECK_FALSE(known(scripts::ack));
}

TEST_CASE("scripts: a pipeline sends again only scripts that are not loaded, and each answer is that of its request") {
  test::Scene scene;
  test::put_messages_for_all_moves(scene);
  CHECK(scene.cmd({"SCRIPT", "FLUSH"}) == "OK");
  scene.cmd({"SCRIPT", "LOAD", std::string(scripts::reschedule.body)});
  redis::Pipeline pipeline(scene.connection());
  const Store& store = scene.store();
  const auto first = store.cancel(pipeline, scene.id(".p1"));
  pipeline.command("INCR").key(scene.keys().base + ":counter");
  const auto moved = store.reschedule(pipeline, scene.id(".p2"), {5min, 0});
  const auto second = store.cancel(pipeline, scene.id("dead"));
  const auto third = store.cancel(pipeline, scene.id(".p1"));
  const auto found = find(pipeline, scene.keys(), scene.id("held"));
  pipeline.command("INCR").key(scene.keys().base + ":counter");
  pipeline.run();
  CHECK(first.get() == "pending");
  CHECK(pipeline.reply(1).integer() == 1);
  CHECK(moved.get() == "moved");
  CHECK(second.get() == "dead");
  CHECK(third.get() == "unknown");
  CHECK(found.get().state == "unack");
  CHECK(pipeline.reply(6).integer() == 2);
}

}  // namespace
}  // namespace delayqueue::store
