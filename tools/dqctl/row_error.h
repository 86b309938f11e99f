// The error of one queue in a command that reads several queues. The other queues are shown nevertheless.
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
  bool is_away = false;  // the server did not answer
};

// Runs `read` for one queue. Unset: it succeeded. After a failed connection, later queues get short timeouts: 100
// queues behind one frozen server must not take minutes.
std::optional<RowError> read_row(Context& context, const std::function<void()>& read);

// An error of the server, with advice if options of dqctl can help.
std::string advised(const std::string& refusal);

// The exit code of a command that reads several queues: done, partly if some could not be read, else that of the first
// error.
class RowErrors {
 public:
  void add(const std::optional<RowError>& error);
  Exit code() const;

 private:
  std::size_t rows_ = 0, failed_ = 0;
  Exit first_ = Exit::done;
};

}  // namespace dqctl
