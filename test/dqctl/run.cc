#include "run.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "support/paths.h"
#include "support/server.h"
#include "support/text.h"

extern char** environ;

namespace test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

[[noreturn]] void broken(const char* what) {
  throw std::runtime_error(std::string("run: ") + what + ": " + std::generic_category().message(errno));
}

struct Pipe {
  int read = -1, write = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) broken("pipe");
  return {ends[0], ends[1]};
}

// A terminal in raw mode, which does not change the bytes of the program.
Pipe make_terminal() {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) broken("terminal");
  const int slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave < 0) broken("terminal");
  termios mode{};
  ::tcgetattr(slave, &mode);
  ::cfmakeraw(&mode);
  ::tcsetattr(slave, TCSANOW, &mode);
  winsize size{};
  size.ws_col = 80;
  size.ws_row = 24;
  ::ioctl(slave, TIOCSWINSZ, &size);
  return {master, slave};
}

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

// Returns false at the end of the input.
bool read_into(int& fd, std::string& text) {
  std::array<char, 65536> buffer;
  const auto n = ::read(fd, buffer.data(), buffer.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
  if (n <= 0) close_fd(fd);  // a terminal whose other end is closed fails with EIO
  return n > 0;
}

}  // namespace

Dqctl::Dqctl(const std::vector<std::string>& arguments, const DqctlOptions& options) : input_(options.input) {
  std::vector<std::string> words = {test::program_path("dqctl")};
  const auto named = std::find(arguments.begin(), arguments.end(), "--command-timeout");
  // Longer than the defaults, because a busy machine may stall for 2 s.
  if (named == arguments.end()) words.insert(words.end(), {"--connect-timeout", "30s", "--command-timeout", "30s"});
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (const std::string& argument : arguments) ran_.command += (ran_.command.empty() ? "" : " ") + argument;
  std::vector<std::string> settings = environment_of(options);
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(settings);

  Pipe in = make_pipe();
  Pipe out = options.terminal ? make_terminal() : make_pipe();
  Pipe err = options.terminal ? Pipe{} : make_pipe();
  pid_ = ::fork();
  if (pid_ < 0) broken("fork");
  if (pid_ == 0) {
    if (options.terminal) {
      ::setsid();
      ::ioctl(out.write, TIOCSCTTY, 0);
    }
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(options.terminal && options.input.empty() ? out.write : in.read, STDIN_FILENO);
    ::dup2(out.write, STDOUT_FILENO);
    ::dup2(options.terminal ? out.write : err.write, STDERR_FILENO);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(in.read);
  ::close(out.write);
  if (err.write >= 0) ::close(err.write);
  in_ = in.write, out_ = out.read, err_ = err.read;
  ::fcntl(in_, F_SETFL, O_NONBLOCK);
  ::signal(SIGPIPE, SIG_IGN);
  if (input_.empty()) close_fd(in_);
}

Dqctl::~Dqctl() {
  close_fd(in_), close_fd(out_), close_fd(err_);
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Dqctl::signal(int number) { ::kill(pid_, number); }

void Dqctl::type(const std::string& keys) {
  if (::write(out_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) broken("type");
}

void Dqctl::close_out() { close_fd(out_); }

void Dqctl::feed() {
  const auto n = ::write(in_, input_.data(), input_.size());
  if (n > 0) input_.erase(0, static_cast<std::size_t>(n));
  if ((n < 0 && errno != EAGAIN && errno != EINTR) || input_.empty()) close_fd(in_);
}

bool Dqctl::read_some(milliseconds limit) {
  if (out_ < 0 && err_ < 0) return false;
  std::array<pollfd, 3> fds = {{{out_, POLLIN, 0}, {err_, POLLIN, 0}, {in_, POLLOUT, 0}}};
  if (::poll(fds.data(), fds.size(), static_cast<int>(limit.count())) <= 0) return true;
  if (fds[2].revents != 0) feed();
  if (fds[0].revents != 0) read_into(out_, ran_.out);
  if (fds[1].revents != 0) read_into(err_, ran_.err);
  return out_ >= 0 || err_ >= 0;
}

bool Dqctl::wait_for(const std::string& text) {
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  const auto found = [&] { return (ran_.out + ran_.err).find(text) != std::string::npos; };
  while (!found() && Clock::now() < deadline && read_some(milliseconds(50))) {
  }
  return found();
}

Ran Dqctl::wait(milliseconds limit) {
  const auto deadline = begin_ + limit;
  while (read_some(milliseconds(50))) {
    if (Clock::now() >= deadline) ::kill(pid_, SIGKILL);
  }
  int status = 0;
  rusage used{};
  pid_t ended = 0;
  while ((ended = ::wait4(pid_, &status, WNOHANG, &used)) == 0) {  // the process may have closed its stdout earlier
    if (Clock::now() >= deadline) ::kill(pid_, SIGKILL);
    ::usleep(500);
  }
  if (ended < 0) broken("wait");
  pid_ = -1;
  ran_.took = std::chrono::duration_cast<milliseconds>(Clock::now() - begin_);
  if (WIFEXITED(status)) ran_.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ran_.signal = WTERMSIG(status);
  ran_.peak_kib = used.ru_maxrss;
  return ran_;
}

Ran run(const std::vector<std::string>& arguments, const DqctlOptions& options) {
  return Dqctl(arguments, options).wait();
}

Ran expect(Ran ran, int code, const std::vector<Said>& texts) {
  CAPTURE(ran.command);
  CAPTURE(ran.err);
  CHECK(ran.code == code);
  for (const Said& said : texts) {
    const std::string& stream = ran.*said.stream;
    if (said.how == Said::How::is) CHECK(stream == said.text);
    if (said.how == Said::How::has) CHECK(has(stream, said.text));
    if (said.how == Said::How::lacks) CHECK_FALSE(has(stream, said.text));
  }
  return ran;
}

DqctlOptions at(const std::string& uri) {
  DqctlOptions options;
  options.environment["DELAYQUEUE_URI"] = uri;
  return options;
}

DqctlOptions with_input(const std::string& input) {
  DqctlOptions options;
  options.input = input;
  return options;
}

std::vector<std::string> environment_of(const DqctlOptions& options) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool ours =
        name.substr(0, 11) == "DELAYQUEUE_" || name == "DQCTL_AUDIT" || name == "NO_COLOR" || name == "TERM";
    if (!ours && options.environment.count(std::string(name)) == 0) out.emplace_back(text);
  }
  if (options.environment.count("DELAYQUEUE_URI") == 0) out.push_back("DELAYQUEUE_URI=" + server().url());
  for (const auto& [name, value] : options.environment) {
    if (!value.empty()) out.push_back(name + '=' + value);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace test
