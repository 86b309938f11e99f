#include "queue/connection_pool.h"

#include "embedded/folder_servers.h"
#include "redis/failure.h"
#include "redis/pipeline.h"
#include "redis/time_limit.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <utility>

namespace delayqueue {
namespace {

using redis::Connection;
using redis::Topology;
using redis::Url;

// The server of an embedded: URL. The first connection to a server that does not run starts it.
class EmbeddedServer : public Topology {
 public:
  EmbeddedServer(Url url, ClientOptions options) : url_(std::move(url)), options_(std::move(options)) {}

  std::unique_ptr<Connection> connect(int /*slot*/) override { return dial(servers().front()); }

  std::vector<redis::Address> servers() override {
    redis::Address address;
    address.path = embedded_socket(url_.folder);
    address.own_user = true;
    return {address};
  }

  std::unique_ptr<Connection> dial(const redis::Address& server) override {
    return std::make_unique<Connection>(server, redis::login_of(url_, options_), options_);
  }

 private:
  const Url url_;
  const ClientOptions options_;
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

// How long all idle connections together may take to answer a probe.
constexpr milliseconds kForIdle{500};

void check_answers(Connection& connection) {
  redis::Pipeline pipeline(connection);
  pipeline.command("PING");
  pipeline.run();
  pipeline.reply(0);
}

}  // namespace

ConnectionPool::ConnectionPool(const Url& url, const ClientOptions& options, milliseconds idle_limit)
    : topology_(make_topology(url, options)), idle_limit_(idle_limit) {}

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

// First over connections that no call uses: if only new ones fail, because the server accepts no more, or Sentinels are
// away, the server is there. Those without an answer are closed, so that calls do not try them. Calls do not use a new
// connection of a probe: when they connect, Sentinels or nodes of a Cluster tell again who the master is.
void ConnectionPool::probe(int slot) {
  {
    const redis::TimeLimit::Scope limit(redis::Clock::now() + kForIdle);
    for (Lent idle = take(slot); !idle.is_none(); idle = take(slot)) {
      const auto failure = redis::attempt([&] { check_answers(*idle); });
      if (!failure) return;
      idle.close();
      if (!failure->is_connection()) redis::raise(*failure);
    }
  }
  check_answers(*topology_->connect(slot));
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
