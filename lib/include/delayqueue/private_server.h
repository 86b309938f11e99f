// A Redis of one's own: a redis-server (or valkey-server) child for tests, trials and single-machine programs.
#pragma once

#include <delayqueue/error.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace delayqueue {

struct PrivateServerOptions {
  std::string program{};  // empty: $DELAYQUEUE_REDIS_SERVER, then redis-server, then valkey-server on PATH
  std::string folder{};   // for data and socket, made if missing, mode 0700; empty: a temporary one, removed at the end
  std::vector<std::string> arguments{};  // more for the command line, such as {"--maxmemory", "64mb"}
  std::chrono::milliseconds start_timeout{10'000};
};

// The server listens on a unix socket in the folder only, keeps an append-only file (fsync every second), and dies
// with this object and with this process, however it ends. Starting takes about 10 ms.
//
// The embedded URLs are made of these: "embedded:" is a server of this process' own, started by the first who names
// it, gone with the process, its data too. "embedded:/folder" keeps its data; all processes that name the folder share
// one server, which lives as long as the process that started it; whoever finds it dead starts it again (a file lock
// makes sure that it is one). Any Producer, Consumer or Inspector reconnects to the new one by itself.
class PrivateServer {
 public:
  // Returns when the server answers. Throws std::runtime_error that says which program failed, how, and what it said;
  // std::invalid_argument for a folder whose socket path is too long (107 bytes).
  explicit PrivateServer(PrivateServerOptions options = {});
  ~PrivateServer();
  PrivateServer(PrivateServer&&) noexcept;
  PrivateServer& operator=(PrivateServer&&) noexcept;

  std::string url() const;     // unix:///...: for Producer, Consumer, Inspector
  std::string socket() const;  // the path of the socket
  std::string folder() const;
  int pid() const;  // of the running child; -1 when stopped

  void stop();     // in good order: everything acknowledged is on disk. May be called twice
  void kill();     // kill -9, as a power cut would
  void restart();  // kills it if it runs; same folder, same data, same socket; returns when it answers

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace delayqueue
