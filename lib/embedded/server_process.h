// One run of a redis-server as a child of this process, and the descriptors that go with it.
#pragma once

#include "os/descriptor.h"

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace delayqueue {

// What the operating system calls an errno.
std::string reason(int error);

// Whether a system call that failed like this may succeed the next time.
bool may_pass(int error);

// Throws std::runtime_error if it may pass, SetupError if not: the text, and what the system calls the error.
[[noreturn]] void fail_with(const std::string& text, int error);

// For poll(): the rest of the time, rounded up.
int milliseconds_until(std::chrono::steady_clock::time_point deadline);

// Opens a regular file of the effective user that has one name only; no symbolic link. Made with mode 0600 if `flags`
// have O_CREAT. Anything else: a negative descriptor and errno. May be called after a fork.
Descriptor open_own_file(int folder, const char* name, int flags);

// All that the child needs, made before the fork: after it only async-signal-safe calls are allowed.
struct Launch {
  std::vector<std::string> words;
  std::vector<char*> argv;  // into words
  std::vector<char*> environment;
  int folder = -1;  // for lock and log; open in the parent
  pid_t parent = -1;
  bool until_last_user = false;  // of the folder, see folder_use.h; false: dies with the parent
};

// For Launch: that of this process; an empty one if it is not trusted.
std::vector<char*> server_environment();

// What the child tells its parent before it is a redis-server, and once more if it could not become one.
struct LaunchReport {
  enum Stage { none, locked, lock_failed, log_failed, exec_failed };
  Stage stage = none;
  int error = 0;
};

// One run of the server. Forked by a thread that stays until the server has ended, because the server would be
// killed with the thread that forked it.
class Process {
 public:
  explicit Process(const Launch& launch);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The server may outlive this process. From now on this object must not be destroyed.
  void detach() { thread_.detach(); }

  int pid() const;  // -1 once it has ended
  void signal(int number);
  bool ended_by(std::chrono::steady_clock::time_point deadline);
  LaunchReport report(std::chrono::steady_clock::time_point deadline);  // stage none: it ended or was silent
  std::string fate() const;
  bool exited() const;       // it has ended by itself, not by a signal
  bool exited_well() const;  // with status 0

 private:
  void run(const Launch& launch);
  void reap(pid_t pid);

  Descriptor reading_, writing_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool started_ = false;
  int pid_ = -1;
  int status_ = 0;
  int error_ = 0;  // of fork
  std::thread thread_;
};

}  // namespace delayqueue
