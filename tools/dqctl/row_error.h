// What is wrong with one of several queues that a command looks at. The others are shown nevertheless.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "context.h"
#include "exit.h"

namespace dqctl {

struct RowError {
  std::string text{};
  Exit code = Exit::failed;
};

// Runs the look at one queue. Nothing: it succeeded. Once a server could not be reached, the looks at further queues
// wait for theirs only briefly: 100 queues behind one frozen server must not take minutes.
std::optional<RowError> read_row(Context& context, const std::function<void()>& read);

// A refusal of the server, with what to do about it where that has to do with dqctl's own options.
std::string advised(const std::string& refusal);

// Of a command that looked at several queues: all is well, some could not be read (partly), or none (the first's code).
class RowErrors {
 public:
  void add(const std::optional<RowError>& error);
  Exit code() const;

 private:
  std::size_t rows_ = 0, failed_ = 0;
  Exit first_ = Exit::done;
};

}  // namespace dqctl
