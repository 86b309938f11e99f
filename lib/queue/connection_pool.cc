#include "queue/connection_pool.h"

#include "embedded/folder_servers.h"
#include "embedded/private_folder.h"
#include "os/per_process.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

namespace delayqueue {
namespace {

using redis::Connection;
using redis::Topology;
using redis::Url;

// The server of an embedded: URL. The first connection to a server that does not run starts it.
class EmbeddedServer : public Topology {
 public:
  EmbeddedServer(Url url, ClientOptions options) : url_(std::move(url)), options_(std::move(options)) {
    // Resolved now, because the program may change its working directory later.
    if (!url_.folder.empty()) folder_ = absolute_folder(url_.folder);
  }

  std::unique_ptr<Connection> connect(int /*slot*/) override { return dial(servers().front()); }

  std::vector<redis::Address> servers() override {
    redis::Address address;
    address.path = embedded_socket(folder_);
    address.own_user = true;
    return {address};
  }

  std::unique_ptr<Connection> dial(const redis::Address& server) override {
    return std::make_unique<Connection>(server, redis::login_of(url_, options_), options_);
  }

 private:
  const Url url_;
  const ClientOptions options_;
  std::string folder_;
};

std::unique_ptr<Topology> make_topology(const Url& url, const ClientOptions& options) {
  switch (url.kind) {
    case Url::Kind::embedded:
      return std::make_unique<EmbeddedServer>(url, options);
    case Url::Kind::sentinel:
      return redis::sentinels(url, options);
    case Url::Kind::cluster:
      return redis::cluster(url, options);
    case Url::Kind::server:
      break;
  }
  return redis::single_server(url, options);
}

// ---- The pools of the process ---------------------------------------------------------------------------------------

// A text that is equal for equal URLs and options, and for no others. The structured bindings name all members of a
// struct: a new member does not compile until it is part of the text.
class PoolName {
 public:
  PoolName(const Url& url, const ClientOptions& options) {
    add(url);
    add(options);
  }

  std::string text() && { return std::move(text_); }

 private:
  void add(std::string_view word) {
    add(static_cast<std::int64_t>(word.size()));
    text_ += word;
  }

  void add(std::int64_t number) {
    text_ += std::to_string(number);
    text_ += ' ';
  }

  void add(const redis::Address& address) {
    const auto& [host, port, path, tls, own_user] = address;
    add(host);
    add(port);
    add(path);
    add(tls);
    add(own_user);
  }

  void add(const Url& url) {
    const auto& [kind, addresses, master, folder, user, password, db] = url;
    add(static_cast<int>(kind));
    add(static_cast<std::int64_t>(addresses.size()));
    for (const redis::Address& address : addresses) add(address);
    add(master);
    add(folder);
    add(user);
    add(password);
    add(db);
  }

  void add(const TlsOptions& options) {
    const auto& [ca_file, cert_file, key_file, server_name] = options;
    add(ca_file);
    add(cert_file);
    add(key_file);
    add(server_name);
  }

  void add(const SentinelOptions& options) {
    const auto& [user, password, encrypted, tls, refuse_unpinned] = options;
    add(user);
    add(password);
    add(encrypted ? static_cast<int>(*encrypted) : -1);
    add(tls.has_value());
    if (tls) add(*tls);
    add(refuse_unpinned);
  }

  void add(const ClientOptions& options) {
    const auto& [user, password, client_name, connect_timeout, command_timeout, tls, sentinel] = options;
    add(user);
    add(password);
    add(client_name);
    add(connect_timeout.count());
    add(command_timeout.count());
    add(tls);
    add(sentinel);
  }

  std::string text_;
};

struct Registry {
  std::mutex mutex;  // guards the map
  std::map<std::string, std::weak_ptr<ConnectionPool>> pools;
};

PerProcess<Registry> registry_of_pools;

}  // namespace

std::shared_ptr<ConnectionPool> ConnectionPool::of_process(Url url, const ClientOptions& options) {
  // The same relative folder is another one after the program has changed its working directory.
  if (!url.folder.empty()) url.folder = absolute_folder(url.folder);
  std::string name = PoolName(url, options).text();
  Registry& registry = registry_of_pools.get();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.pools.find(name);
  std::shared_ptr<ConnectionPool> pool = found == registry.pools.end() ? nullptr : found->second.lock();
  if (pool != nullptr) return pool;
  pool = std::make_shared<ConnectionPool>(url, options);
  registry.pools[name] = pool;
  pool->name_ = std::move(name);
  return pool;
}

ConnectionPool::ConnectionPool(const Url& url, const ClientOptions& options, milliseconds idle_limit)
    : topology_(make_topology(url, options)), idle_limit_(idle_limit) {}

ConnectionPool::~ConnectionPool() {
  if (name_.empty()) return;
  Registry& registry = registry_of_pools.get();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.pools.find(name_);
  // Another thread may already have made the next pool with this name.
  if (found != registry.pools.end() && found->second.expired()) registry.pools.erase(found);
}

ConnectionPool::Lent ConnectionPool::take(int slot) {
  for (;;) {
    std::unique_ptr<Entry> entry;
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const std::unique_ptr<Entry>& idle) {
        return topology_->reuse(*idle->connection, slot);
      });
      if (found == idle_.rend()) return {};
      entry = std::move(*found);
      idle_.erase(std::next(found).base());
    }
    if (!entry->connection->is_stale()) return {std::move(entry), this};
  }
}

ConnectionPool::Lent ConnectionPool::connect(int slot) {
  static std::atomic<std::uint64_t> made{0};
  auto entry = std::make_unique<Entry>();
  entry->connection = topology_->connect(slot);
  entry->number = ++made;
  return {std::move(entry), this};
}

// Without memory for the list the connection is closed.
void ConnectionPool::give_back(std::unique_ptr<Entry> entry) noexcept try {
  std::unique_ptr<Entry> unneeded;  // closed after the lock is released
  const auto now = redis::Clock::now();
  entry->returned = now;
  const std::lock_guard lock(mutex_);
  // In a Cluster the only connection to a node stays, however seldom it is used.
  const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const std::unique_ptr<Entry>& idle) {
    if (now - idle->returned < idle_limit_) return false;
    return idle->connection->where() == entry->connection->where() || idle->connection->is_stale();
  });
  if (found != idle_.end()) {
    unneeded = std::move(*found);
    idle_.erase(found);
  }
  idle_.push_back(std::move(entry));
} catch (const std::exception&) {
}

}  // namespace delayqueue
