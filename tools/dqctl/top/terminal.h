// A terminal that is ours for a while: raw keys, the alternate screen, no cursor. It is given back as it was, however
// that while ends: by the destructor, by a signal that ends the process, or for the time that Ctrl-Z stops it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "fd.h"
#include "output/canvas.h"
#include "top/keys.h"

namespace dqctl {

using std::chrono::milliseconds;

class Terminal {
 public:
  // One at a time. Throws Usage if stdin or stdout is no terminal that can move its cursor.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Whether there is one: what the constructor throws on.
  static bool is_there();

  Size size() const;

  // Gives it back, and takes it again. While it is given back nothing may be drawn.
  void leave();
  void enter();

  void draw(const Canvas& canvas, bool styles);
  void draw_all_next() { shown_.clear(); }

  // Waits for keys, a change of the size, wake(), or a signal to end, but no longer than the limit. Ctrl-Z, or SIGTSTP,
  // stops the process in here. What came meanwhile counts.
  std::vector<Key> wait(milliseconds limit);

  // Any thread may call it.
  void wake() const;

  // SIGINT or SIGTERM came, or the terminal is gone. A second signal restores it and ends the process.
  bool ended() const;

 private:
  void write(const std::string& bytes);
  void stop();

  Pipe wake_pipe_;
  std::string bytes_;  // of a key that is not whole
  std::vector<std::string> shown_;
  bool hung_up_ = false;
};

}  // namespace dqctl
