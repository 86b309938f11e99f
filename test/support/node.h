// A redis-server of a topology: a process with a port of 127.0.0.1 and a folder, which outlives its kills.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "embedded/server_process.h"
#include "support/local.h"
#include "support/server.h"

namespace test {

struct NodeOptions {
  // As on redis-server's command line: {"--appendonly", "yes"}. They win over what the node sets by itself.
  std::vector<std::string> arguments{};

  std::vector<std::string> login{};  // what cmd() says after AUTH; empty: nothing

  bool tls = false;  // the port speaks TLS only; the arguments name the certificates
  bool cluster = false;
  bool sentinel = false;
};

// Runs as $DELAYQUEUE_REDIS_SERVER, else redis-server, else valkey-server; dies with this process. Without persistence,
// unless the arguments say otherwise. Any thread may call it; kill() and restart() of one node one at a time.
class Node {
 public:
  // Returns when it answers. Throws std::runtime_error with what it wrote when it does not.
  explicit Node(NodeOptions options = {});
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  void kill();  // -9; returns when it is gone
  void freeze();
  void thaw();

  // Kills it if need be, and starts it in its folder, on its port. Returns when it answers and has loaded its data.
  // What was written into its configuration file (a Sentinel's CONFIG REWRITE) stays.
  void restart();

  bool running() const { return running_; }  // neither killed, nor frozen, nor about to start
  int pid() const;                           // -1 when it is dead
  int port() const { return port_.number(); }
  int bus_port() const { return bus_port_->number(); }  // of a cluster node
  std::string address() const;                          // 127.0.0.1:port
  std::string url() const;
  std::string file(const std::string& name) const { return dir_.file(name); }

  // Over a unix socket and a connection of its own, so that neither TLS nor faults of the port are in the way. Errors
  // of Redis are replies. Throws std::runtime_error when there is no answer within 3 s.
  Reply cmd(const std::vector<std::string>& words) const;

  std::string info(const std::string& field) const;  // of INFO; empty when there is none

 private:
  std::vector<std::string> settings() const;
  void start();
  bool answers() const;

  const NodeOptions options_;
  const TempDir dir_;
  const Port port_;
  const std::unique_ptr<const Port> bus_port_;
  mutable std::mutex mutex_;  // guards process_
  std::unique_ptr<delayqueue::Process> process_;
  std::atomic<bool> running_{false};
};

// Commands of a topology's start, which succeed. Throws std::runtime_error.
Reply must(const Node& node, const std::vector<std::string>& words);

// Asks until it is true; what it throws counts as false. Throws std::runtime_error "<what>: not within 60 s".
void wait_until(const std::string& what, const std::function<bool()>& condition);

}  // namespace test
