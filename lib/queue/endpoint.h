// One queue on one server: where it is, and how to get a connection that is fit to work on it.
#pragma once

#include "redis/topology.h"
#include "store/keys.h"

#include <delayqueue/options.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace delayqueue {

// Whether a queue comes into being by this. One that only looks makes no queue known that is not there.
enum class RegisterQueue { works, looks };

// Any thread may use it.
class Endpoint {
 public:
  // Connects to nothing yet. Throws std::invalid_argument.
  Endpoint(const std::string& url, const std::string& queue, const ConnectionOptions& connection,
           const QueueOptions& options, RegisterQueue registers = RegisterQueue::works);

  const store::Keys& keys() const { return keys_; }
  const std::string& prefix() const { return prefix_; }
  const std::string& where() const { return where_; }  // the URL without its password

  // What makes these options unsafe; empty: nothing. For the logger, before anything is sent.
  const std::string& warning() const { return warning_; }

  // A new connection. The first one also makes sure that the queue does not exist under its other name, with or
  // without a hash tag (std::invalid_argument), and enters it in the set of known queues. It must not outlive this.
  std::unique_ptr<redis::Connection> connect();

  // Every server that may serve the queue, and a connection to one of them: see Topology. No key is touched.
  std::vector<redis::Address> servers() { return topology_->servers(); }
  std::vector<redis::Address> masters() { return topology_->masters(); }
  std::unique_ptr<redis::Connection> dial(const redis::Address& server) { return topology_->dial(server); }

  // Enters the queue in the set of known queues.
  void register_queue(redis::Connection& connection);

 private:
  Endpoint(const redis::Url& url, const std::string& queue, const ConnectionOptions& connection,
           const QueueOptions& options, RegisterQueue registers);

  void verify_and_register(redis::Connection& connection);

  const std::string prefix_;
  const std::string where_;
  const std::string warning_;
  const store::Keys keys_;
  const store::Keys other_keys_;  // what the queue's keys would be under the other hash tag form
  const RegisterQueue registers_;
  const bool check_hash_tag_conflict_;  // under those; not in a Cluster, where only a hash tag works
  const std::unique_ptr<redis::Topology> topology_;
  std::mutex mutex_;  // guards introduced_
  bool verified_ = false;
};

}  // namespace delayqueue
