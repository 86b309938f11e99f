// A Redis of one's own: a redis-server (or valkey-server) child for tests, trials and single-machine programs.
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
  std::vector<std::string> arguments{};  // more for the command line, such as {"--maxmemory", "64mb"}
  std::chrono::milliseconds start_timeout{10'000};
};

// The server listens on a unix socket in the folder only, keeps an append-only file (fsync every second), and dies
// with this object and with this process, however it ends. Starting takes about 10 ms.
//
// The embedded URLs are made of these: "embedded:" is a server of this process' own, started by the first who names
// it, gone with the process, its data too. "embedded:/folder" keeps its data; all processes that name the folder share
// one server (a file lock makes sure that it is one). It is started by the first, and lives as long as any process that
// has used it: the system ends it, in good order, when the last of them has ended, however that one ended. A fork of
// such a process counts, too, until it calls exec. If the server dies, the next call of any process starts it again,
// with its data; any Producer, Consumer or Inspector reconnects to the new one by itself. (Before Linux 5.6, and on
// other systems, it ends with the process that started it, as if it had died.)
//
// A folder must be the effective user's alone: mode 0700, made so if missing, below folders that no other user can
// write to. Any other is a SetupError that says what to change.
class DELAYQUEUE_EXPORT PrivateServer {
 public:
  // Returns when the server answers. Throws std::runtime_error that says which program failed, how, and what it said (a
  // SetupError if another try is of no use); std::invalid_argument for a folder whose socket path is too long (107
  // bytes).
  explicit PrivateServer(PrivateServerOptions options = {});
  ~PrivateServer();
  PrivateServer(PrivateServer&&) noexcept;
  PrivateServer& operator=(PrivateServer&&) noexcept;

  std::string url() const;     // unix:///...: for Producer, Consumer, Inspector
  std::string socket() const;  // the path of the socket
  std::string folder() const;
  int pid() const;  // of the running child; -1 when stopped

  // In good order: everything acknowledged is on disk. May be called twice. Throws SetupError if that cannot be: on a
  // full disk the server runs on, so that it can be stopped again when there is space. (The destructor ends it all the
  // same. A server with a password, set by `arguments`, is not asked.)
  void stop();
  void kill();     // kill -9, as a power cut would
  void restart();  // kills it if it runs; same folder, same data, same socket; returns when it answers

 private:
  class DELAYQUEUE_HIDDEN Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace delayqueue
