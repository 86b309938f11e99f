// The Go library at work, in a process of its own: see go/main.go for its commands and flags.
#pragma once

#include <sys/types.h>

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace test {

// Why there is no Go program to test against.
struct NoGo {
  bool failure = false;  // this must not be: it is no reason to skip
  std::string reason{};
};

// What the build left beside the program; nothing: the program is there.
std::optional<NoGo> no_go();

// One run, on test::server(). What it prints is read as it comes, by a thread of this object.
class GoProgram {
 public:
  using Flags = std::vector<std::string>;

  GoProgram(const std::string& command, const std::string& queue, const Flags& flags = {});
  ~GoProgram();  // as finish()
  GoProgram(const GoProgram&) = delete;
  GoProgram& operator=(const GoProgram&) = delete;

  std::vector<std::string> lines() const;
  std::size_t count(const std::string& line) const;            // how often it was printed
  std::size_t count_starting(const std::string& start) const;  // lines that start so
  void write(const std::string& line);
  void kill();  // -9

  // Closes its stdin, which ends every command that waits, and returns its exit code; 128 + n after signal n.
  int finish();

 private:
  void read(int fd);

  mutable std::mutex mutex_;  // guards lines_
  std::vector<std::string> lines_;
  pid_t pid_ = -1;
  int input_ = -1;
  int exit_code_ = -1;
  std::thread reader_;
};

// Runs a command that ends by itself; what it printed. Throws std::runtime_error if it failed.
std::vector<std::string> go(const std::string& command, const std::string& queue, const GoProgram::Flags& flags = {});

}  // namespace test
