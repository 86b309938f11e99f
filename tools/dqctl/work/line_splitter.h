// Splits bytes that arrive in pieces into complete lines, and remembers the last line.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace dqctl {

class LineSplitter {
 public:
  using Sink = std::function<void(std::string_view lines)>;  // one or more complete lines with their newlines

  explicit LineSplitter(Sink sink) : sink_(std::move(sink)) {}

  void add(std::string_view bytes);

  // Ends an incomplete last line with a newline.
  void end();

  // The last line that is not blank, trimmed, at most 4 KiB.
  const std::string& last() const { return last_; }

 private:
  void emit(std::string_view lines);

  Sink sink_;
  std::string rest_;
  std::string last_;
};

}  // namespace dqctl
