// A redis-server in a folder: what PrivateServer and the embedded URLs are made of.
#pragma once

#include "embedded/folder_use.h"
#include "embedded/server_process.h"
#include "embedded/temporary_folder.h"

#include <delayqueue/private_server.h>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

namespace delayqueue {

// Tells the server there, if any, to end in good order, and waits until it has closed its connections.
void end_server_at(const std::string& socket);

// Whether a server takes connections there. Throws SetupError if the socket or the server is another user's.
bool listens(const std::string& socket);

class FolderServer {
 public:
  enum class Life { of_object, until_last_user };

  // Throws what PrivateServer's constructor throws. A server that lives until its last user needs a FolderUse of the
  // caller's.
  explicit FolderServer(PrivateServerOptions options, Life life = Life::of_object);
  ~FolderServer();
  FolderServer(const FolderServer&) = delete;
  FolderServer& operator=(const FolderServer&) = delete;

  void start();
  void stop();  // throws SetupError if what was acknowledged cannot all be on disk; if it could be cured it runs on
  void end(int first_signal);
  void leave();  // to those who use it, too: from now on this object has no server

  // A process forked from the one that made this object has a copy of it, and no say.
  bool owned() const { return owner_ == ::getpid(); }
  int pid() const { return owned() && process_ ? process_->pid() : -1; }
  std::string socket() const { return (folder_ / "s").string(); }
  std::string folder() const { return folder_.string(); }

 private:
  using Clock = std::chrono::steady_clock;

  Launch launch() const;
  void await_written();
  void take_folder(Clock::time_point deadline);
  void await_answer(Clock::time_point deadline);
  [[noreturn]] void give_up(const std::string& how, bool for_good);

  const PrivateServerOptions options_;
  const Life life_;
  const pid_t owner_ = ::getpid();
  const std::string program_;
  const std::unique_ptr<TemporaryFolder> temporary_;  // null for a folder that stays
  const std::filesystem::path folder_;
  std::unique_ptr<FolderUse> use_;  // of an object's folder that stays
  Descriptor opened_;               // of the folder; locked as long as this lives if it stays
  std::unique_ptr<Process> process_;
};

}  // namespace delayqueue
