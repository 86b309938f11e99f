// PrivateServer: a redis-server (or valkey-server) child process, for tests, trials and single-machine programs.
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
  std::string folder{};   // of data and socket; created (mode 0700) if missing; empty: temporary, removed at the end
  std::vector<std::string> arguments{};             // added to the command line, such as {"--maxmemory", "64mb"}
  std::chrono::milliseconds start_timeout{10'000};  // until it accepts commands; it may take longer to load its data
};

// The server listens only on a unix socket in the folder and writes an append-only file (fsync every second). It ends
// with this object, or with this process if the process ends first, in any way. It starts in about 10 ms.
//
// The embedded URLs use such servers, too:
//
// "embedded:" is one server for the whole process. Its first use starts it. It ends with the process, and its data is
// deleted.
//
// "embedded:/folder" keeps its data. The server belongs to the process that names the folder first, and ends with it.
// If the server dies, the next call of the process restarts it with its data, and every Producer, Consumer, Inspector
// and QueueAdmin reconnects. Another process (a fork is one, too) that names the folder meanwhile gets a SetupError
// with the unix:// URL of the server, which it can use instead. A process that names the folder later has all data.
//
// On Linux the system shuts the server in a given folder down cleanly, too, if its process is killed. Elsewhere the
// server of a killed process runs until the next process that names the folder shuts it down.
//
// The folder must belong to the effective user and be closed to all other users (mode 0700). No other user may be able
// to replace it or a folder above it. Otherwise the call throws a SetupError with the change that is needed.
//
// One thread at a time may use a PrivateServer. After a fork() it belongs to the parent: in the child url(), socket()
// and folder() work, pid() returns -1, stop(), kill() and the destructor do nothing, and restart() throws
// std::logic_error. A call to an object that was moved from throws std::logic_error, too.
class DELAYQUEUE_EXPORT PrivateServer {
 public:
  // Starts the server and returns when it accepts commands. Throws ConnectionError with the program, how it failed
  // and its output (SetupError if a retry would fail, too), and std::invalid_argument for a folder whose socket path is
  // longer than 107 bytes.
  explicit PrivateServer(PrivateServerOptions options = {});
  ~PrivateServer();
  PrivateServer(PrivateServer&&) noexcept;
  PrivateServer& operator=(PrivateServer&&) noexcept;

  std::string url() const;     // unix:///...: for Producer, Consumer, Inspector, QueueAdmin
  std::string socket() const;  // the path of the socket
  std::string folder() const;
  int pid() const;  // of the running child; -1 when stopped

  // Shuts the server down after all acknowledged writes are on disk. Takes up to about 10 s. Does nothing if it is
  // stopped already. Throws SetupError if some of these writes may not be on disk:
  //   - if the server cannot write them, as on a full disk, it continues to run; call stop() again when there is space;
  //   - if it did not end cleanly, it is stopped (pid() is -1), and the text has its log.
  // The destructor ends the server in any case. If `arguments` set a password, stop() cannot find out whether all is
  // written, and does not wait for that.
  void stop();
  void kill();  // kills the server (SIGKILL), without a clean shutdown

  // Kills the server if it runs, and starts it with the same folder, data and socket. Returns when it accepts commands.
  // Throws as the constructor.
  void restart();

 private:
  class DELAYQUEUE_HIDDEN Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace delayqueue
