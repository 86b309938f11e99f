// A redis-server in a folder: the implementation of PrivateServer and of embedded URLs.
#pragma once

#include "embedded/folder_owner.h"
#include "embedded/server_process.h"
#include "embedded/temporary_folder.h"

#include <delayqueue/server.h>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

namespace delayqueue {

// Throws std::invalid_argument if the path of the socket of a server in the folder is too long for the system.
void check_socket_path(const std::string& folder);

// Sends SHUTDOWN to the server at the socket, if there is one, and waits until it has closed its connections.
void end_server_at(const std::string& socket);

// Whether a server accepts connections at the socket. Throws SetupError if the path is no socket or its server runs as
// another user.
bool listens(const std::string& socket);

class FolderServer {
 public:
  // Throws what PrivateServer's constructor throws.
  explicit FolderServer(PrivateServerOptions options);
  ~FolderServer();
  FolderServer(const FolderServer&) = delete;
  FolderServer& operator=(const FolderServer&) = delete;

  void start();  // throws std::logic_error in a fork
  // Ends the server after all acknowledged writes are on disk. Throws SetupError if some may not be; on a full disk the
  // server keeps running, so that stop() can be called again.
  void stop();
  void end(int first_signal);

  // Whether this process made the object. A forked process has a copy, and must not control the server.
  bool owned() const { return owner_ == ::getpid(); }
  int pid() const { return owned() && process_ ? process_->pid() : -1; }
  std::string socket() const { return (folder_ / "s").string(); }
  std::string url() const;  // unix:// and the path of the socket
  std::string folder() const { return folder_.string(); }

 private:
  using Clock = std::chrono::steady_clock;

  Launch launch() const;
  void await_written();
  void start_process(Clock::time_point deadline);
  void await_answer(Clock::time_point deadline);
  [[noreturn]] void fail_start(const std::string& how, bool permanent);

  const PrivateServerOptions options_;
  const pid_t owner_ = ::getpid();
  const std::string program_;
  const std::unique_ptr<TemporaryFolder> temporary_;  // null for a given folder
  const std::filesystem::path folder_;
  Descriptor opened_;                       // the folder; for a given folder it holds a shared lock
  std::unique_ptr<FolderOwner> ownership_;  // of a given folder; released after the server has ended
  std::unique_ptr<Process> process_;
};

}  // namespace delayqueue
