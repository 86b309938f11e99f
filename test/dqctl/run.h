// Runs the built dqctl and collects its output.
#pragma once

#include "support/standard.h"

namespace test {

struct DqctlOptions {
  std::string input{};
  // Added to the environment of this process, from which DELAYQUEUE_*, DQCTL_AUDIT, NO_COLOR and TERM are
  // removed. DELAYQUEUE_URI is
  // server() by default. An empty value removes a name.
  std::map<std::string, std::string> environment{};
  bool terminal = false;  // stdout and stderr are one terminal (80 x 24), and both are in `out`
};

struct Ran {
  int code = -1;   // the exit code; -1 if a signal ended the process
  int signal = 0;  // the signal that ended the process
  std::string out{};
  std::string err{};
  std::string command{};  // its arguments
  long peak_kib = 0;      // peak memory; at least that of this process at the start
  std::chrono::milliseconds took{0};
};

// A running dqctl. The destructor kills it.
class Dqctl {
 public:
  explicit Dqctl(const std::vector<std::string>& arguments, const DqctlOptions& options = {});
  ~Dqctl();
  Dqctl(const Dqctl&) = delete;
  Dqctl& operator=(const Dqctl&) = delete;

  int pid() const { return pid_; }
  void signal(int number);
  void type(const std::string& keys);  // writes to its terminal
  void close_out();                    // closes the reader of its stdout, as `| head` does

  // Reads until stdout or stderr holds the text. Returns false after 10 s, or if dqctl ended before.
  bool wait_for(const std::string& text);
  const std::string& err() const { return ran_.err; }  // read so far

  // Waits for the end. Kills dqctl after `limit`.
  Ran wait(std::chrono::milliseconds limit = std::chrono::seconds(60));

 private:
  bool read_some(std::chrono::milliseconds limit);  // returns false at the end of all output
  void feed();

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  std::string input_;
  Ran ran_;
};

Ran run(const std::vector<std::string>& arguments, const DqctlOptions& options = {});

// What stdout or stderr must be, have as a part, or lack.
struct Said {
  enum class How { is, has, lacks };

  std::string Ran::*stream;
  How how;
  std::string text;
};
inline Said out_is(const std::string& text) { return {&Ran::out, Said::How::is, text}; }
inline Said out_has(const std::string& part) { return {&Ran::out, Said::How::has, part}; }
inline Said out_lacks(const std::string& part) { return {&Ran::out, Said::How::lacks, part}; }
inline Said err_is(const std::string& text) { return {&Ran::err, Said::How::is, text}; }
inline Said err_has(const std::string& part) { return {&Ran::err, Said::How::has, part}; }
inline Said err_lacks(const std::string& part) { return {&Ran::err, Said::How::lacks, part}; }

// A row of a table of commands: checks that dqctl ended with this exit code and these texts. Returns `ran`.
Ran expect(Ran ran, int code, const std::vector<Said>& texts = {});

// Options with this DELAYQUEUE_URI, and with this input.
DqctlOptions at(const std::string& uri);
DqctlOptions with_input(const std::string& input);

// For execve(): the environment that the options describe, and pointers to the words, the last one null.
std::vector<std::string> environment_of(const DqctlOptions& options);
std::vector<char*> pointers(std::vector<std::string>& words);

}  // namespace test
