// A redis-server as a child process.
#pragma once

#include "os/descriptor.h"

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace delayqueue {

// Whether a retry of the failed system call may succeed.
bool is_transient(int error);

// Throws ConnectionError if the error is transient, else SetupError, with the text and the system's reason.
[[noreturn]] void fail_with(const std::string& text, int error);

// The timeout for poll(), rounded up.
int milliseconds_until(std::chrono::steady_clock::time_point deadline);

// Opens a regular file that belongs to the effective user and has no other hard link. With O_CREAT in `flags`, makes it
// with mode 0600. For any other file, and for a symbolic link, returns a negative descriptor and sets errno.
// Async-signal-safe.
Descriptor open_own_file(int folder, const char* name, int flags);

// The child's parameters, made before the fork, because the child may only make async-signal-safe calls.
struct Launch {
  std::vector<std::string> words;
  std::vector<char*> argv;  // into words
  std::vector<std::string> variables;
  std::vector<char*> environment;  // into variables, and into the environment of this process
  int folder = -1;                 // of the lock and the log; open in the parent
  pid_t parent = -1;
  int death_signal = SIGKILL;  // that the system sends to the server when the parent ends
};

// The environment of this process for Launch, without the variables that these replace, and these: NAME=value. None of
// this process' if its environment is not trusted (setuid programs).
std::vector<char*> server_environment(std::vector<std::string>& variables);

// A report of the child to its parent: one before exec, and another one if exec failed.
struct LaunchReport {
  enum Stage { none, locked, lock_failed, log_failed, exec_failed };
  Stage stage = none;
  int error = 0;
};

// One run of the server. A dedicated thread forks it and waits for its end, because PR_SET_PDEATHSIG signals the server
// when the thread that forked it ends.
class Process {
 public:
  explicit Process(const Launch& launch);  // throws ConnectionError without a descriptor or thread
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int pid() const;  // -1 once it has ended
  void signal(int number);
  bool wait_for_end(std::chrono::steady_clock::time_point deadline);
  LaunchReport read_report(std::chrono::steady_clock::time_point deadline);  // stage none: it ended or sent none
  std::string outcome() const;
  bool exited() const;     // has ended, and not by a signal
  bool succeeded() const;  // has exited with status 0

 private:
  void run(const Launch& launch);
  void reap(pid_t pid);

  Descriptor read_end_, write_end_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool started_ = false;
  int pid_ = -1;
  int status_ = 0;
  int error_ = 0;  // of fork
  std::thread thread_;
};

}  // namespace delayqueue
