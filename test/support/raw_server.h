// Servers for the transport's tests: one played by the test itself, and a redis-server with ports of its own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "redis/socket.h"
#include "support/node.h"

namespace test {

// Listens on 127.0.0.1. Serves one link at a time in its own thread and closes it when `serve` returns. To be made
// before the links to it, so that it ends after them.
class Listener {
 public:
  explicit Listener(std::function<void(int fd)> serve);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  delayqueue::redis::Address address() const;

 private:
  void run();

  const std::function<void(int fd)> serve_;
  const int fd_;
  std::thread thread_;
};

// Reads and drops what comes, until the other end closes.
void swallow(int fd);

// A socket on 127.0.0.1 that listens, with room for one link that nobody accepts.
int listen_on_loopback();
int port_of(int fd);

// A child that is $DELAYQUEUE_REDIS_SERVER, or else redis-server, with a plain port, a unix socket and, when given
// `arguments` about certificates, a TLS port.
class RedisChild {
 public:
  explicit RedisChild(const std::vector<std::string>& arguments = {});

  delayqueue::redis::Address plain() const;
  delayqueue::redis::Address unix_socket() const;
  delayqueue::redis::Address tls(const std::string& host = "127.0.0.1") const;
  void send(int signal) const;

 private:
  const Port tls_port_;
  Node node_;
};

}  // namespace test
