// How dqctl ends, and how a command says so from anywhere within.
#pragma once

#include <stdexcept>
#include <string>

namespace dqctl {

enum class Exit {
  done = 0,
  failed = 1,         // the server could not be reached, refused, or something broke
  usage = 2,          // what was asked for makes no sense
  not_found = 3,      // no such queue, or none of the messages named
  partly = 4,         // some of it was done: others were refused or not there, or it was interrupted
  threshold = 5,      // done, and what was looked at is worse than asked for
  interrupted = 130,  // by SIGINT or SIGTERM, before anything was done
};

// Ends the command: main says the text on stderr.
class Failure : public std::runtime_error {
 public:
  Failure(Exit code, const std::string& what) : std::runtime_error(what), code_(code) {}

  Exit code() const { return code_; }

 private:
  Exit code_;
};

// What was asked for makes no sense: which argument, with which value, and what would.
class Usage : public Failure {
 public:
  explicit Usage(const std::string& what) : Failure(Exit::usage, what) {}
};

}  // namespace dqctl
