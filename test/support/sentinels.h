// A master with two replicas, monitored by three Sentinels.
#pragma once

#include "support/node.h"

namespace test {

struct SentinelsOptions {
  NodeOptions node{};      // for the data nodes
  NodeOptions sentinel{};  // for the Sentinels; arguments such as {"--sentinel", "auth-pass", "dqm", "secret"} work
  std::chrono::milliseconds down_after{1000};
};

// The master's name is "dqm", the quorum is two. Safe to call from any thread.
class Sentinels {
 public:
  // Returns when the replicas are connected and every Sentinel knows all other nodes: about 2.5 s.
  explicit Sentinels(SentinelsOptions options = {});

  // Lists the Sentinels, for database 0.
  std::string url() const;

  // Data nodes: node 0 was the first master.
  Node& node(std::size_t i) { return *nodes_.at(i); }
  Node& sentinel(std::size_t i) { return *sentinels_.at(i); }
  static constexpr std::size_t kNodes = 3;

  // The master according to the Sentinel with the highest configuration epoch. Throws when no Sentinel runs.
  Node& master();

  // Starts a failover. Returns the new master, once all running Sentinels name it and it reports the role of master.
  // The old master accepts writes for about 10 s after that.
  Node& failover();

  // Waits for a master that is not `other`: all running Sentinels name it and it reports the role of master. Throws
  // after 60 s.
  Node& wait_for_master(const Node& other);

  // Makes the Sentinels send INFO every second instead of every 10 s, and their hello messages every 0.5 s instead of
  // every 2 s: they demote an old master after about 2 s. A Sentinel that restarts loses this setting.
  void hurry();

  // Waits for the state after the start: all nodes run, two are replicas of the master, and every Sentinel knows so.
  // Times out if a node is frozen or dead.
  void wait_ok();

 private:
  Node& by_port(int port);
  bool named_by_all(int port) const;
  bool all_as_started();

  const SentinelsOptions options_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Node>> sentinels_;
};

}  // namespace test
