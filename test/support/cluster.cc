#include "support/cluster.h"

#include <ctime>
#include <iomanip>

namespace test {
namespace {

using namespace std::chrono_literals;

constexpr int kSlots = 16384;

// A line of CLUSTER NODES: the view that one node has of another node or of itself.
struct Known {
  std::string id, flags, master;
  long long epoch = 0;
  std::vector<std::pair<int, int>> slots;

  bool is(const std::string& flag) const { return ("," + flags + ",").find("," + flag + ",") != std::string::npos; }
  bool owns(int slot) const {
    return std::any_of(slots.begin(), slots.end(),
                       [slot](auto& range) { return range.first <= slot && slot <= range.second; });
  }
};

Known parsed(const std::string& line) {
  Known result;
  std::string address, ping, pong, link;
  std::istringstream words(line);
  words >> result.id >> address >> result.flags >> result.master >> ping >> pong >> result.epoch >> link;
  for (std::string word; words >> word;) {
    if (word[0] == '[') continue;  // a slot in migration
    const auto dash = word.find('-');
    const int first = std::stoi(word);
    result.slots.emplace_back(first, dash == std::string::npos ? first : std::stoi(word.substr(dash + 1)));
  }
  return result;
}

std::vector<Known> known_by(const Node& node) {
  std::vector<Known> result;
  std::istringstream lines(must(node, {"CLUSTER", "NODES"}).text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) result.push_back(parsed(line));
  }
  return result;
}

Known self(const Node& node) {
  for (const Known& known : known_by(node)) {
    if (known.is("myself")) return known;
  }
  throw std::runtime_error(node.address() + " does not know itself");
}

std::string id_of(const Node& node) { return must(node, {"CLUSTER", "MYID"}).text; }

bool knows_replica(const Node& master, const Node& replica) {
  const std::string id = id_of(replica), of = id_of(master);
  const auto all = known_by(master);
  return std::any_of(all.begin(), all.end(), [&](const Known& known) { return known.id == id && known.master == of; });
}

bool linked(const Node& node) { return node.info("role") == "master" || node.info("master_link_status") == "up"; }

// Read from the node's log. Both the log and the votes are lost when the process ends.
std::optional<std::chrono::system_clock::time_point> last_won_election(const Node& node) {
  std::optional<std::chrono::system_clock::time_point> result;
  std::ifstream log(node.file("log"));
  for (std::string line; std::getline(log, line);) {
    if (line.find("Failover election won") == std::string::npos) continue;
    std::istringstream words(line.substr(line.find(' ')));  // "<pid>:<role> 21 Nov 2026 16:33:11.771 # ..."
    std::tm local{};
    words >> std::get_time(&local, " %d %b %Y %H:%M:%S");
    local.tm_isdst = -1;
    if (words) result = std::chrono::system_clock::from_time_t(std::mktime(&local)) + 1s;
  }
  return result;
}

NodeOptions clustered(const ClusterOptions& options) {
  NodeOptions result = options.node;
  result.cluster = true;
  // CLUSTER SLOTS lists a replica only after it has received replicated data. A replication ping is enough.
  const std::vector<std::string> ours = {"--cluster-node-timeout", std::to_string(options.node_timeout.count()),
                                         "--repl-ping-replica-period", "1"};
  result.arguments.insert(result.arguments.begin(), ours.begin(), ours.end());
  return result;
}

std::size_t nodes_in_slots(const Node& node) {
  std::size_t count = 0;
  for (const Reply& range : must(node, {"CLUSTER", "SLOTS"}).array) count += range.array.size() - 2;
  return count;
}

}  // namespace

int slot_of(const std::string& key) {
  const auto open = key.find('{');
  const auto close = open == std::string::npos ? open : key.find('}', open + 1);
  const bool tagged = close != std::string::npos && close > open + 1;
  const std::string hashed = tagged ? key.substr(open + 1, close - open - 1) : key;
  unsigned crc = 0;
  for (const char c : hashed) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000U) != 0 ? (crc << 1) ^ 0x1021U : crc << 1;
  }
  return static_cast<int>(crc & 0x3fffU);
}

Cluster::Cluster(ClusterOptions options) : options_(std::move(options)) {
  const std::size_t count = options_.masters * (options_.replicas ? 2 : 1);
  for (std::size_t i = 0; i < count; ++i) nodes_.push_back(std::make_unique<Node>(clustered(options_)));
  wire();
  wait_ok();
  wait_until("CLUSTER SLOTS with all nodes", [&] {
    return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& one) { return nodes_in_slots(*one) == count; });
  });
}

void Cluster::wire() {
  const std::size_t masters = options_.masters;
  const auto first_slot = [&](std::size_t part) { return static_cast<int>(part) * kSlots / static_cast<int>(masters); };
  for (std::size_t i = 0; i < masters; ++i) {
    must(node(i), {"CLUSTER", "ADDSLOTSRANGE", std::to_string(first_slot(i)), std::to_string(first_slot(i + 1) - 1)});
  }
  for (std::size_t i = 0; i < size(); ++i) {
    must(node(i), {"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
    const std::string port = std::to_string(node(i).port()), bus = std::to_string(node(i).bus_port());
    if (i > 0) must(node(0), {"CLUSTER", "MEET", "127.0.0.1", port, bus});
  }
  for (std::size_t i = masters; i < size(); ++i) {
    wait_until("a replica that knows its master", [&] {
      return node(i).cmd({"CLUSTER", "REPLICATE", id_of(node(i - masters))}) == "OK";
    });
  }
}

Node& Cluster::add_master() {
  nodes_.push_back(std::make_unique<Node>(clustered(options_)));
  Node& added = *nodes_.back();
  must(node(0), {"CLUSTER", "MEET", "127.0.0.1", std::to_string(added.port()), std::to_string(added.bus_port())});
  const std::string id = id_of(added);
  wait_until("all nodes to know the new one", [&] {
    return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& one) {
      const auto all = known_by(*one);
      return all.size() == size() && std::any_of(all.begin(), all.end(), [&](const Known& known) {
               return known.id == id && !known.is("handshake");
             });
    });
  });
  wait_ok();
  return added;
}

std::string Cluster::url() const {
  std::string result = options_.node.tls ? "rediss+cluster://" : "redis+cluster://";
  for (std::size_t i = 0; i < options_.masters; ++i) result += (i == 0 ? "" : ",") + nodes_[i]->address();
  return result;
}

Node& Cluster::owner_of(int slot) {
  Node* found = nullptr;
  wait_until("an owner of slot " + std::to_string(slot), [&] { return (found = find_owner(slot)) != nullptr; });
  return *found;
}

// A former master may still claim the slot. The claim with the highest epoch is valid.
Node* Cluster::find_owner(int slot) {
  Node* found = nullptr;
  long long newest = -1;
  for (const auto& one : nodes_) {
    if (!one->running()) continue;
    const Known known = self(*one);
    if (!known.is("master") || !known.owns(slot) || known.epoch <= newest) continue;
    newest = known.epoch;
    found = one.get();
  }
  return found;
}

Node& Cluster::replica_of(const Node& master) {
  const std::string id = id_of(master);
  for (const auto& one : nodes_) {
    if (one->running() && self(*one).master == id) return *one;
  }
  throw std::runtime_error(master.address() + " has no running replica");
}

Node& Cluster::other_master(const Node& master) {
  for (const auto& one : nodes_) {
    if (one.get() == &master || !one->running()) continue;
    const Known known = self(*one);
    if (known.is("master") && !known.slots.empty()) return *one;
  }
  throw std::runtime_error("no other master than " + master.address() + " is running");
}

Node& Cluster::failover(const std::string& key) {
  Node& old = owner(key);
  Node& heir = replica_of(old);
  wait_calm(old);
  // A master ignores the failover request of a replica that it does not know yet.
  wait_until(old.address() + " to know its replica", [&] { return knows_replica(old, heir); });
  wait_until("a failover to " + heir.address(), [&] {
    heir.cmd({"CLUSTER", "FAILOVER"});
    return eventually([&] { return heir.info("role") == "master"; }, 2s);
  });
  const std::string id = id_of(heir);
  wait_until("agreement on " + heir.address(),
             [&] { return known_by_all(slot_of(key), id) && (!old.running() || linked(old)); });
  return heir;
}

void Cluster::wait_calm(const Node& node) const {
  const auto won = last_won_election(node);
  if (won) std::this_thread::sleep_until(*won + 4 * std::max(options_.node_timeout, std::chrono::milliseconds(1000)));
}

void Cluster::begin_migration(int slot, Node& to) {
  Node& from = owner_of(slot);
  must(to, {"CLUSTER", "SETSLOT", std::to_string(slot), "IMPORTING", id_of(from)});
  must(from, {"CLUSTER", "SETSLOT", std::to_string(slot), "MIGRATING", id_of(to)});
  const std::lock_guard lock(mutex_);
  migrations_[slot] = {&from, &to};
}

std::size_t Cluster::migrate_keys(int slot, std::size_t count) {
  const auto [from, to] = migration(slot);
  const auto keys = must(*from, {"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), std::to_string(count)}).strings();
  if (keys.empty()) return 0;
  std::vector<std::string> words = {"MIGRATE", "127.0.0.1", std::to_string(to->port()), "", "0", "2000"};
  const auto& login = options_.node.login;
  if (!login.empty()) words.emplace_back(login.size() == 1 ? "AUTH" : "AUTH2");
  words.insert(words.end(), login.begin(), login.end());
  words.emplace_back("KEYS");
  words.insert(words.end(), keys.begin(), keys.end());
  must(*from, words);
  return keys.size();
}

void Cluster::finish_migration(int slot) {
  const auto [from, to] = migration(slot);
  const auto left = must(*from, {"CLUSTER", "COUNTKEYSINSLOT", std::to_string(slot)}).integer;
  if (left > 0) throw std::runtime_error("slot " + std::to_string(slot) + " still has keys");  // its keys would be lost
  const std::vector<std::string> words = {"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", id_of(*to)};
  must(*to, words);  // new owner first: the slot always has an owner
  must(*from, words);
  for (const auto& one : nodes_) {
    const bool done = one.get() == from || one.get() == to;
    if (!done && one->running() && self(*one).is("master")) must(*one, words);
  }
  wait_until("agreement on slot " + std::to_string(slot), [&] { return known_by_all(slot, words.back()); });
  const std::lock_guard lock(mutex_);
  migrations_.erase(slot);
}

std::pair<Node*, Node*> Cluster::migration(int slot) {
  const std::lock_guard lock(mutex_);
  const auto found = migrations_.find(slot);
  if (found == migrations_.end()) throw std::runtime_error("slot " + std::to_string(slot) + " does not migrate");
  return found->second;
}

bool Cluster::known_by_all(int slot, const std::string& id) const {
  return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& one) {
    if (!one->running()) return true;
    const auto all = known_by(*one);
    return std::any_of(all.begin(), all.end(), [&](const Known& known) { return known.id == id && known.owns(slot); });
  });
}

void Cluster::wait_ok() {
  wait_until("a cluster in order", [this] {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [this](const auto& one) { return !one->running() || in_order(*one); });
  });
}

bool Cluster::in_order(const Node& node) const {
  if (must(node, {"CLUSTER", "INFO"}).text.find("cluster_state:ok") == std::string::npos || !linked(node)) return false;
  std::map<std::string, Known> known;
  for (const Known& one : known_by(node)) known[one.id] = one;
  return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& one) {
    if (!one->running()) return true;
    const Known& seen = known[id_of(*one)];
    return !seen.id.empty() && !seen.is("fail") && !seen.is("fail?") && !seen.is("handshake");
  });
}

std::vector<std::string> queue_of_each_master(Cluster& cluster) {
  std::map<Node*, std::string> queues;
  for (int i = 0; queues.size() < cluster.masters(); ++i) {
    const std::string queue = "apart" + std::to_string(i);
    queues.emplace(&cluster.owner("{dp:" + queue + "}"), queue);
  }
  std::vector<std::string> names;
  for (const auto& [node, queue] : queues) names.push_back(queue);
  return names;
}

}  // namespace test
