// Runs the built dqctl, and says what it said.
#pragma once

#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace test {

struct DqctlOptions {
  std::string input{};
  // Besides DELAYQUEUE_URI, which is server() where it is not said here; an empty value takes the name away. Of this
  // process' own environment what begins with DELAYQUEUE_, NO_COLOR and TERM are not passed on.
  std::map<std::string, std::string> environment{};
  bool terminal = false;  // stdout and stderr are one terminal (80 x 24), and come together as `out`
};

struct Ran {
  int code = -1;   // of its exit; -1 if a signal ended it
  int signal = 0;  // that ended it
  std::string out{};
  std::string err{};
  long peak_kib = 0;  // most memory it had; not less than what this process had when it started
  std::chrono::milliseconds took{0};
};

// One that runs. Killed with this object, if it still does.
class Dqctl {
 public:
  explicit Dqctl(const std::vector<std::string>& arguments, const DqctlOptions& options = {});
  ~Dqctl();
  Dqctl(const Dqctl&) = delete;
  Dqctl& operator=(const Dqctl&) = delete;

  int pid() const { return pid_; }
  void signal(int number);
  void type(const std::string& keys);  // to its terminal
  void close_out();                    // nobody reads its stdout from now on (| head)

  // Reads until stdout (or stderr) holds the text; false if it does not within 10 s, or it ended before.
  bool wait_for(const std::string& text);

  // Until it ends; after `limit` it is killed.
  Ran wait(std::chrono::milliseconds limit = std::chrono::seconds(60));

 private:
  bool read_some(std::chrono::milliseconds limit);  // false: nothing more will come
  void feed();

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  std::string input_;
  Ran ran_;
};

Ran run(const std::vector<std::string>& arguments, const DqctlOptions& options = {});

}  // namespace test
