// Topologies: how to find the server that holds a queue (single server, Sentinel, Cluster).
#pragma once

#include "redis/connection.h"
#include "redis/url.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::redis {

// Locates the master of a queue. The owner of a connection calls connect() again after the connection was lost.
// Thread-safe. Any number of queues may use one. A topology must outlive the connections that it makes.
class Topology {
 public:
  virtual ~Topology() = default;

  // A new, logged-in connection to the master; in a Cluster to the one that owns the slot of the queue. Throws what
  // Connection's constructor throws.
  virtual std::unique_ptr<Connection> connect(int slot) = 0;

  // Whether an open connection of this topology leads to that master, as far as it is known. If so, prepares it for
  // requests about the slot.
  virtual bool reuse(Connection& /*connection*/, int /*slot*/) { return true; }

  // The address of the master that owns the slot in a Cluster, as far as is known. Empty: it is unknown, or there is
  // only one master.
  virtual std::string server_of(int /*slot*/) { return {}; }

  // Every server that may be the master now or after a failover: the master, its replicas, all nodes of a Cluster.
  // Queries Sentinels or Cluster nodes. Throws as connect() does.
  virtual std::vector<Address> servers() = 0;

  // The masters of a Cluster that own slots; empty if there is only one master. Throws as connect() does.
  virtual std::vector<Address> masters() { return {}; }

  // A new, logged-in connection to a given server.
  virtual std::unique_ptr<Connection> dial(const Address& server) = 0;
};

// The credentials, client name and database. Credentials in the options override those in the URL.
Login login_of(const Url& url, const ClientOptions& options);

// One server at one address.
std::unique_ptr<Topology> single_server(const Url& url, const ClientOptions& options);

// The master that Sentinels report, as in https://redis.io/docs/latest/develop/reference/sentinel-clients/. The first
// connect() starts a thread that listens to the Sentinels: when they report another master, it shuts down the
// connections to the old one, because a demoted master accepts writes for a while and then loses them.
std::unique_ptr<Topology> sentinels(const Url& url, const ClientOptions& options);

// The nodes of a Cluster that own slots.
std::unique_ptr<Topology> cluster(const Url& url, const ClientOptions& options);

// The slot of a key in a Cluster: that of its hash tag, if it has one.
int slot_of(std::string_view key);

// ---- For topologies of several nodes -------------------------------------------------------------------------------

// Limit for the number of nodes read from a Sentinel or a Cluster node; further ones are ignored. It is Redis' own
// limit for a Cluster.
constexpr std::size_t kMostNodes = 1000;

// The options for connecting to one of several nodes: a quarter of the connect timeout. The caller applies the whole
// timeout to all nodes together.
ClientOptions with_probe_timeout(ClientOptions options);

// The port number in an answer of `node`. Throws ReplyError if it is out of range.
int port_of(Reply port, const Connection& node);

// Calls `ask` with one node after the other and returns the first result. If every call fails, throws an error that
// begins with `what` and holds the text of each failure: AccessDenied or ReplyError if all nodes refused, else
// ConnectionError. Tries no further node after the deadline.
template <class Ask>
auto first_success(const std::vector<Address>& nodes, const std::string& what, Deadline deadline, Ask ask)
    -> decltype(ask(nodes.front())) {
  std::string failures = what;
  std::size_t answered = 0;
  std::size_t no_access = 0;
  for (const Address& node : nodes) {
    try {
      return ask(node);
    } catch (const ConnectionError& e) {
      failures += std::string("; ") + e.what();
    } catch (const ReplyError& e) {
      ++answered;
      if (dynamic_cast<const AccessDenied*>(&e) != nullptr) ++no_access;
      failures += std::string("; ") + e.what();
    }
    if (Clock::now() >= deadline) break;
  }
  // AccessDenied even if other nodes are down: retrying soon with wrong credentials may lock the account.
  if (answered > 0 && no_access == answered) throw AccessDenied(failures);
  if (answered == nodes.size()) throw ReplyError(failures);
  throw ConnectionError(failures);
}

}  // namespace delayqueue::redis
