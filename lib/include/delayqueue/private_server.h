// A private Redis: a redis-server (or valkey-server) child process for tests, trials and single-machine programs.
#pragma once

#include <delayqueue/error.h>
#include <delayqueue/export.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace delayqueue {

struct PrivateServerOptions {
  std::string program{};  // empty: $DELAYQUEUE_REDIS_SERVER, then redis-server, then valkey-server on PATH
  std::string folder{};   // for data and socket, made if missing, mode 0700; empty: a temporary one, removed at the end
  std::vector<std::string> arguments{};  // added to the command line, such as {"--maxmemory", "64mb"}
  std::chrono::milliseconds start_timeout{10'000};
};

// The server listens only on a unix socket in the folder, keeps an append-only file (fsync every second), and ends
// with this object, or with this process if that ends first, in any way. It starts in about 10 ms.
//
// The embedded URLs use the same servers. "embedded:" is one server for the whole process: its first use starts it, and
// it ends with the process; its data is deleted. "embedded:/folder" keeps its data, and all processes that name the
// folder share one server (a file lock guarantees that it is only one). The first process starts it. It lives while any
// process lives that has used it: when the last one has ended, in any way, the system shuts the server down cleanly. A
// fork of such a process counts, too, until it calls exec. If the server dies, the next call of any process starts it
// again, with its data; every Producer, Consumer and Inspector reconnects to the new one. (Before Linux 5.6, and on
// other systems, the server ends with the process that started it, as if it had died.)
//
// The folder must belong to the effective user and be closed to all others (mode 0700; a new one is made so), below
// folders that no other user can write to. Otherwise a SetupError says what to change.
class DELAYQUEUE_EXPORT PrivateServer {
 public:
  // Returns when the server answers. Throws std::runtime_error with the program, how it failed and what it wrote (a
  // SetupError if a retry would fail, too); std::invalid_argument for a folder whose socket path is longer than 107
  // bytes.
  explicit PrivateServer(PrivateServerOptions options = {});
  ~PrivateServer();
  PrivateServer(PrivateServer&&) noexcept;
  PrivateServer& operator=(PrivateServer&&) noexcept;

  std::string url() const;     // unix:///...: for Producer, Consumer, Inspector
  std::string socket() const;  // the path of the socket
  std::string folder() const;
  int pid() const;  // of the running child; -1 when stopped

  // Shuts the server down after everything acknowledged is on disk. Does nothing if it is stopped already. Throws
  // SetupError if the data cannot be written: on a full disk the server runs on, so that stop() can be called again
  // when there is space. (The destructor ends it all the same. With a password, set by `arguments`, the server refuses
  // to tell whether all is written, and stop() does not wait for that.)
  void stop();
  void kill();     // kill -9: ends it at once, without a clean shutdown
  void restart();  // kills it if it runs; same folder, same data, same socket; returns when it answers

 private:
  class DELAYQUEUE_HIDDEN Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace delayqueue
