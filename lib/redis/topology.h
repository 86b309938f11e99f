// Which server is to be spoken to.
#pragma once

#include "redis/connection.h"
#include "redis/url.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace delayqueue::redis {

// Knows where the master of a queue is; asked again whenever a connection broke. Any thread may call it. It must
// outlive the connections it makes.
class Topology {
 public:
  virtual ~Topology() = default;

  // A new, logged-in connection to the master. Throws what Connection's constructor throws.
  virtual std::unique_ptr<Connection> connect() = 0;

  // Every server that may be the master now or after a failover: replicas, and all nodes of a Cluster. Asks those who
  // know; throws as connect() does.
  virtual std::vector<Address> servers() = 0;

  // The masters of a Cluster that have slots; empty where connect() leads to the only master. Throws as connect() does.
  virtual std::vector<Address> masters() { return {}; }

  // A new, logged-in connection to one of them.
  virtual std::unique_ptr<Connection> dial(const Address& server) = 0;
};

// The part of `options` and `url` that logs in; what is set in the options wins.
Login login_of(const Url& url, const ConnectionOptions& options);

// One server at one address.
std::unique_ptr<Topology> single_server(const Url& url, const ConnectionOptions& options);

// The master that the Sentinels name, by https://redis.io/docs/latest/develop/reference/sentinel-clients/. From the
// first connect() on it follows what they say, in a thread of its own: when they name another master, the connections
// to the old one are cut. A demoted master would go on to take writes for a while, and lose them.
std::unique_ptr<Topology> sentinels(const Url& url, const ConnectionOptions& options);

// The node of a Cluster that owns the slot of `key`.
std::unique_ptr<Topology> cluster(const Url& url, const ConnectionOptions& options, const std::string& key);

// ---- For topologies of several nodes -------------------------------------------------------------------------------

// What a Sentinel or a node names beyond these is left out. It is Redis' own limit for a Cluster.
constexpr std::size_t kMostNodes = 1000;

// A quarter of the connect timeout is for each node that is asked for the way, the whole of it for all.
ConnectionOptions in_a_hurry(ConnectionOptions options);

// The port that `node` names. Throws ReplyError if it is none.
int port_of(Reply port, const Connection& node);

// Calls `ask` with one node after the other until one answers. If none does, throws with what each of them said: an
// AccessError or ReplyError if all of them refused, else ConnectionError.
template <class Ask>
auto ask_in_turn(const std::vector<Address>& nodes, const std::string& what, Deadline deadline, Ask ask)
    -> decltype(ask(nodes.front())) {
  std::string said = what;
  std::size_t answered = 0;
  std::size_t no_access = 0;
  for (const Address& node : nodes) {
    try {
      return ask(node);
    } catch (const ConnectionError& e) {
      said += std::string("; ") + e.what();
    } catch (const ReplyError& e) {
      ++answered;
      if (dynamic_cast<const AccessError*>(&e) != nullptr) ++no_access;
      said += std::string("; ") + e.what();
    }
    if (Clock::now() >= deadline) break;
  }
  if (answered > 0 && no_access == answered) throw AccessError(said);  // though others are down: it may lock an account
  if (answered == nodes.size()) throw ReplyError(said);
  throw ConnectionError(said);
}

}  // namespace delayqueue::redis
