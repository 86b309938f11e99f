#include "chaos/remains.h"

#include <delayqueue/inspector.h>

#include <algorithm>
#include <thread>
#include <unordered_set>

namespace chaos {
namespace {

using namespace std::chrono_literals;
using delayqueue::Inspector;
using delayqueue::State;

std::vector<std::string> keys_of(World& world) {
  std::unordered_set<std::string> keys;
  std::string pattern;
  for (const char c : world.base() + ":") pattern += std::string(c == '[' || c == '*' || c == '?' ? "\\" : "") + c;
  std::string cursor = "0";
  do {
    const test::Reply page = world.cmd({"SCAN", cursor, "MATCH", pattern + "*", "COUNT", "1000"});
    if (page.array.size() != 2) throw std::runtime_error("SCAN: " + page.text);
    cursor = page.array[0].text;
    for (const auto& key : page.array[1].array) keys.insert(key.text);
  } while (cursor != "0");
  std::vector<std::string> sorted(keys.begin(), keys.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::string content(World& world, const std::string& key) {
  const std::string type = world.cmd({"TYPE", key}).text;
  test::Reply reply;
  if (type == "string") reply = world.cmd({"GET", key});
  if (type == "list") reply = world.cmd({"LRANGE", key, "0", "9"});
  if (type == "set") reply = world.cmd({"SRANDMEMBER", key, "10"});
  if (type == "zset") reply = world.cmd({"ZRANGE", key, "0", "9", "WITHSCORES"});
  if (type == "hash") reply = world.cmd({"HGETALL", key});
  std::string text = type + ' ' + reply.text;
  for (const auto& word : reply.strings()) text += ' ' + word;
  return text;
}

// Only dead letters have metadata.
void check_metadata(World& world, const std::string& key, Remains& remains) {
  for (const auto& id : world.cmd({"HKEYS", key}).strings()) {
    if (remains.dead.count(id) == 0) remains.strays.push_back(key + ": metadata of " + id);
  }
}

}  // namespace

bool drained(World& world, const std::string& queue, std::chrono::milliseconds limit) {
  Inspector inspector(world.url(), queue);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < deadline) {
    const auto counts = inspector.counts();
    const auto waiting = counts.pending + counts.ready + counts.unack + counts.retry + counts.garbage;
    if (waiting == 0 && read_remains(world, queue).strays.empty()) return true;
    std::this_thread::sleep_for(300ms);
  }
  return false;
}

Remains read_remains(World& world, const std::string& queue) {
  Remains remains;
  Inspector inspector(world.url(), queue);
  delayqueue::ListOptions page;
  page.limit = 1000;
  do {
    const auto messages = inspector.list(State::dead, page);
    for (const auto& message : messages) remains.dead[message.id] = message.deliveries;
    page.cursor = messages.next;
  } while (!page.cursor.empty());

  const std::string base = world.base();
  std::size_t bodies = 0;
  for (const std::string& key : keys_of(world)) {
    const std::string name = key.substr(base.size() + 1);
    if (name == "dead" || name == "stats" || name == "wake") continue;
    if (name == "attempts" || name == "reason") {
      check_metadata(world, key, remains);
    } else if (name.rfind("msg:", 0) == 0 && remains.dead.count(name.substr(4)) != 0) {
      ++bodies;
    } else {
      remains.strays.push_back(key + ": " + content(world, key));
    }
  }
  if (bodies != remains.dead.size()) {
    remains.strays.push_back(std::to_string(remains.dead.size()) + " dead letters have " + std::to_string(bodies) +
                             " bodies");
  }
  return remains;
}

}  // namespace chaos
