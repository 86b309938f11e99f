// A Redis Cluster: the queue lives in one slot, so in one node at a time.
#include "redis/pipeline.h"
#include "redis/topology.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <charconv>
#include <mutex>

namespace delayqueue::redis {
namespace {

// What one node knows of the others.
struct Map {
  int slot = -1;
  Address owner;
  std::vector<Address> nodes;
  bool is_down = false;  // by what the node finds, which may be cut off from the others
};

// An entry of CLUSTER SLOTS: host, port, and more. A node may leave out the host: it is that of the one asked.
Address node_of(Reply entry, const Address& asked, const Connection& connection) {
  Address node = asked;
  if (!entry[0].is_nil() && !entry[0].text().empty() && entry[0].text() != "?") node.host = entry[0].text();
  node.port = port_of(entry[1], connection);
  return node;
}

bool is_down(const Pipeline& asked) {
  try {
    return asked.reply(2).text().find("cluster_state:fail") != std::string_view::npos;
  } catch (const ReplyError&) {  // an ACL rule, or something between us and the node, knows nothing of this question
    return false;
  }
}

Map map_of(Connection& connection, const Address& asked, const std::string& key) {
  Pipeline pipeline(connection);
  pipeline.command("CLUSTER").arg("KEYSLOT").key(key);
  pipeline.command("CLUSTER").arg("SLOTS");
  pipeline.command("CLUSTER").arg("INFO");
  pipeline.run();
  Map map;
  map.is_down = is_down(pipeline);
  map.slot = static_cast<int>(std::clamp(pipeline.reply(0).integer(), -1LL, 16'383LL));
  const Reply ranges = pipeline.reply(1);
  bool owned = false;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Reply range = ranges[i];
    for (std::size_t node = 2; node < range.size() && map.nodes.size() < kMostNodes; ++node) {
      map.nodes.push_back(node_of(range[node], asked, connection));
    }
    if (map.slot < range[0].integer() || map.slot > range[1].integer()) continue;
    map.owner = node_of(range[2], asked, connection);
    owned = true;
  }
  if (owned) return map;
  throw ConnectionError(asked.text() + " knows no node that serves slot " + std::to_string(map.slot));
}

// The address in a line of CLUSTER NODES: "<id> <ip>:<port>@<bus port>[,<host name>] <flags> ...". Nothing for a node
// without one, which is not met yet, or forgotten.
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
  // A certificate is for the name, where there is one: "...@16379,name,more=..."
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
  if (nodes.empty()) throw ReplyError(asked.text() + " knows no node of its Cluster that has slots");
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
  if (nodes.empty()) throw ReplyError(asked.text() + " names no node of its Cluster");
  return nodes;
}

class ClusterTopology : public Topology, public Cluster {
 public:
  ClusterTopology(const Url& url, const ConnectionOptions& options, const std::string& key)
      : seeds_(url.addresses),
        where_(url.text()),
        login_(login_of(url, options)),
        options_(in_a_hurry(options)),
        limit_(options.connect_timeout),
        key_(key) {}

  std::unique_ptr<Connection> connect() override {
    std::vector<Address> silent;
    return ask_in_turn(candidates(), "no node of " + where_ + " leads to the queue", Clock::now() + limit_,
                       [&](const Address& node) { return connect_by(node, silent); });
  }

  std::unique_ptr<Connection> dial(const Address& node) override {
    return std::make_unique<Connection>(node, login_, options_);
  }

  // Those without slots, too, which CLUSTER SLOTS leaves out: a slot may move to them.
  std::vector<Address> servers() override {
    return ask_in_turn(candidates(), "no node of " + where_ + " names the others", Clock::now() + limit_,
                       [this](const Address& node) { return nodes_of(*dial(node), node); });
  }

  std::vector<Address> masters() override {
    return ask_in_turn(candidates(), "no node of " + where_ + " names the masters", Clock::now() + limit_,
                       [this](const Address& node) { return masters_of(*dial(node), node); });
  }

  bool moved(const Redirection& to) override {
    const std::lock_guard lock(mutex_);
    if (to.slot != slot_) return false;
    owner_ = to.address;
    return true;
  }

 private:
  // To the owner, by what `node` knows. `silent`: nodes that did not answer a moment ago.
  std::unique_ptr<Connection> connect_by(const Address& node, std::vector<Address>& silent) {
    auto connection = open(node, silent);
    const Map map = map_of(*connection, node, key_);
    learn(map);
    if (map.is_down) throw ConnectionError(node.text() + " finds its Cluster down, or is cut off from it");
    return same(map.owner, node) ? std::move(connection) : open(map.owner, silent);
  }

  std::unique_ptr<Connection> open(const Address& node, std::vector<Address>& silent) {
    if (has(silent, node)) throw ConnectionError(node.text() + " did not answer");
    try {
      return std::make_unique<Connection>(node, login_, options_, this);
    } catch (const ConnectionError&) {
      silent.push_back(node);
      const std::lock_guard lock(mutex_);
      owner_.reset();
      silent_.erase(std::remove_if(silent_.begin(), silent_.end(), is(node)), silent_.end());
      silent_.push_back(node);
      throw;
    }
  }

  void learn(const Map& map) {
    const std::lock_guard lock(mutex_);
    if (map.is_down) {  // but it names others to ask
      owner_.reset();
      for (const Address& node : map.nodes) add(nodes_, node);
      return;
    }
    slot_ = map.slot;
    owner_ = map.owner;
    nodes_ = map.nodes;
    silent_.clear();
  }

  // The likeliest first. What is given in the URL stays the last resort: all that was learnt may be gone. Those that were
  // silent come after all others, the last one last: there may be no time for more than a few of them.
  std::vector<Address> candidates() {
    const std::lock_guard lock(mutex_);
    std::vector<Address> nodes;
    if (owner_) nodes.push_back(*owner_);
    for (const Address& node : nodes_) add(nodes, node);
    for (const Address& node : seeds_) add(nodes, node);
    for (const Address& node : silent_) {
      const auto found = std::find_if(nodes.begin(), nodes.end(), is(node));
      if (found != nodes.end()) std::rotate(found, found + 1, nodes.end());
    }
    return nodes;
  }

  const std::vector<Address> seeds_;
  const std::string where_;
  const Login login_;
  const ConnectionOptions options_;  // for each node
  const milliseconds limit_;         // for all of them
  const std::string key_;

  std::mutex mutex_;  // guards the rest
  int slot_ = -1;
  std::optional<Address> owner_;
  std::vector<Address> nodes_;
  std::vector<Address> silent_;  // since the last Map, in the order in which they were found so
};

}  // namespace

std::unique_ptr<Topology> cluster(const Url& url, const ConnectionOptions& options, const std::string& key) {
  return std::make_unique<ClusterTopology>(url, options, key);
}

}  // namespace delayqueue::redis
