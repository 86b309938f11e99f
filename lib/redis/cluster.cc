// The topology of a Redis Cluster. All keys of a queue are in one slot, so one node owns the queue at a time.
#include "redis/pipeline.h"
#include "redis/slot.h"
#include "redis/topology.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <optional>

namespace delayqueue::redis {
namespace {

// The owners of ranges of slots.
class SlotOwners {
 public:
  void add(int first, int last, Address owner) { ranges_[last] = {first, std::move(owner)}; }
  void clear() { ranges_.clear(); }

  // Null: unknown.
  const Address* find(int slot) const {
    const auto found = ranges_.lower_bound(slot);
    return found != ranges_.end() && found->second.first <= slot ? &found->second.second : nullptr;
  }

 private:
  std::map<int, std::pair<int, Address>> ranges_;  // by the last slot: the first one, and the owner
};

// The slot map of one node.
struct SlotMap {
  SlotOwners owners;
  std::vector<Address> nodes;
  bool is_down = false;  // the node reports its Cluster as down; it may be partitioned from the others
};

// The address in an entry of CLUSTER SLOTS: host, port, and more. If the node leaves out the host, it is `asked`'s.
Address node_of(Reply entry, const Address& asked, const Connection& connection) {
  Address node = asked;
  if (!entry[0].is_nil() && !entry[0].text().empty() && entry[0].text() != "?") node.host = entry[0].text();
  node.port = port_of(entry[1], connection);
  return node;
}

bool is_down(const Pipeline& asked) {
  try {
    return asked.reply(1).text().find("cluster_state:fail") != std::string_view::npos;
  } catch (const ReplyError&) {  // an ACL rule or a proxy refuses CLUSTER INFO
    return false;
  }
}

SlotMap slot_map_of(Connection& connection, const Address& asked) {
  Pipeline pipeline(connection);
  pipeline.command("CLUSTER").arg("SLOTS");
  pipeline.command("CLUSTER").arg("INFO");
  pipeline.run();
  SlotMap map;
  map.is_down = is_down(pipeline);
  const Reply ranges = pipeline.reply(0);
  const auto slot_at = [](Reply number) { return static_cast<int>(std::clamp(number.integer(), 0LL, kSlots - 1LL)); };
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Reply range = ranges[i];
    for (std::size_t node = 2; node < range.size() && map.nodes.size() < kMostNodes; ++node) {
      map.nodes.push_back(node_of(range[node], asked, connection));
    }
    map.owners.add(slot_at(range[0]), slot_at(range[1]), node_of(range[2], asked, connection));
  }
  return map;
}

// The address in a line of CLUSTER NODES: "<id> <ip>:<port>@<bus port>[,<host name>] <flags> ...". nullopt for a node
// without an address: one that has not joined yet, or has left.
std::optional<Address> node_of(std::string_view line, const Address& asked) {
  const std::size_t begin = line.find(' ') + 1;
  const std::size_t at = line.find('@', begin);
  const std::size_t colon = line.rfind(':', at);
  if (begin == 0 || at == line.npos || colon == line.npos || colon < begin) return std::nullopt;
  const std::string_view digits = line.substr(colon + 1, at - colon - 1);
  const std::string_view rest = line.substr(at, line.find(' ', at) - at);
  const bool gone = line.find("noaddr") != line.npos || line.find("handshake") != line.npos;
  Address node = asked;
  node.port = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), node.port);
  if (gone || node.port == 0) return std::nullopt;
  if (colon > begin) node.host = line.substr(begin, colon - begin);
  // With TLS, use the host name if there is one, because the certificate is for it: "...@16379,name,more=..."
  const std::size_t comma = rest.find(',');
  if (asked.tls && comma != rest.npos) {
    const std::string_view name = rest.substr(comma + 1, rest.find(',', comma + 1) - comma - 1);
    if (!name.empty() && name.find('=') == name.npos) node.host = name;
  }
  return node;
}

bool same(const Address& a, const Address& b) { return a.host == b.host && a.port == b.port; }

auto is(const Address& node) {
  return [node](const Address& other) { return same(node, other); };
}

bool has(const std::vector<Address>& nodes, const Address& node) {
  return std::any_of(nodes.begin(), nodes.end(), is(node));
}

void add(std::vector<Address>& nodes, const Address& node) {
  if (!has(nodes, node)) nodes.push_back(node);
}

std::vector<Address> masters_of(Connection& connection, const Address& asked) {
  Pipeline pipeline(connection);
  pipeline.command("CLUSTER").arg("SLOTS");
  pipeline.run();
  const Reply ranges = pipeline.reply(0);
  std::vector<Address> nodes;
  for (std::size_t i = 0; i < ranges.size() && nodes.size() < kMostNodes; ++i) {
    add(nodes, node_of(ranges[i][2], asked, connection));
  }
  if (nodes.empty()) throw ReplyError(asked.text() + " reports no node of its Cluster that owns slots");
  return nodes;
}

std::vector<Address> nodes_of(Connection& connection, const Address& asked) {
  Pipeline pipeline(connection);
  pipeline.command("CLUSTER").arg("NODES");
  pipeline.run();
  std::string_view lines = pipeline.reply(0).text();
  std::vector<Address> nodes;
  while (!lines.empty() && nodes.size() < kMostNodes) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    if (const auto node = node_of(line, asked)) nodes.push_back(*node);
  }
  if (nodes.empty()) throw ReplyError(asked.text() + " reports no node of its Cluster");
  return nodes;
}

class ClusterTopology : public Topology, public Cluster {
 public:
  ClusterTopology(const Url& url, const ClientOptions& options)
      : seeds_(url.addresses),
        where_(url.text()),
        login_(login_of(url, options)),
        options_(with_probe_timeout(options)),
        limit_(options.connect_timeout) {}

  std::unique_ptr<Connection> connect(int slot) override {
    std::vector<Address> failed;
    return first_success(candidates(slot), "cannot reach the queue's node through " + where_, Clock::now() + limit_,
                         [&](const Address& node) { return connect_via(node, slot, failed); });
  }

  bool reuse(Connection& connection, int slot) override {
    {
      const std::lock_guard lock(mutex_);
      const Address* const owner = owner_of(slot);
      if (owner == nullptr || owner->text() != connection.where()) return false;
    }
    connection.set_slot(slot);
    return true;
  }

  std::string server_of(int slot) override {
    const std::lock_guard lock(mutex_);
    const Address* owner = owner_of(slot);
    if (owner == nullptr) owner = last_owners_.find(slot);
    return owner == nullptr ? std::string() : owner->text();
  }

  std::unique_ptr<Connection> dial(const Address& node) override {
    return std::make_unique<Connection>(node, login_, options_);
  }

  // From CLUSTER NODES, because CLUSTER SLOTS leaves out nodes without slots, and a slot may move to one of them.
  std::vector<Address> servers() override {
    return first_success(candidates(), "cannot list the nodes of " + where_, Clock::now() + limit_,
                         [this](const Address& node) { return nodes_of(*dial(node), node); });
  }

  std::vector<Address> masters() override {
    return first_success(candidates(), "cannot list the masters of " + where_, Clock::now() + limit_,
                         [this](const Address& node) { return masters_of(*dial(node), node); });
  }

  void moved(const Redirection& to) override {
    if (to.slot < 0 || to.slot >= static_cast<int>(kSlots)) return;
    const std::lock_guard lock(mutex_);
    moved_[to.slot] = to.address;
  }

  void lost(int slot) override {
    const std::lock_guard lock(mutex_);
    moved_[slot].reset();
  }

 private:
  static constexpr int kNoSlot = -1;

  // A connection to the slot's owner according to `node`. `failed`: nodes that could not be reached in this connect().
  std::unique_ptr<Connection> connect_via(const Address& node, int slot, std::vector<Address>& failed) {
    auto connection = open(node, slot, failed);
    const SlotMap map = slot_map_of(*connection, node);
    const Address* const owner = map.owners.find(slot);
    if (owner == nullptr) {
      throw ConnectionError(node.text() + " has no node for slot " + std::to_string(slot) +
                            " in its slot map; check the Cluster with redis-cli --cluster check");
    }
    update(map);
    if (map.is_down) {
      throw ConnectionError(node.text() + " reports its Cluster as down; the Cluster lacks a master, or the node is " +
                            "partitioned from the others");
    }
    return same(*owner, node) ? std::move(connection) : open(*owner, slot, failed);
  }

  std::unique_ptr<Connection> open(const Address& node, int slot, std::vector<Address>& failed) {
    if (has(failed, node)) throw ConnectionError(node.text() + " could not be reached a moment ago");
    try {
      auto connection = std::make_unique<Connection>(node, login_, options_, this);
      connection->set_slot(slot);
      return connection;
    } catch (const ConnectionError&) {
      failed.push_back(node);
      const std::lock_guard lock(mutex_);
      unreachable_.erase(std::remove_if(unreachable_.begin(), unreachable_.end(), is(node)), unreachable_.end());
      unreachable_.push_back(node);
      throw;
    }
  }

  void update(const SlotMap& map) {
    const std::lock_guard lock(mutex_);
    moved_.clear();
    if (map.is_down) {  // its owners of the slots may be outdated, but the other nodes are worth trying
      owners_.clear();
      for (const Address& node : map.nodes) add(nodes_, node);
      return;
    }
    owners_ = last_owners_ = map.owners;
    nodes_ = map.nodes;
    unreachable_.clear();
  }

  // Null: unknown. Requires the lock.
  const Address* owner_of(int slot) const {
    const auto found = moved_.find(slot);
    if (found == moved_.end()) return owners_.find(slot);
    return found->second ? &*found->second : nullptr;
  }

  // The nodes to try, the likeliest owner first. The nodes of the URL follow the discovered ones, because those may all
  // be gone. Unreachable nodes come last, the latest failure at the very end: the deadline may allow a few tries only.
  std::vector<Address> candidates(int slot = kNoSlot) {
    const std::lock_guard lock(mutex_);
    std::vector<Address> nodes;
    if (const Address* const owner = owner_of(slot)) nodes.push_back(*owner);
    for (const Address& node : nodes_) add(nodes, node);
    for (const Address& node : seeds_) add(nodes, node);
    for (const Address& node : unreachable_) {
      const auto found = std::find_if(nodes.begin(), nodes.end(), is(node));
      if (found != nodes.end()) std::rotate(found, found + 1, nodes.end());
    }
    return nodes;
  }

  const std::vector<Address> seeds_;
  const std::string where_;
  const Login login_;
  const ClientOptions options_;  // for each node
  const milliseconds limit_;     // for all nodes together

  std::mutex mutex_;                             // guards the rest
  SlotOwners owners_;                            // of the last slot map; none while a node reports the Cluster as down
  SlotOwners last_owners_;                       // of the last slot map of a healthy Cluster
  std::map<int, std::optional<Address>> moved_;  // the owners of slots that have moved since then; nullopt: unknown
  std::vector<Address> nodes_;
  std::vector<Address> unreachable_;  // since the last slot map, in the order of the failures
};

}  // namespace

std::unique_ptr<Topology> cluster(const Url& url, const ClientOptions& options) {
  return std::make_unique<ClusterTopology>(url, options);
}

int slot_of(std::string_view key) {
  const std::size_t open = key.find('{');
  const std::size_t close = open == key.npos ? open : key.find('}', open + 1);
  const bool tagged = close != key.npos && close > open + 1;
  return static_cast<int>(crc16(tagged ? key.substr(open + 1, close - open - 1) : key) % kSlots);
}

}  // namespace delayqueue::redis
