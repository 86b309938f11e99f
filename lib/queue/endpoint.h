// Endpoint: the address of one queue (server and keys), and the connections to it.
#pragma once

#include "queue/connection_pool.h"
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

// Whether the connections are those of the process for the same URL and options, or the Endpoint's own.
enum class SharePool { no, yes };

// Any number of threads may use one Endpoint.
class Endpoint {
 public:
  // Does not connect. Throws std::invalid_argument.
  Endpoint(const std::string& url, const std::string& queue, const ConnectionOptions& connection,
           const QueueOptions& options, RegisterQueue registers = RegisterQueue::yes, SharePool shares = SharePool::no);

  // For calls that concern servers, not a queue: masters(), servers(), dial() and connect_to_master().
  static Endpoint of_servers(const std::string& url, const ConnectionOptions& connection) {
    return {url, "any", connection, {}, RegisterQueue::if_exists};
  }

  const std::string& queue() const { return queue_; }
  const store::KeyOptions& key_options() const { return key_options_; }
  const store::Keys& keys() const { return keys_; }  // of partition 0
  const std::string& prefix() const { return key_options_.prefix; }
  const std::string& where() const { return where_; }  // the URL without the password

  // A warning if these options are unsafe, for the logger; empty: none.
  const std::string& warning() const { return warning_; }

  // Returns a new connection on which the queue is verified. It must not outlive the Endpoint.
  std::unique_ptr<redis::Connection> connect();

  // A connection of the pool that no call uses, or none; and a new one. The queue is not verified on them.
  ConnectionPool::Lent take_idle() { return pool_->take(slot_); }
  ConnectionPool::Lent open() { return pool_->connect(slot_); }

  // Verifies the queue; to be called once for each connection. Throws ReplyError if the queue is stored in a format
  // that this version does not read. The first call also adds the queue to the set of known queues, and throws
  // std::invalid_argument if the queue exists with the other hash tag form.
  void verify(redis::Connection& connection);

  // All servers that may serve the queue, and a connection to one of them: see Topology. Access no key.
  std::vector<redis::Address> servers() { return pool_->topology().servers(); }
  std::vector<redis::Address> masters() { return pool_->topology().masters(); }
  std::unique_ptr<redis::Connection> dial(const redis::Address& server) { return pool_->topology().dial(server); }

  // Like connect(), but looks at no key. Not in a Cluster, which has several masters.
  std::unique_ptr<redis::Connection> connect_to_master() { return pool_->topology().connect(slot_); }

  // Adds the queue to the set of known queues.
  void register_queue(redis::Connection& connection);

 private:
  Endpoint(const redis::Url& url, const std::string& queue, const ConnectionOptions& connection,
           const QueueOptions& options, RegisterQueue registers, SharePool shares);

  void check_format(const redis::Pipeline& pipeline) const;

  const std::string queue_;
  const store::KeyOptions key_options_;
  const std::string where_;
  const std::string warning_;
  const store::Keys keys_;
  const store::Keys other_keys_;  // the keys with the other hash tag form: with or without it
  const RegisterQueue registers_;
  const bool check_hash_tag_conflict_;  // not in a Cluster, which requires a hash tag
  const int slot_;                      // in a Cluster
  const std::shared_ptr<ConnectionPool> pool_;
  std::mutex mutex_;  // guards verified_
  bool verified_ = false;
};

}  // namespace delayqueue
