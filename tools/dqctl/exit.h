// The exit codes of dqctl, and the exceptions that end a command with one.
#pragma once

#include <stdexcept>
#include <string>

namespace dqctl {

enum class Exit {
  done = 0,
  failed = 1,         // the server was unreachable or refused the command, or another error occurred
  usage = 2,          // wrong arguments
  not_found = 3,      // no such queue, none of the messages named, or nothing found
  partly = 4,         // some of it was done: the rest was refused or not found, or dqctl was interrupted
  threshold = 5,      // done; a result is worse than its threshold
  unsettled = 6,      // work ended before Redis had the verdicts of all finished commands
  interrupted = 130,  // by SIGINT or SIGTERM, before anything was done
};

// Ends the command. main() writes the text to stderr.
class Failure : public std::runtime_error {
 public:
  Failure(Exit code, const std::string& what) : std::runtime_error(what), code_(code) {}

  Exit code() const { return code_; }

 private:
  Exit code_;
};

// Wrong arguments. The text names the argument, its value, and what is expected.
class Usage : public Failure {
 public:
  explicit Usage(const std::string& what) : Failure(Exit::usage, what) {}
};

}  // namespace dqctl
