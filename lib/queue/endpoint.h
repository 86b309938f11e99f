// Endpoint: the address of one queue, or of one of its partitions (server and keys), and the connections to it.
#pragma once

#include "queue/connection_pool.h"
#include "redis/pipeline.h"
#include "redis/topology.h"
#include "store/keys.h"
#include "store/layout.h"

#include <delayqueue/client.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

// Whether a connection adds the queue to the set of known queues. For readers: only if the queue exists; no: for
// partitions other than 0.
enum class RegisterQueue { yes, if_exists, no };

// Whether the connections are those of the Client, or the Endpoint's own.
enum class SharePool { no, yes };

inline namespace DELAYQUEUE_ABI {
namespace internal {

// Any number of threads may use one Endpoint.
class Endpoint {
 public:
  // Does not connect. Throws std::invalid_argument.
  Endpoint(const Client& client, const std::string& queue, RegisterQueue registers = RegisterQueue::yes,
           SharePool shares = SharePool::no);

  // Another partition of the queue of `home`, with the same pool. It is not added to the set of known queues, which has
  // partition 0 only. Throws std::invalid_argument if the queue can have no such partition.
  Endpoint(const Endpoint& home, unsigned partition);

  // For calls that concern servers, not a queue: masters(), servers(), dial() and connect_to_master().
  static Endpoint of_servers(const Client& client) { return {client, "any", RegisterQueue::if_exists}; }

  const std::string& queue() const { return queue_; }
  const store::KeyScheme& key_options() const { return key_options_; }
  const store::Keys& keys() const { return keys_; }  // of the partition
  const std::string& prefix() const { return key_options_.prefix; }
  const std::string& where() const { return where_; }  // the URL without the password

  // A warning if these options are unsafe, for the logger; empty: none.
  const std::string& warning() const { return warning_; }

  milliseconds command_timeout() const { return command_timeout_; }

  // Returns a new connection on which the queue is verified. It must not outlive the Endpoint.
  std::unique_ptr<redis::Connection> connect();

  // A connection of the pool that no call uses, or none; and a new one. The queue is not verified on them.
  ConnectionPool::Lent take_idle() { return pool_->take(slot_); }
  ConnectionPool::Lent open() { return pool_->connect(slot_); }

  // The outages of the servers of the pool. For this partition: failed(), answered() and away().
  Outages& outages() { return pool_->outages(); }
  bool failed(const std::string& why, redis::Clock::time_point since) {
    return outages().failed(server(), slot_, why, since);
  }
  void answered() {
    if (outages().any()) outages().answered(server());
  }
  std::optional<Outages::Away> away() { return outages().any() ? outages().away(server()) : std::nullopt; }

  // Whether a connection of the same queue, or of the same pool, leads to the master of this partition, as far as it is
  // known. If so, prepares it for requests about the partition.
  bool reaches(redis::Connection& connection) { return pool_->topology().reuse(connection, slot_); }

  // The address of the master of this partition: see Topology::server_of().
  std::string server() const { return pool_->topology().server_of(slot_); }

  // Whether both partitions are on one master, as far as it is known.
  bool shares_master(const Endpoint& other) const {
    const std::string master = server();
    return !is_cluster_ || (!master.empty() && master == other.server());
  }

  // In a Cluster; unset elsewhere, where the keys of a queue need not be in one slot.
  std::optional<int> slot() const { return is_cluster_ ? std::optional(slot_) : std::nullopt; }

  // Verifies the queue; to be called once for each connection. Throws ReplyError if the queue is stored in a format
  // that this version does not read. The first call also adds the queue to the set of known queues, and throws
  // std::invalid_argument if the queue exists with the other hash tag form.
  void verify(redis::Connection& connection);

  // The same in two steps, for a pipeline with other requests: adds the requests of verify(), and reads their answers.
  // The second returns whether register_once() is to be called.
  struct Verification {
    std::size_t format;  // the request in the pipeline
    redis::Answer<store::SenderSettings> settings;
    std::size_t other, own, end;  // the requests about keys with the other hash tag form, and about those of the queue
  };
  Verification add_verification(redis::Pipeline& pipeline);
  bool read_verification(const redis::Pipeline& pipeline, const Verification& verification);

  // Checks the reply to `HMGET settings format`. Throws ReplyError as verify() does.
  void check_format(const redis::Pipeline& pipeline, std::size_t request) const;

  // The copy of the layout in this partition, and the limit of the length, as the last verification has read them.
  store::Layout layout() { return settings().layout; }
  store::SenderSettings settings();

  // All servers that may serve the queue, and a connection to one of them: see Topology. Access no key.
  std::vector<redis::Address> servers() { return pool_->topology().servers(); }
  std::vector<redis::Address> masters() { return pool_->topology().masters(); }
  std::unique_ptr<redis::Connection> dial(const redis::Address& server) { return pool_->topology().dial(server); }

  // Like connect(), but looks at no key. In a Cluster this is the node that has the queue.
  std::unique_ptr<redis::Connection> connect_to_master() { return pool_->topology().connect(slot_); }

  bool is_cluster() const { return is_cluster_; }
  bool registers() const { return registers_ == RegisterQueue::yes; }

  // Adds the queue to the set of known queues; on any partition.
  void register_queue(redis::Connection& connection);

  // The same, unless it has been done.
  void register_once(redis::Connection& connection);

  // The same as a request of a pipeline, whose answer does not matter.
  void add_registration(redis::Pipeline& pipeline);

 private:
  // Throws std::invalid_argument if no queue of the Client can have the name.
  static const std::string& checked_name(const Client& client, const std::string& queue, RegisterQueue registers);

  const std::string queue_;
  const store::KeyScheme key_options_;
  const std::string where_;
  const std::string warning_;
  const milliseconds command_timeout_;
  const store::Keys keys_;
  const store::Keys other_keys_;  // the keys with the other hash tag form: with or without it
  const std::string home_base_;   // of partition 0
  const RegisterQueue registers_;
  const bool is_cluster_;
  const bool check_hash_tag_conflict_;  // not in a Cluster, which requires a hash tag
  const int slot_;                      // in a Cluster
  const std::shared_ptr<ConnectionPool> pool_;
  std::mutex mutex_;  // guards the rest
  bool verified_ = false;
  bool there_ = false;  // the queue is to be registered
  bool registered_ = false;
  store::SenderSettings settings_;
};

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
using internal::Endpoint;

}  // namespace delayqueue
