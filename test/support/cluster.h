// A Cluster of three masters and three replicas.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "support/node.h"

namespace test {

struct ClusterOptions {
  NodeOptions node{};
  std::chrono::milliseconds node_timeout{1000};
};

// The slot of a key, by the rule of hash tags.
int slot_of(const std::string& key);

// Any thread may call it; migrations of one slot one at a time.
class Cluster {
 public:
  // Returns when all nodes agree and take writes, and the replicas are linked: about 2.5 s.
  explicit Cluster(ClusterOptions options = {});

  // Of the three first masters.
  std::string url() const;

  // 0 to 2 were masters first, 3 to 5 their replicas.
  Node& node(std::size_t i) { return *nodes_.at(i); }
  static constexpr std::size_t kNodes = 6;

  // The running node that says the slot is its own. Waits for one, 60 s at most, then throws.
  Node& owner(const std::string& key) { return owner_of(slot_of(key)); }
  Node& owner_of(int slot);

  // A running replica, as it says itself. Throws when there is none.
  Node& replica_of(const Node& master);
  Node& other_master(const Node& master);  // one of the two others that own slots

  // Asks the replica of the owner to take over, once the owner is calm. Returns the new owner once all running nodes know it, and the old one
  // is linked to it.
  Node& failover(const std::string& key);

  // Until 4 node timeouts after the node last won an election. Redis 7 keeps the votes for so long: if the node becomes
  // a replica and its master dies in that time, it takes over with a stale epoch, and the nodes never agree again.
  void wait_calm(const Node& node) const;

  // Moves a slot from its owner in steps: begin, migrate_keys until it returns 0, finish.
  void begin_migration(int slot, Node& to);
  std::size_t migrate_keys(int slot, std::size_t count);  // how many went
  void finish_migration(int slot);                        // returns when all running nodes know the new owner

  // Until every running node finds the cluster in order, and its replicas are linked.
  void wait_ok();

 private:
  void wire();
  Node* find_owner(int slot);
  std::pair<Node*, Node*> migration(int slot);  // from, to
  bool known_by_all(int slot, const std::string& id) const;
  bool in_order(const Node& node) const;

  const ClusterOptions options_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::mutex mutex_;                                   // guards migrations_
  std::map<int, std::pair<Node*, Node*>> migrations_;  // slot: from, to
};

}  // namespace test
