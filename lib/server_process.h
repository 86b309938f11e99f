// One run of a redis-server as a child of this process, and the descriptors that go with it.
#pragma once

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

// For poll(): the rest of the time, rounded up.
int milliseconds_until(std::chrono::steady_clock::time_point deadline);

// Closes what it holds.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }

 private:
  int fd_;
};

// All that the child needs, made before the fork: after it only async-signal-safe calls are allowed.
struct Launch {
  std::vector<std::string> words;
  std::vector<char*> argv;  // into words
  std::string lock;
  std::string log;
  pid_t parent = -1;
};

// What the child tells its parent before it is a redis-server, and once more if it could not become one.
struct LaunchReport {
  enum Stage { none, locked, no_lock, no_log, no_exec };
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

  int pid() const;  // -1 once it has ended
  void signal(int number);
  bool ended_by(std::chrono::steady_clock::time_point deadline);
  LaunchReport report(std::chrono::steady_clock::time_point deadline);  // stage none: it ended or was silent
  std::string fate() const;

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
