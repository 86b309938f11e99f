#include "store/scripts.h"

#include "support/all_moves.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace delayqueue::store {
namespace {

using namespace std::chrono_literals;
using redis::Script;

std::vector<const Script*> all_scripts() {
  return {&scripts::send,  &scripts::pending2ready, &scripts::ready2unack, &scripts::ack,     &scripts::nack,
          &scripts::renew, &scripts::release,       &scripts::unack2retry, &scripts::persist, &scripts::gc,
          &scripts::sweep, &scripts::cancel,        &scripts::reschedule,  &scripts::redrive, &scripts::purge,
          &scripts::kill,  &scripts::extend,        &scripts::discard,     &scripts::restore, &scripts::counts,
          &scripts::page,  &scripts::find,          &scripts::check,       &scripts::forget,  &scripts::unlock};
}

const std::string kFolder = test::source_path("scripts/lua");

std::string file_of(const Script& script) {
  std::ifstream file(kFolder + "/" + std::string(script.name) + ".lua", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Parts {
  std::string header;  // its comment
  std::string code;    // all else, without comments
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

// Places of KEYS or ARGV: the numbered ones, and from which on there are any number (0: none).
struct Places {
  std::set<int> fixed;
  int rest = 0;
};

bool operator==(const Places& a, const Places& b) { return a.fixed == b.fixed && a.rest == b.rest; }

std::string to_text(const Places& places) {
  std::string text;
  for (const int n : places.fixed) text += std::to_string(n) + " ";
  return text + (places.rest == 0 ? "" : "and from " + std::to_string(places.rest));
}

Places documented(const std::string& header, const std::string& name) {
  Places places;
  for (const auto& match : matches(header, "(?:-- |  )" + name + "\\[(\\d+)(\\.\\.\\.)?\\]")) {
    if (match[2].matched) {
      places.rest = std::stoi(match[1]);
    } else {
      places.fixed.insert(std::stoi(match[1]));
    }
  }
  return places;
}

// "8 + i" and "3 * i - 1" stand for their value at i = 1; "i" for where its loop begins.
Places used(const std::string& code, const std::string& name) {
  Places places;
  std::set<int> rest;
  for (const auto& match : matches(code, name + "\\[([^\\]]+)\\]")) {
    const std::string at = match[1];
    std::smatch m;
    if (std::regex_match(at, std::regex("\\d+"))) {
      places.fixed.insert(std::stoi(at));
    } else if (std::regex_match(at, m, std::regex("(\\d+) \\+ i|i \\+ (\\d+)"))) {
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
  if (code.find("unpack(" + name + ")") != std::string::npos) rest.insert(1);
  if (!rest.empty()) places.rest = *rest.begin();
  return places;
}

TEST_CASE("scripts: each is built in unchanged, under the name of its file; there are no others") {
  std::set<std::string> built_in;
  for (const Script* script : all_scripts()) {
    CHECK((file_of(*script) == script->body));
    built_in.insert(std::string(script->name));
  }
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) files.insert(entry.path().stem().string());
  CHECK((built_in == files));
}

TEST_CASE("scripts: the SHA1 of each is the name that Redis gives it") {
  for (const Script* script : all_scripts()) {
    CHECK(test::redis().cmd({"SCRIPT", "LOAD", std::string(script->body)}) == script->sha1);
  }
}

TEST_CASE("scripts: each begins with its name and promise, and says what it returns or that it writes nothing") {
  for (const Script* script : all_scripts()) {
    CAPTURE(std::string(script->name));
    const auto header = parts_of(*script).header;
    CHECK(header.find("-- " + std::string(script->name) + ": ") == 0);
    CHECK(header.find("-- Returns ") != std::string::npos);
  }
}

TEST_CASE("scripts: the places of KEYS and ARGV that are used are those the header documents") {
  for (const Script* script : all_scripts()) {
    const Parts parts = parts_of(*script);
    for (const std::string name : {"KEYS", "ARGV"}) {
      CAPTURE(std::string(script->name));
      CAPTURE(name);
      const Places in_header = documented(parts.header, name);
      const Places in_code = used(parts.code, name);
      CHECK_MESSAGE((in_header == in_code), "documented: " << to_text(in_header) << "; used: " << to_text(in_code));
    }
    CHECK(documented(parts.header, "KEYS").fixed.count(1) == 1);
  }
}

TEST_CASE(
    "scripts: every command is named by a literal, for proxies to see; none leaves the slot or passes over errors") {
  for (const Script* script : all_scripts()) {
    CAPTURE(std::string(script->name));
    const std::string code = parts_of(*script).code;
    const auto calls = matches(code, "redis\\.p?call");
    CHECK(calls.size() > 0);
    CHECK(matches(code, "redis\\.p?call\\('[A-Z]+'[,)]").size() == calls.size());
    // But for hints and statistics, and the look at what they are about: a move does not depend on them.
    CHECK(matches(code, "redis\\.pcall\\('[A-Z]+', (?:wake|watch|stats)[,)]|redis\\.pcall\\('ZRANGE', pending, 0, 0")
              .size() == matches(code, "redis\\.pcall").size());
    for (const char* word : {"PUBLISH", "loadstring", "'EVAL", "'KEYS'", "'SCAN'", "redis.log"}) {
      CHECK(code.find(word) == std::string::npos);
    }
  }
}

TEST_CASE("scripts: every key stands in KEYS: no command is given a key that the script made up") {
  for (const Script* script : all_scripts()) {
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

TEST_CASE("scripts: the clock is read once at most") {
  for (const Script* script : all_scripts()) {
    CAPTURE(std::string(script->name));
    CHECK(matches(parts_of(*script).code, "'TIME'").size() <= 1);
  }
}

TEST_CASE("scripts: none is longer than 120 lines") {
  for (const Script* script : all_scripts()) {
    CAPTURE(std::string(script->name));
    CHECK(std::count(script->body.begin(), script->body.end(), '\n') <= 120);
  }
}

TEST_CASE("scripts: a server that does not know them is told them at once, and nobody notices") {
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

TEST_CASE("scripts: in a pipeline only those not known are sent again, and each answer is that of its request") {
  test::Scene scene;
  test::everything(scene);
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
