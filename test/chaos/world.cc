#include "chaos/world.h"

#include <sstream>
#include <stdexcept>

#include "chaos/worlds.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;

// Every other connection, by the bits of `pick`.
void kill_some(const Command& command, std::uint64_t pick) {
  std::istringstream list(command({"CLIENT", "LIST", "TYPE", "normal"}).text);
  for (std::string line; std::getline(list, line);) {
    const std::string id = line.substr(0, line.find(' '));  // "id=7"
    const bool chosen = (pick >> (static_cast<unsigned>(id.back()) % 16U) & 1U) != 0;
    if (chosen && id.rfind("id=", 0) == 0) command({"CLIENT", "KILL", "ID", id.substr(3)});
  }
}

}  // namespace

std::vector<FaultKind> common_faults() {
  return {{"client_kill_all", 0ms, 0ms},
          {"client_kill_some", 0ms, 0ms},
          {"script_flush", 0ms, 0ms},
          {"out_of_memory", 300ms, 2000ms}};
}

bool apply_common(const Step& step, const Command& command) {
  if (step.kind == "client_kill_all") {
    command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  } else if (step.kind == "client_kill_some") {
    kill_some(command, step.pick);
  } else if (step.kind == "script_flush") {
    command({"SCRIPT", "FLUSH"});
  } else if (step.kind == "out_of_memory") {
    command({"CONFIG", "SET", "maxmemory", "1"});
    std::this_thread::sleep_for(step.lasts);
    command({"CONFIG", "SET", "maxmemory", "0"});
  } else {
    return false;
  }
  return true;
}

void shut_down(test::Node& node) {
  try {
    node.cmd({"SHUTDOWN"});
  } catch (const std::runtime_error&) {  // no answer: it is gone
  }
  node.kill();
}

std::unique_ptr<World> make_world(const std::string& topology, const std::string& queue, const Journal& journal) {
  if (topology == "single") return std::make_unique<SingleWorld>(queue, journal);
  throw std::invalid_argument("--topology " + topology + ": expected single, sentinel or cluster");
}

}  // namespace chaos
