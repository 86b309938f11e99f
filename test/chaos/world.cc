#include "chaos/world.h"

#include "chaos/worlds.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kPostponed = 2'500'000;

// Chooses half of the connections by the bits of `pick`.
void kill_some(const test::Node& node, std::uint64_t pick) {
  std::istringstream list(node.cmd({"CLIENT", "LIST", "TYPE", "normal"}).text);
  for (std::string line; std::getline(list, line);) {
    const std::string id = line.substr(0, line.find(' '));  // "id=7"
    const bool chosen = (pick >> (static_cast<unsigned>(id.back()) % 16U) & 1U) != 0;
    if (chosen && id.rfind("id=", 0) == 0) node.cmd({"CLIENT", "KILL", "ID", id.substr(3)});
  }
}

}  // namespace

std::vector<FaultKind> common_faults() {
  return {{"client_kill_all", 0ms, 0ms},
          {"client_kill_some", 0ms, 0ms},
          {"script_flush", 0ms, 0ms},
          {"out_of_memory", 300ms, 2000ms}};
}

bool apply_common(const Step& step, const test::Node& node) {
  if (step.kind == "client_kill_all") {
    node.cmd({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    node.cmd({"CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes"});
  } else if (step.kind == "client_kill_some") {
    kill_some(node, step.pick);
  } else if (step.kind == "script_flush") {
    node.cmd({"SCRIPT", "FLUSH"});
  } else if (step.kind == "out_of_memory") {
    node.cmd({"CONFIG", "SET", "maxmemory", "1"});
    std::this_thread::sleep_for(step.lasts);
    node.cmd({"CONFIG", "SET", "maxmemory", "0"});
  } else {
    return false;
  }
  return true;
}

test::NodeOptions persistent() {
  test::NodeOptions options;
  options.arguments = {"--appendonly", "yes", "--appendfsync", "everysec"};
  return options;
}

void shut_down(test::Node& node) {
  try {
    node.cmd({"SHUTDOWN"});
  } catch (const std::runtime_error&) {  // no answer: the server has ended
  }
  node.kill();
}

void note_window(const Journal& journal, std::int64_t from_us, std::int64_t to_us, const std::string& partitions) {
  journal.line("window " + std::to_string(from_us) + ' ' + std::to_string(to_us) + ' ' + partitions);
}

// With `everysec`, Redis lets writes to the file wait up to two seconds while a background fsync runs, and acknowledges
// them. Only those may be lost: data in the file survives in the kernel's page cache.
void kill_with_window(const Journal& journal, test::Node& node, const std::string& partitions) {
  const auto killed_at = now_us();
  const bool waits = node.info("aof_pending_bio_fsync") != "0";
  node.kill();
  note_window(journal, killed_at - (waits ? kPostponed : 0), now_us(), partitions);
}

std::unique_ptr<World> make_world(const std::string& topology, const std::string& queue, const Journal& journal) {
  if (topology == "single") return std::make_unique<SingleWorld>(queue, journal);
  if (topology == "sentinel") return std::make_unique<SentinelWorld>(queue, journal);
  if (topology == "cluster") return std::make_unique<ClusterWorld>(queue, journal);
  if (topology == "partitions") return std::make_unique<ClusterWorld>(queue, journal, std::vector<unsigned>{4, 32, 8});
  throw std::invalid_argument("--topology " + topology + ": expected single, sentinel, cluster or partitions");
}

}  // namespace chaos
