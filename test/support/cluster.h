// A Cluster: three masters with a replica each, or as many as a test needs.
#pragma once

#include "support/node.h"

namespace test {

struct ClusterOptions {
  NodeOptions node{};
  std::chrono::milliseconds node_timeout{1000};
  std::size_t masters = 3;
  bool replicas = true;  // one for each master
};

// The hash slot of a key. Applies the hash tag rule.
int slot_of(const std::string& key);

// Safe to call from any thread. Migrations of one slot must not run at the same time.
class Cluster {
 public:
  // Returns when all nodes agree and accept writes, and the replicas are connected: about 2.5 s.
  explicit Cluster(ClusterOptions options = {});

  // Lists the nodes that were masters at the start.
  std::string url() const;

  // At the start, the first nodes are the masters, and the others are their replicas in the same order.
  Node& node(std::size_t i) { return *nodes_.at(i); }
  std::size_t size() const { return nodes_.size(); }
  std::size_t masters() const { return options_.masters; }  // at the start
  static constexpr std::size_t kNodes = 6;                  // with the default options

  // The running master that owns the key's slot. Waits at most 60 s for one, then throws.
  Node& owner(const std::string& key) { return owner_of(slot_of(key)); }
  Node& owner_of(int slot);

  // A running node that reports itself as a replica of `master`. Throws when there is none.
  Node& replica_of(const Node& master);
  Node& other_master(const Node& master);  // another running master that owns slots

  // Runs CLUSTER FAILOVER on the owner's replica, after wait_calm(owner). Returns the new owner, once all running nodes
  // agree on it and the old owner is its connected replica.
  Node& failover(const std::string& key);

  // Waits until 4 node timeouts after the node last won an election. Redis 7 keeps the votes for that long: if the node
  // becomes a replica and its master dies in that time, it takes over with a stale epoch, and the nodes never agree
  // again.
  void wait_calm(const Node& node) const;

  // Migrates a slot from its owner in steps: begin_migration, migrate_keys until it returns 0, finish_migration.
  void begin_migration(int slot, Node& to);
  std::size_t migrate_keys(int slot, std::size_t count);  // number of keys moved
  void finish_migration(int slot);                        // returns when all running nodes know the new owner

  // Adds a master without slots. Returns when all nodes know it. No other call at the same time.
  Node& add_master();

  // Waits until every running node reports a healthy cluster and its replicas are connected.
  void wait_ok();

 private:
  void wire();
  Node* find_owner(int slot);
  std::pair<Node*, Node*> migration(int slot);  // source, destination
  bool known_by_all(int slot, const std::string& id) const;
  bool in_order(const Node& node) const;

  const ClusterOptions options_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::mutex mutex_;                                   // guards migrations_
  std::map<int, std::pair<Node*, Node*>> migrations_;  // slot: source, destination
};

// Names of queues whose keys are on one master each, a queue for each master.
std::vector<std::string> queue_of_each_master(Cluster& cluster);

}  // namespace test
