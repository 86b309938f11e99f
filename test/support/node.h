// A redis-server of a topology. Its port and folder stay the same when its process is killed and restarted.
#pragma once

#include "embedded/server_process.h"
#include "support/local.h"
#include "support/server.h"

namespace test {

struct NodeOptions {
  // As on redis-server's command line: {"--appendonly", "yes"}. They override the node's own settings.
  std::vector<std::string> arguments{};

  std::vector<std::string> login{};  // arguments of cmd()'s AUTH; empty: no AUTH

  bool tls = false;  // the port accepts only TLS; `arguments` name the certificates
  bool cluster = false;
  bool sentinel = false;
};

// Runs $DELAYQUEUE_REDIS_SERVER, else redis-server, else valkey-server. The server dies with this process. It has no
// persistence unless the arguments enable it. Safe to call from any thread, but kill() and restart() of one node must
// not run at the same time.
class Node {
 public:
  // Returns when the server answers. Throws std::runtime_error with the server's log when it does not.
  explicit Node(NodeOptions options = {});
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  void kill();  // with SIGKILL; returns when the process is gone
  void freeze();
  void thaw();

  // Kills the server if it runs, and starts it again in its folder on its port. Returns when it answers and has loaded
  // its data. Changes in its configuration file (a Sentinel's CONFIG REWRITE) are kept.
  void restart();

  bool running() const { return running_; }  // false when killed, frozen or not yet started
  int pid() const;                           // -1 when it does not run
  int port() const { return port_.number(); }
  int bus_port() const { return bus_port_->number(); }  // cluster nodes only
  std::string address() const;                          // 127.0.0.1:port
  std::string url() const;
  std::string file(const std::string& name) const { return dir_.file(name); }

  // Sends a command over a separate connection to the unix socket, so that TLS and faults of the port do not matter.
  // An error reply is returned. Throws std::runtime_error when there is no answer within 10 s.
  Reply cmd(const std::vector<std::string>& words) const;

  std::string info(const std::string& field) const;  // a field of INFO; empty when there is none

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

// Sends a command. Throws std::runtime_error if the reply is an error.
Reply must(const Node& node, const std::vector<std::string>& words);

// Polls `condition`; an exception counts as false. Throws std::runtime_error "<what>: not within 60 s".
void wait_until(const std::string& what, const std::function<bool()>& condition);

}  // namespace test
