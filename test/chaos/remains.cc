#include "chaos/remains.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;
using delayqueue::Inspector;
using delayqueue::State;

// The name of a key without its base; empty if it is no key of the queue. Partitions count that the queue should not
// have.
std::string name_of(const World& world, const std::string& key) {
  const std::string first = world.base() + ':';
  if (key.rfind(first, 0) == 0) return key.substr(first.size());
  const std::size_t end = key.find("}:");
  const bool is_other = key.rfind(std::string("{dp:") + kQueue + '#', 0) == 0 && end != std::string::npos;
  return is_other ? key.substr(end + 2) : std::string();
}

std::set<std::string> keys_of(World& world) {
  std::set<const test::Node*> servers;
  for (const std::string& base : world.bases()) servers.insert(&world.owner(base));
  std::set<std::string> keys;
  for (const test::Node* server : servers) {
    std::string cursor = "0";
    do {
      const test::Reply page = server->cmd({"SCAN", cursor, "COUNT", "1000"});
      if (page.array.size() != 2) throw std::runtime_error("SCAN: " + page.text);
      cursor = page.array[0].text;
      for (const auto& key : page.array[1].array) {
        if (!name_of(world, key.text).empty()) keys.insert(key.text);
      }
    } while (cursor != "0");
  }
  return keys;
}

std::string content(World& world, const std::string& key) {
  const test::Node& server = world.owner(key);
  const std::string type = server.cmd({"TYPE", key}).text;
  test::Reply reply;
  if (type == "string") reply = server.cmd({"GET", key});
  if (type == "list") reply = server.cmd({"LRANGE", key, "0", "9"});
  if (type == "set") reply = server.cmd({"SRANDMEMBER", key, "10"});
  if (type == "zset") reply = server.cmd({"ZRANGE", key, "0", "9", "WITHSCORES"});
  if (type == "hash") reply = server.cmd({"HGETALL", key});
  std::string text = type + ' ' + reply.text;
  for (const auto& word : reply.strings()) text += ' ' + word;
  return text;
}

// Only dead letters have metadata.
void check_metadata(World& world, const std::string& key, Remains& remains) {
  for (const auto& id : world.owner(key).cmd({"HKEYS", key}).strings()) {
    if (remains.dead.count(id) == 0) remains.strays.push_back(key + ": metadata of " + id);
  }
}

// A call by id must find each dead letter.
void check_ids(Inspector& inspector, Remains& remains) {
  std::vector<std::string> ids;
  for (const auto& [id, deliveries] : remains.dead) ids.push_back(id);
  const auto found = inspector.find_all(ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!found.at(i) || found[i]->state != State::dead)
      remains.strays.push_back("dead, not found by its id: " + ids[i]);
  }
}

// The copies of the layout in partitions 0 and 1 must have the last number of partitions, and the largest one as `top`.
void check_layout(World& world, Remains& remains) {
  const std::vector<unsigned> numbers = world.numbers();
  if (numbers.empty()) return;
  const unsigned top = *std::max_element(numbers.begin(), numbers.end());
  const std::vector<std::string> wanted = {std::to_string(numbers.back()), std::to_string(top)};
  for (unsigned partition = 0; partition < 2; ++partition) {
    const std::string key = world.bases().at(partition) + ":settings";
    const test::Reply copy = world.owner(key).cmd({"HMGET", key, "partitions", "top"});
    if (copy != wanted) remains.strays.push_back("a copy of the layout that is behind: " + content(world, key));
  }
}

}  // namespace

bool drained(World& world, const std::string& queue, bool headers, std::chrono::milliseconds limit) {
  Inspector inspector(world.url(), queue);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < deadline) {
    const auto counts = inspector.counts();
    const auto waiting = counts.pending + counts.ready + counts.unack + counts.retry + counts.garbage;
    if (waiting == 0 && read_remains(world, queue, headers).strays.empty()) return true;
    std::this_thread::sleep_for(300ms);
  }
  return false;
}

Remains read_remains(World& world, const std::string& queue, bool headers) {
  Remains remains;
  Inspector inspector(world.url(), queue);
  delayqueue::ListOptions page;
  page.limit = 1000;
  do {
    const auto messages = inspector.list(State::dead, page);
    for (const auto& message : messages) {
      remains.dead[message.id] = message.deliveries;
      if (message.size && message.headers != headers_of(task_of(message.payload).token, headers)) {
        remains.strays.push_back("dead, with other headers than were sent: " + message.id);
      }
      if (message.size && *message.size != payload_of(task_of(message.payload)).size()) {
        remains.strays.push_back("dead, with another payload than was sent: " + message.id);
      }
    }
    page.cursor = messages.next;
  } while (!page.cursor.empty());

  check_ids(inspector, remains);
  check_layout(world, remains);
  const bool has_partitions = !world.numbers().empty();
  std::size_t bodies = 0;
  for (const std::string& key : keys_of(world)) {
    const std::string name = name_of(world, key);
    if (name == "dead" || name == "stats" || name == "wake" || name == "consumers" || name == "limits") continue;
    if (name == "settings") continue;  // with limits, and the layout
    if (has_partitions && name == "wakes") continue;
    if (name == "attempts" || name == "reason" || name == "headers" || name == "keys") {
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
