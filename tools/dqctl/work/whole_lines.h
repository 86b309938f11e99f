// Makes whole lines of bytes that come in pieces, and remembers the last of them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace dqctl {

class LineSplitter {
 public:
  using Sink = std::function<void(std::string_view lines)>;  // one or more whole lines, each with its end

  explicit LineSplitter(Sink sink) : sink_(std::move(sink)) {}

  void add(std::string_view bytes);

  // What is left becomes a line.
  void end();

  // The last line that is not blank, its first 4 KiB.
  const std::string& last() const { return last_; }

 private:
  void emit(std::string_view lines);

  Sink sink_;
  std::string rest_;
  std::string last_;
};

}  // namespace dqctl
