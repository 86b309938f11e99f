#include "support/sentinels.h"

namespace test {
namespace {

using namespace std::chrono_literals;
using Fields = std::map<std::string, std::string>;

Fields fields(const Reply& flat) {
  Fields result;
  const auto words = flat.strings();
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) result[words[i]] = words[i + 1];
  return result;
}

Fields seen_by(const Node& sentinel) { return fields(must(sentinel, {"SENTINEL", "MASTER", "dqm"})); }

NodeOptions with(NodeOptions options, const std::vector<std::string>& arguments) {
  options.arguments.insert(options.arguments.begin(), arguments.begin(), arguments.end());
  return options;
}

NodeOptions data_node(const SentinelsOptions& options, const Node* master) {
  if (master == nullptr) return options.node;
  return with(options.node, {"--replicaof", "127.0.0.1", std::to_string(master->port())});
}

NodeOptions watcher(const SentinelsOptions& options, const Node& master) {
  const std::string port = std::to_string(master.port());
  auto result = with(options.sentinel,
                     {"--sentinel", "monitor", "dqm", "127.0.0.1", port, "2", "--sentinel", "down-after-milliseconds",
                      "dqm", std::to_string(options.down_after.count()), "--sentinel", "failover-timeout", "dqm",
                      "5000", "--sentinel", "parallel-syncs", "dqm", "1"});
  result.sentinel = true;
  return result;
}

bool linked_to(const Node& replica, const Node& master) {
  return replica.info("role") == "slave" && replica.info("master_port") == std::to_string(master.port()) &&
         replica.info("master_link_status") == "up";
}

bool knows_all(const Node& sentinel, const Node& master) {
  auto seen = seen_by(sentinel);
  const auto replicas = must(sentinel, {"SENTINEL", "REPLICAS", "dqm"}).array;
  const bool fine = std::all_of(replicas.begin(), replicas.end(), [](const Reply& replica) {
    auto flags = fields(replica);
    return flags["flags"] == "slave" && flags["master-link-status"] == "ok";
  });
  return fine && replicas.size() == 2 && seen["flags"] == "master" && seen["port"] == std::to_string(master.port()) &&
         seen["num-other-sentinels"] == "2";
}

}  // namespace

Sentinels::Sentinels(SentinelsOptions options) : options_(std::move(options)) {
  for (std::size_t i = 0; i < kNodes; ++i) {
    const Node* master = i == 0 ? nullptr : nodes_[0].get();
    nodes_.push_back(std::make_unique<Node>(data_node(options_, master)));
  }
  wait_until("replication", [&] { return linked_to(node(1), node(0)) && linked_to(node(2), node(0)); });
  for (int i = 0; i < 3; ++i) sentinels_.push_back(std::make_unique<Node>(watcher(options_, node(0))));
  wait_ok();
}

std::string Sentinels::url() const {
  std::string result = options_.sentinel.tls ? "rediss+sentinel://" : "redis+sentinel://";
  for (const auto& sentinel : sentinels_) result += (sentinel == sentinels_[0] ? "" : ",") + sentinel->address();
  return result + "/dqm/0";
}

Node& Sentinels::by_port(int port) {
  for (const auto& node : nodes_) {
    if (node->port() == port) return *node;
  }
  throw std::runtime_error("no data node has the port " + std::to_string(port));
}

Node& Sentinels::master() {
  long long newest = -1;
  int port = 0;
  for (const auto& sentinel : sentinels_) {
    if (!sentinel->running()) continue;
    auto seen = seen_by(*sentinel);
    const long long epoch = std::stoll(seen.at("config-epoch"));
    if (epoch <= newest) continue;
    newest = epoch;
    port = std::stoi(seen.at("port"));
  }
  if (newest < 0) throw std::runtime_error("no Sentinel is running");
  return by_port(port);
}

// A Sentinel may accept a failover and abort it later. It refuses one while another is in progress.
Node& Sentinels::failover() {
  const Node& old = master();
  wait_until("a failover from " + old.address(), [&] {
    if (&master() != &old) return true;
    const auto running = std::find_if(sentinels_.begin(), sentinels_.end(), [](auto& one) { return one->running(); });
    const bool consents = running != sentinels_.end() && (*running)->cmd({"SENTINEL", "FAILOVER", "dqm"}) == "OK";
    return consents && eventually([&] { return &master() != &old; }, 3s);
  });
  return wait_for_master(old);
}

Node& Sentinels::wait_for_master(const Node& other) {
  Node* found = nullptr;
  wait_until("another master than " + other.address(), [&] {
    found = &master();
    return found != &other && named_by_all(found->port()) && found->info("role") == "master";
  });
  return *found;
}

bool Sentinels::named_by_all(int port) const {
  return std::all_of(sentinels_.begin(), sentinels_.end(), [port](const auto& sentinel) {
    return !sentinel->running() || seen_by(*sentinel).at("port") == std::to_string(port);
  });
}

void Sentinels::hurry() {
  for (const auto& sentinel : sentinels_) {
    must(*sentinel, {"SENTINEL", "DEBUG", "INFO-PERIOD", "1000", "PUBLISH-PERIOD", "500"});
  }
}

void Sentinels::wait_ok() {
  wait_until("Sentinels that all know all", [this] { return all_as_started(); });
}

bool Sentinels::all_as_started() {
  const Node& leader = master();
  const auto linked = std::count_if(nodes_.begin(), nodes_.end(),
                                    [&](const auto& one) { return one.get() != &leader && linked_to(*one, leader); });
  return linked == 2 && leader.info("role") == "master" &&
         std::all_of(sentinels_.begin(), sentinels_.end(), [&](const auto& one) { return knows_all(*one, leader); });
}

}  // namespace test
