// Endpoint: the address of one queue (server and keys), and the connections to it.
#pragma once

#include "redis/pipeline.h"
#include "redis/topology.h"
#include "store/keys.h"

#include <delayqueue/options.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace delayqueue {

// Whether a connection adds the queue to the set of known queues. For readers: only if the queue exists.
enum class RegisterQueue { yes, if_exists };

// Any number of threads may use one Endpoint.
class Endpoint {
 public:
  // Does not connect. Throws std::invalid_argument.
  Endpoint(const std::string& url, const std::string& queue, const ConnectionOptions& connection,
           const QueueOptions& options, RegisterQueue registers = RegisterQueue::yes);

  // For calls that concern servers, not a queue: masters(), servers(), dial() and connect_to_master().
  static Endpoint of_servers(const std::string& url, const ConnectionOptions& connection) {
    return {url, "any", connection, {}, RegisterQueue::if_exists};
  }

  const store::Keys& keys() const { return keys_; }
  const std::string& prefix() const { return prefix_; }
  const std::string& where() const { return where_; }  // the URL without the password

  // A warning if these options are unsafe, for the logger; empty: none.
  const std::string& warning() const { return warning_; }

  // Returns a new connection, which must not outlive the Endpoint. Throws ReplyError if the queue is stored in a format
  // that this version does not read. The first call also adds the queue to the set of known queues, and throws
  // std::invalid_argument if the queue exists with the other hash tag form.
  std::unique_ptr<redis::Connection> connect();

  // All servers that may serve the queue, and a connection to one of them: see Topology. Access no key.
  std::vector<redis::Address> servers() { return topology_->servers(); }
  std::vector<redis::Address> masters() { return topology_->masters(); }
  std::unique_ptr<redis::Connection> dial(const redis::Address& server) { return topology_->dial(server); }

  // Like connect(), but looks at no key. Not in a Cluster, which has several masters.
  std::unique_ptr<redis::Connection> connect_to_master() { return topology_->connect(); }

  // Adds the queue to the set of known queues.
  void register_queue(redis::Connection& connection);

 private:
  Endpoint(const redis::Url& url, const std::string& queue, const ConnectionOptions& connection,
           const QueueOptions& options, RegisterQueue registers);

  void verify(redis::Connection& connection);
  void check_format(const redis::Pipeline& pipeline) const;

  const std::string prefix_;
  const std::string where_;
  const std::string warning_;
  const store::Keys keys_;
  const store::Keys other_keys_;  // the keys with the other hash tag form: with or without it
  const RegisterQueue registers_;
  const bool check_hash_tag_conflict_;  // not in a Cluster, which requires a hash tag
  const std::unique_ptr<redis::Topology> topology_;
  std::mutex mutex_;  // guards verified_
  bool verified_ = false;
};

}  // namespace delayqueue
