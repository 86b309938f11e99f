// ConnectionPool: connections to the same servers with the same options, of this process. Each is lent to one call at
// a time.
//
// A call takes a connection that no other call uses, and opens one if there is none. So the objects that one thread
// uses share one connection, and no call waits for a call of another object: neither for its round trip, nor for a
// large payload, nor until its writes are durable. A connection that breaks fails only the call that has it.
#pragma once

#include "queue/outages.h"
#include "redis/topology.h"
#include "redis/url.h"

#include <delayqueue/client.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

namespace delayqueue {

// Any number of threads may use one ConnectionPool.
class ConnectionPool {
  struct Entry;

 public:
  // A connection while a call uses it. The destructor returns it to the pool, close() does not.
  class Lent {
   public:
    Lent() = default;  // none

    redis::Connection& operator*() const { return *entry_->connection; }
    bool is_none() const { return entry_ == nullptr; }

    // The number of the connection: no other connection of this process has the same.
    std::uint64_t number() const { return entry_->number; }

    void close() { delete entry_.release(); }

   private:
    friend class ConnectionPool;
    struct Return {
      Return() : pool(nullptr) {}
      explicit Return(ConnectionPool* to) : pool(to) {}
      void operator()(Entry* entry) const noexcept { pool->give_back(std::unique_ptr<Entry>(entry)); }

      ConnectionPool* pool;
    };

    Lent(std::unique_ptr<Entry> entry, ConnectionPool* pool) : entry_(entry.release(), Return(pool)) {}

    std::unique_ptr<Entry, Return> entry_;
  };

  static constexpr milliseconds kIdleLimit{10'000};

  // The folder of the URL is absolute. A connection that no call has needed for `idle_limit` is closed when a call
  // returns another one to the same server. Throws as the constructors of topologies do.
  ConnectionPool(const redis::Url& url, const ClientOptions& options, milliseconds idle_limit = kIdleLimit);
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  // The topology of all users. It outlives the connections of the pool.
  redis::Topology& topology() { return *topology_; }

  // The outages of its servers, which its users share.
  Outages& outages() { return outages_; }

  // The connection to the owner of the slot (see Topology) that was returned last and is usable as far as it is known
  // without a request; or none.
  Lent take(int slot);

  // A new connection. Throws as Topology::connect() does.
  Lent connect(int slot);

 private:
  struct Entry {
    std::unique_ptr<redis::Connection> connection;
    std::uint64_t number = 0;
    redis::Clock::time_point returned{};
  };

  void give_back(std::unique_ptr<Entry> entry) noexcept;
  void probe(int slot);

  const std::unique_ptr<redis::Topology> topology_;
  const milliseconds idle_limit_;
  std::mutex mutex_;                                    // guards idle_
  std::deque<std::unique_ptr<Entry>> idle_;             // in the order in which they were returned
  Outages outages_{[this](int slot) { probe(slot); }};  // last: its thread uses the members above
};

}  // namespace delayqueue
