#include "support/test.h"

#include <regex>

#include "store/script_calls.h"
#include "support/all_moves.h"
#include "support/paths.h"

namespace delayqueue::store {
namespace {

using redis::Script;

const std::string kFolder = test::source_path("scripts/lua");

std::string file_of(const std::string& name) {
  std::ifstream file(kFolder + "/" + name + ".lua", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return std::regex_replace(text, std::regex("\n--!  +"), " ");  // a line of the manifest goes on in the next one
}

struct Parts {
  std::string header;  // the comment at the start
  std::string code;    // the rest, without comments
};

Parts parts_of(const std::string& body) {
  Parts parts;
  bool in_header = true;
  for (std::size_t from = 0; from < body.size();) {
    const std::size_t end = std::min(body.find('\n', from), body.size());
    const std::string line = body.substr(from, end - from);
    in_header = in_header && line.substr(0, 2) == "--";
    (in_header ? parts.header : parts.code) += (in_header ? line : line.substr(0, line.find("--"))) + "\n";
    from = end + 1;
  }
  return parts;
}

Parts parts_of(const Script& script) { return parts_of(std::string(script.body)); }

std::vector<std::smatch> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return {std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()};
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (const auto& match : matches(text, "[a-z_0-9]+")) words.push_back(match[0]);
  return words;
}

bool has_word(const std::string& code, const std::string& word) { return !matches(code, "\\b" + word + "\\b").empty(); }

TEST_CASE("scripts: each is built in, under the name of its file; there are no others") {
  std::set<std::string> built_in;
  for (const Script* script : scripts::all()) {
    CHECK(script->body.find("--!") == std::string_view::npos);
    built_in.insert(std::string(script->name));
  }
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".lua") files.insert(entry.path().stem().string());
  }
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

// The parts that a script uses.
std::vector<std::string> used_by(const Parts& source) {
  const auto lines = matches(source.header, "\n--! use ([^\n]*)");
  return lines.empty() ? std::vector<std::string>() : words_of(lines[0][1]);
}

TEST_CASE("scripts: what is included is used by several of them") {
  std::map<std::string, int> uses;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder + "/include")) {
    uses[entry.path().stem().string()] = 0;
  }
  for (const Script* script : scripts::all()) {
    for (const std::string& part : used_by(parts_of(file_of(std::string(script->name))))) ++uses[part];
  }
  CHECK(uses.size() > 5);
  for (const auto& use : uses) CHECK_MESSAGE(use.second > 1, use.first);
}

TEST_CASE("scripts: each names its keys and arguments in a manifest, uses all of them, and no index") {
  for (const Script* script : scripts::all()) {
    CAPTURE(std::string(script->name));
    Parts source = parts_of(file_of(std::string(script->name)));
    for (const std::string& part : used_by(source)) source.code += parts_of(file_of("include/" + part)).code;
    CHECK(matches(source.code, "(?:KEYS|ARGV)(?!\\.[a-z])").empty());
    const auto manifests = matches(source.header, "\n--! (keys|args) ([^\n]*)");
    REQUIRE(manifests.size() > 0);
    CHECK(manifests[0][1] == "keys");
    for (const auto& line : manifests) {
      const std::string names = line[2], fixed = names.substr(0, names.find('|'));
      const std::string array = line[1] == "keys" ? "KEYS\\." : "ARGV\\.";
      for (const std::string& name : words_of(fixed))
        CHECK(has_word(source.code, (line[1] == "keys" ? "" : array) + name));
      for (const std::string& name : words_of(names.substr(fixed.size()))) CHECK(has_word(source.code, array + name));
    }
  }
}

TEST_CASE("scripts: a name of a manifest is the place of its key or argument") {
  const auto body_of = [](const Script& script) { return std::string(script.body); };
  const std::string nack = body_of(scripts::nack), restore = body_of(scripts::restore), send = body_of(scripts::send);
  CHECK(nack.find("\n-- KEYS[2] count\n") != std::string::npos);
  CHECK(nack.find("\n-- KEYS[11...] for each: body\n") != std::string::npos);
  CHECK(nack.find("\n-- ARGV[2...] for each: receipt, delay, reason\n") != std::string::npos);
  CHECK(nack.find("\nlocal unack, count, attempts, reason, dead, garbage, stats, running, limits, wake = KEYS[1], "
                  "KEYS[2], KEYS[3], ") != std::string::npos);
  CHECK(nack.find("local receipt, delay, failure = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]\n") !=
        std::string::npos);
  CHECK(restore.find("local messages = ((#ARGV - 1) / 9)\n") != std::string::npos);
  CHECK(send.find("staged and KEYS[13 + messages + i] or ARGV[5 + i]\n") != std::string::npos);
  CHECK(body_of(scripts::send_new).find("local ids = {unpack(ARGV, 6, 5 + messages)}\n") != std::string::npos);
}

TEST_CASE("scripts: every command is a literal, for proxies to see; no call leaves the slot or ignores errors") {
  for (const Script* script : scripts::all()) {
    CAPTURE(std::string(script->name));
    const std::string code = parts_of(*script).code;
    const auto calls = matches(code, "redis\\.p?call");
    CHECK(calls.size() > 0);
    CHECK(matches(code, "redis\\.p?call\\('[A-Z]+'[,)]").size() == calls.size());
    // pcall is only for hints and statistics, and for reads that decide about hints: no move depends on them. A field
    // of keys counts only for a message that is alive. send, send_keyed and restore also delete staged payloads by it,
    // and those of a RENAME that was refused, before it returns that error. pause reads the reason by it, whose key
    // another program may have written. counts reads by it whether the probe is still in ready, and what is read beside
    // the limits, as `stats` shows it. What another program may have written as a limit counts as absent; and a place
    // in running that is not freed counts until the lease has ended. ready2unack, take_paced and pending2unack call by
    // it what they write after the leases: if Redis refuses that, they take the leases back, since their ends would
    // spend retries, and return the error.
    const std::string hints =
        "redis\\.pcall\\('[A-Z]+', (?:wake|watch|stats|limits|running|unique|keys)[,)]|redis\\.pcall\\('ZRANGE', "
        "pending, "
        "(?:0, "
        "0|rank)";
    const std::string staged =
        "redis\\.pcall\\('UNLINK', unpack\\(KEYS, 1[345]|redis\\.pcall\\('(?:RENAME|PEXPIRE)', payload, ";
    const std::string reason = "redis\\.pcall\\('GETRANGE', paused";
    const std::string probe =
        "redis\\.pcall\\('HMGET', (?:count|attempts), probe|redis\\.pcall\\('(?:HGET', settings|HLEN', count)";
    const std::string leased =
        "redis\\.pcall\\('HSET', attempts, unpack\\(again\\)|redis\\.pcall\\('ZREMRANGEBYRANK', pending, 0, #ids - 1";
    const bool leases =
        script->name == "ready2unack" || script->name == "take_paced" || script->name == "pending2unack";
    const bool is_send = script->name == "send" || script->name == "send_keyed";
    const std::string allowed = is_send || script->name == "restore" ? hints + '|' + staged
                                : script->name == "pause"            ? hints + '|' + reason
                                : script->name == "counts"           ? hints + '|' + probe
                                : leases                             ? hints + '|' + leased
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
  CHECK(scene.run(&Moves::cancel, scene.id(".p1")) == "pending");
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
  const Moves& moves = scene.moves();
  const auto first = moves.cancel(pipeline, scene.id(".p1"));
  pipeline.command("INCR").key(scene.keys().base + ":counter");
  const auto moved = moves.reschedule(pipeline, scene.id(".p2"), {5min, 0});
  const auto second = moves.cancel(pipeline, scene.id("dead"));
  const auto third = moves.cancel(pipeline, scene.id(".p1"));
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
