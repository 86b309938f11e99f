// The Go library in a separate process. Its commands and flags are in go/main.go.
#pragma once

#include <sys/types.h>

#include "support/standard.h"

namespace test {

// The reason why there is no Go program to test with.
struct NoGo {
  bool failure = false;  // true: fail the tests instead of skipping them
  std::string reason{};
};

// Reads the result that the build left beside the program. Returns nothing if the program is there.
std::optional<NoGo> no_go();

// One run of the program, on test::server(). A thread of this object collects its output.
class GoProgram {
 public:
  using Flags = std::vector<std::string>;

  GoProgram(const std::string& command, const std::string& queue, const Flags& flags = {});
  ~GoProgram();  // like finish()
  GoProgram(const GoProgram&) = delete;
  GoProgram& operator=(const GoProgram&) = delete;

  std::vector<std::string> lines() const;
  std::size_t count(const std::string& line) const;            // how often it was printed
  std::size_t count_starting(const std::string& start) const;  // lines that start with it
  void write(const std::string& line);
  void kill();  // with SIGKILL

  // Closes its stdin, which ends every command that waits, and returns its exit code, or 128 + n after signal n.
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

// Runs a command until it exits, and returns its output. Throws std::runtime_error if it failed.
std::vector<std::string> go(const std::string& command, const std::string& queue, const GoProgram::Flags& flags = {});

}  // namespace test
