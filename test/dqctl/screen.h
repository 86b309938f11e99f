// A pseudo-terminal that runs dqctl, with an emulator that shows its screen as text.
#pragma once

#include <termios.h>

#include "support/standard.h"

namespace test {

// Emulates the sequences that dqctl top sends: cursor positions, clearing, the alternate screen. Ignores styles.
class Emulator {
 public:
  void resize(std::size_t columns, std::size_t rows);
  void feed(const std::string& bytes);

  std::string text() const;                 // all lines, without trailing spaces
  std::string line(std::size_t row) const;  // the first is 0
  bool alternate() const { return alternate_; }
  bool cursor_shown() const { return cursor_shown_; }
  bool wraps() const { return wraps_; }
  const std::string& strange() const { return strange_; }  // control sequences that it does not support

 private:
  void take_sequence(const std::string& parameters, char final);
  void set_mode(const std::string& parameters, bool on);
  void put(const std::string& character);

  std::size_t columns_ = 80, row_ = 0, column_ = 0;
  std::vector<std::vector<std::string>> cells_ = std::vector<std::vector<std::string>>(24);
  bool alternate_ = false, cursor_shown_ = true, wraps_ = true;
  std::string rest_{}, strange_{};
};

// Runs dqctl as a shell does: in its own process group, in the foreground.
class Screen {
 public:
  Screen(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment = {},
         std::size_t columns = 80, std::size_t rows = 24);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void type(const std::string& keys);
  void resize(std::size_t columns, std::size_t rows);
  void signal(int number) const;
  bool stopped() const;  // whether SIGTSTP has stopped it

  // Waits until the condition holds. Returns false after 15 s.
  bool wait(const std::function<bool(const Emulator&)>& condition);
  bool shows(const std::string& text);
  bool shows_not(const std::string& text);

  int code();  // waits for the end; the exit code, or 128 + the signal; -1 after 15 s

  const Emulator& seen() const { return emulator_; }
  const std::string& raw() const { return raw_; }
  bool restored() const;  // whether the terminal has its first modes again

 private:
  bool read_some(std::chrono::milliseconds limit);

  int master_ = -1, slave_ = -1;
  int shell_ = -1;  // the parent of dqctl
  int pid_ = -1;
  termios before_{};
  Emulator emulator_{};
  std::string raw_{};
};

}  // namespace test
