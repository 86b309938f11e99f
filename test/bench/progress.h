// Shows the progress on stderr: one changing line on a terminal, otherwise one line for each part.
#pragma once

#include "support/standard.h"

namespace bench {

class Progress {
 public:
  void part(const std::string& name);                                            // ends the previous one
  void stage(const std::string& name);                                           // of the part; likewise
  void step(const std::string& what, std::size_t done = 0, std::size_t of = 0);  // shown on a terminal only
  void line(const std::string& text);                                            // a line that stays

  // A line with the figures that this run does not have, separated by spaces, and the reason.
  void left_out(const std::string& figures, const std::string& reason);

  void end();

 private:
  using Clock = std::chrono::steady_clock;

  void clear();
  void close_stage();
  void close_part();

  const Clock::time_point start_ = Clock::now();
  Clock::time_point part_start_{};
  Clock::time_point stage_start_{};
  Clock::time_point shown_{};
  std::string part_, stage_;
  std::size_t width_ = 0;  // columns that are filled on the terminal
};

}  // namespace bench
