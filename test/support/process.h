// Child processes of a test: their output and their exit status.
#pragma once

#include "support/ledger.h"
#include "support/paths.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace test {

// A child process. The destructor kills it.
class Child {
 public:
  Child() = default;
  ~Child() {
    kill(SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill(int signal) const {
    if (pid_ > 0) ::kill(pid_, signal);
  }

  // True if the process has ended: wait() then returns at once.
  bool ended() const {
    siginfo_t found{};
    return pid_ < 0 ||
           (::waitid(P_PID, static_cast<id_t>(pid_), &found, WEXITED | WNOHANG | WNOWAIT) == 0 && found.si_pid == pid_);
  }

  // Waits for the end. Returns the exit code, or minus the signal that ended the process.
  int wait() {
    if (pid_ > 0) {
      int status = 0;
      ::waitpid(pid_, &status, 0);
      pid_ = -1;
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    return code_;
  }

 protected:
  pid_t pid_ = -1;  // set by the derived class that starts the process

 private:
  int code_ = 0;
};

// Whether any process has ended. A zombie has.
inline bool ended(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string id, name, state;
  return !(file >> id >> name >> state) || state == "Z" || state == "X";
}

// The process of the server that listens on this unix socket.
inline int server_pid(const std::string& socket) {
  Redis client(socket);
  return std::stoi(info("server", "process_id", client));
}

// A worker_program and its output so far.
class Process : public Child {
 public:
  // `runner`: a program that runs the command in its arguments; empty: none.
  explicit Process(std::vector<std::string> words, const std::string& runner = {}) {
    int output[2];
    REQUIRE(::pipe2(output, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    words.insert(words.begin(), program_path("worker_program"));
    if (!runner.empty()) words.insert(words.begin(), runner);
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int failed = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(output[1]);
    output_ = output[0];
    REQUIRE_MESSAGE(failed == 0, words[0]);
    reader_ = std::thread([this] { read(); });
  }

  ~Process() {
    kill(SIGKILL);
    wait();
  }

  // Waits until the process has ended and all its output is read.
  int wait() {
    const int code = Child::wait();
    if (reader_.joinable()) {
      reader_.join();
      ::close(output_);
    }
    return code;
  }

  // The output lines that begin with `word`, without that word.
  std::vector<std::string> said(const std::string& word) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> result;
    std::istringstream lines(text_.substr(0, text_.rfind('\n') + 1));
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind(word + " ", 0) == 0) result.push_back(line.substr(word.size() + 1));
      if (line == word) result.emplace_back();
    }
    return result;
  }

 private:
  void read() {
    char bytes[4096];
    for (ssize_t size = 0; (size = ::read(output_, bytes, sizeof bytes)) > 0;) {
      const std::lock_guard lock(mutex_);
      text_.append(bytes, static_cast<std::size_t>(size));
    }
  }

  int output_ = -1;
  mutable std::mutex mutex_;  // guards text_
  std::string text_;
  std::thread reader_;
};

// The arguments of worker_program for a consumer of the queue.
inline std::vector<std::string> worker(const Queue& queue, int concurrency, const std::string& lease_ms = "30000",
                                       const std::string& poll_ms = "20") {
  return {"consume", queue.url, queue.name, std::to_string(concurrency), lease_ms, poll_ms};
}

// The ids in "begin" lines.
inline std::set<std::string> begun(const Process& process) {
  std::set<std::string> ids;
  for (const std::string& line : process.said("begin")) ids.insert(line.substr(0, 36));
  return ids;
}

inline std::vector<std::string> words(std::size_t count, const std::string& word) {
  return std::vector<std::string>(count, word);
}

}  // namespace test
