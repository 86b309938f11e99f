// Controls the terminal while dqctl top runs: raw keys, the alternate screen, no cursor. The former state is restored
// by the destructor, by a signal that ends the process, and while Ctrl-Z stops the process.
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
  // At most one instance at a time. Throws Usage if is_there() is false.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Whether stdin and stdout are a terminal that can move its cursor.
  static bool is_there();

  Size size() const;

  // leave() restores the former state of the terminal, enter() takes control again. Do not draw in between.
  void leave();
  void enter();

  void draw(const Canvas& canvas, bool styles);
  void draw_all_next() { shown_.clear(); }

  // Waits for keys, at most `limit`. Returns earlier on a change of the size, wake(), or a signal that ends dqctl.
  // Ctrl-Z and SIGTSTP stop the process inside this call. Events from before the call count.
  std::vector<Key> wait(milliseconds limit);

  // Makes wait() return. Thread-safe.
  void wake() const;

  // Whether SIGINT, SIGTERM or SIGHUP arrived, or the terminal hung up. A second signal restores the terminal and ends
  // the process.
  bool ended() const;

 private:
  void write(const std::string& bytes);
  void stop();

  Pipe wake_pipe_;
  std::string bytes_;  // of a key that is still incomplete
  std::vector<std::string> shown_;
  bool hung_up_ = false;
};

}  // namespace dqctl
