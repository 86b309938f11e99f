// A master and two replicas, watched by three Sentinels.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "support/node.h"

namespace test {

struct SentinelsOptions {
  NodeOptions node{};      // of the data nodes
  NodeOptions sentinel{};  // of the Sentinels: {"--sentinel", "auth-pass", "dqm", "secret"} is an argument, too
  std::chrono::milliseconds down_after{1000};
};

// The master's name is "dqm", the quorum two. Any thread may call it.
class Sentinels {
 public:
  // Returns when the replicas are linked and every Sentinel knows all the others: about 2.5 s.
  explicit Sentinels(SentinelsOptions options = {});

  // Of the Sentinels, for database 0.
  std::string url() const;

  // Data nodes: 0 was the first master.
  Node& node(std::size_t i) { return *nodes_.at(i); }
  Node& sentinel(std::size_t i) { return *sentinels_.at(i); }
  static constexpr std::size_t kNodes = 3;

  // The one that the Sentinels name, by the newest that one of them knows. Throws when none answers.
  Node& master();

  // Asks for a failover. Returns the new master once all running Sentinels name it and it says that it is one. The old
  // one goes on taking writes for some 10 s after that.
  Node& failover();

  // The master that is not `other`, once all running Sentinels name it and it says that it is one. Throws after 60 s.
  Node& wait_for_master(const Node& other);

  // Lets the Sentinels ask every second what they ask every 10, and tell each other every 0.5 s what they tell every 2:
  // an old master is demoted after some 2 s. Until a Sentinel is restarted.
  void hurry();

  // Until all is as after the start: every node runs, two are linked to the master, and every Sentinel knows so. A
  // frozen or dead node makes it wait in vain.
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
