// The part of a Client that its copies share: the address, how to connect, and the connections of this process.
#pragma once

#include "queue/connection_pool.h"
#include "redis/url.h"

#include <delayqueue/client.h>

#include <atomic>
#include <memory>
#include <string>

namespace delayqueue {

// Any number of threads may use it.
class Client::Impl {
 public:
  // Throws std::invalid_argument, or SetupError for a relative folder without a working directory.
  Impl(const std::string& url, ClientOptions options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const ClientOptions& options() const { return options_; }
  const std::string& where() const { return where_; }  // the URL without the password
  bool is_cluster() const { return url_.kind == redis::Url::Kind::cluster; }

  // A warning if these options are unsafe, for the logger; empty: none.
  const std::string& warning() const { return warning_; }

  // The pool that the objects of this Client share. The first call in a process makes it: connections of the process
  // that this one is a fork of must not be used. Throws as the constructors of topologies do.
  std::shared_ptr<ConnectionPool> shared_pool();

  // A pool for one object.
  std::shared_ptr<ConnectionPool> new_pool() const { return std::make_shared<ConnectionPool>(url_, options_); }

  // Throws std::invalid_argument if no queue at this address can have such keys.
  void check(const KeyOptions& keys) const;

 private:
  struct PoolOfProcess;

  const ClientOptions options_;
  redis::Url url_;
  const std::string where_;
  const std::string warning_;
  std::atomic<PoolOfProcess*> pool_{nullptr};  // of the process that made one last
};

// Whether the keys have a hash tag.
bool has_hash_tag(const KeyOptions& keys, bool is_cluster);

}  // namespace delayqueue
