// Servers for the tests of the transport: one whose code the test supplies, and a redis-server with its own ports.
#pragma once

#include <sys/types.h>

#include "redis/socket.h"
#include "support/node.h"
#include "support/server.h"

namespace test {

// Listens on 127.0.0.1. Serves one link at a time in its own thread and closes it when `serve` returns. Create it
// before its clients, so that it is destroyed after them.
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

// The address of a server's unix socket.
delayqueue::redis::Address address_of(const delayqueue::PrivateServer& on = server());

// Reads and discards bytes until the other end closes.
void swallow(int fd);

// A listening socket on 127.0.0.1 with a backlog for one link. No link is accepted.
int listen_on_loopback();
int port_of(int fd);

// Runs $DELAYQUEUE_REDIS_SERVER, or else redis-server, with a plain port and a unix socket. It also has a TLS port if
// `arguments` name certificates.
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
