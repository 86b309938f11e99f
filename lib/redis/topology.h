// Which server is to be spoken to.
#pragma once

#include "redis/connection.h"
#include "redis/url.h"

#include <memory>
#include <string>

namespace delayqueue::redis {

// Knows where the master of a queue is; asked again whenever a connection broke. Any thread may call it.
class Topology {
 public:
  virtual ~Topology() = default;

  // A new, logged-in connection. Throws what Connection's constructor throws.
  virtual std::unique_ptr<Connection> connect() = 0;

  virtual bool is_cluster() const { return false; }
};

// The part of `options` and `url` that logs in; what is set in the options wins.
Login login_of(const Url& url, const ConnectionOptions& options);

// One server at one address.
std::unique_ptr<Topology> single_server(const Url& url, const ConnectionOptions& options);

}  // namespace delayqueue::redis
