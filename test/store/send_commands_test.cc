// The commands that one new message costs Redis, and the keys of its script.
#include "support/test.h"

#include "support/moves.h"

namespace delayqueue::store {
namespace {

using test::Scene;

SendTerms new_in(milliseconds delay) {
  SendTerms terms{{delay, 0}};
  terms.new_ids = true;
  return terms;
}

// The commands since the last CONFIG RESETSTAT, those inside scripts too, with the number of calls of each.
std::map<std::string, std::string> commands_run(Scene& scene) {
  std::istringstream lines(scene.cmd({"INFO", "commandstats"}).text);
  std::map<std::string, std::string> calls;
  for (std::string line; std::getline(lines, line);) {  // cmdstat_zadd:calls=1,usec=9,...
    const auto colon = line.find(':'), comma = line.find(',');
    if (comma == std::string::npos) continue;
    const std::string name = line.substr(8, colon - 8);
    if (name.rfind("config", 0) != 0) calls[name] = line.substr(colon + 7, comma - colon - 7);
  }
  return calls;
}

// The number of keys of the last script call that the server has executed.
std::string keys_of_last_script(Scene& scene) {
  for (const test::Reply& entry : scene.cmd({"SLOWLOG", "GET", "-1"}).array) {
    const auto words = entry.array.at(3).strings();
    if (words[0] == "EVALSHA") return words[2];
  }
  return "";
}

TEST_CASE("send_one: it runs these commands and no others, and has six keys, or seven with headers") {
  using Commands = std::map<std::string, std::string>;
  const Commands now = {{"evalsha", "1"}, {"llen", "1"}, {"hset", "1"},   {"lpush", "1"},
                        {"mset", "1"},    {"zadd", "1"}, {"hincrby", "1"}};
  Commands probe = now;  // it is written with its time
  probe["time"] = "1";
  probe["hset"] = "2";
  const Commands later = {{"evalsha", "1"}, {"time", "1"}, {"zrange", "1"}, {"hset", "1"},
                          {"zadd", "1"},    {"mset", "1"}, {"hincrby", "1"}};
  Commands first = later;  // in pending: its marker wakes a consumer
  first["zadd"] = "2";
  Commands with_headers = now;
  with_headers["hlen"] = "1";
  with_headers["hset"] = "2";
  const struct {
    const char* what;
    bool lists;  // ready is not empty
    SendTerms terms;
    std::string_view headers;
    Commands commands;
    std::string keys;
  } cases[] = {{"due now", true, new_in(0ms), "", now, "6"},
               {"due now, the first in ready", false, new_in(0ms), "", probe, "6"},
               {"due now, with headers", true, new_in(0ms), "\1k\1v", with_headers, "7"},
               {"due later", true, new_in(240h), "", later, "6"},
               {"due later, the first in pending", true, new_in(1s), "", first, "6"}};
  for (const auto& one : cases) {
    CAPTURE(std::string(one.what));
    Scene::Setup setup;
    setup.lists = one.lists;
    setup.recorded = false;
    Scene(setup).run(&Moves::send, {{test::kId, "x"}}, one.terms);  // loads it
    Scene scene(setup);
    scene.cmd({"CONFIG", "SET", "slowlog-log-slower-than", "0"});
    scene.cmd({"SLOWLOG", "RESET"});
    scene.cmd({"CONFIG", "RESETSTAT"});
    CHECK(scene.run(&Moves::send, {{scene.keep("a"), "new", one.headers}}, one.terms) == "1");
    CHECK(commands_run(scene) == one.commands);
    CHECK(keys_of_last_script(scene) == one.keys);
    scene.cmd({"CONFIG", "SET", "slowlog-log-slower-than", "10000"});
  }
}

}  // namespace
}  // namespace delayqueue::store
