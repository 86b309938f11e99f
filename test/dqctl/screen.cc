#include "screen.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"
#include "support/paths.h"
#include "support/server.h"

extern char** environ;

namespace test {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void broken_screen(const char* what) {
  throw std::runtime_error(std::string("screen: ") + what + ": " + std::generic_category().message(errno));
}

// A minimal shell: runs the program in the foreground, writes its pid to `pid_pipe`, and exits with its code.
[[noreturn]] void run_as_shell(int slave, int pid_pipe, char* const* argv, char* const* envp) {
  ::setsid();
  ::ioctl(slave, TIOCSCTTY, 0);
  ::signal(SIGTTOU, SIG_IGN);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    ::tcsetpgrp(slave, ::getpid());
    ::signal(SIGTTOU, SIG_DFL);
    ::signal(SIGPIPE, SIG_DFL);
    for (int fd = 0; fd < 3; ++fd) ::dup2(slave, fd);
    ::execve(argv[0], argv, envp);
    ::_exit(127);
  }
  ::setpgid(pid, pid);
  if (::write(pid_pipe, &pid, sizeof pid) != static_cast<ssize_t>(sizeof pid)) ::_exit(126);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void set_size(int fd, std::size_t columns, std::size_t rows) {
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = static_cast<unsigned short>(rows);
  ::ioctl(fd, TIOCSWINSZ, &size);
}

}  // namespace

// ---- The emulator --------------------------------------------------------------------------------------------------

void Emulator::resize(std::size_t columns, std::size_t rows) {
  columns_ = columns;
  cells_.resize(rows);
  for (auto& row : cells_) row.resize(std::min(row.size(), columns));
}

void Emulator::feed(const std::string& bytes) {
  rest_ += bytes;
  std::size_t at = 0;
  while (at < rest_.size()) {
    const auto byte = static_cast<unsigned char>(rest_[at]);
    if (byte == 0x1b) {
      if (at + 1 >= rest_.size()) break;
      if (rest_[at + 1] != '[') {
        strange_ += rest_.substr(at, 2);
        at += 2;
        continue;
      }
      const std::size_t end =
          rest_.find_first_of("@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~", at + 2);
      if (end == std::string::npos) break;
      take_sequence(rest_.substr(at + 2, end - at - 2), rest_[end]);
      at = end + 1;
      continue;
    }
    const std::size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    if (at + length > rest_.size()) break;
    if (byte < 0x20 && alternate_) strange_ += rest_[at];
    if (byte >= 0x20 && alternate_) put(rest_.substr(at, length));
    at += length;
  }
  rest_.erase(0, at);
}

void Emulator::take_sequence(const std::string& parameters, char final) {
  switch (final) {
    case 'H': {
      const std::size_t colon = parameters.find(';');
      row_ = parameters.empty() ? 0 : static_cast<std::size_t>(std::stoul(parameters)) - 1;
      column_ = colon == std::string::npos ? 0 : static_cast<std::size_t>(std::stoul(parameters.substr(colon + 1))) - 1;
      break;
    }
    case 'J':
      for (auto& row : cells_) row.clear();
      break;
    case 'K':
      if (row_ < cells_.size()) cells_[row_].resize(std::min(cells_[row_].size(), column_));
      break;
    case 'h':
    case 'l':
      set_mode(parameters, final == 'h');
      break;
    case 'm':
      break;
    default:
      strange_ += parameters + final;
  }
}

void Emulator::set_mode(const std::string& parameters, bool on) {
  if (parameters == "?1049") {
    alternate_ = on;
  } else if (parameters == "?25") {
    cursor_shown_ = on;
  } else if (parameters == "?7") {
    wraps_ = on;
  } else {
    strange_ += parameters;
  }
}

void Emulator::put(const std::string& character) {
  if (row_ >= cells_.size()) {
    strange_ += "below the screen";
    return;
  }
  if (column_ >= columns_) {
    strange_ += "beyond the line";
    return;
  }
  auto& row = cells_[row_];
  if (row.size() <= column_) row.resize(column_ + 1, " ");
  row[column_++] = character;
}

std::string Emulator::line(std::size_t row) const {
  std::string out;
  if (row < cells_.size()) {
    for (const std::string& cell : cells_[row]) out += cell;
  }
  const std::size_t end = out.find_last_not_of(' ');
  return out.substr(0, end == std::string::npos ? 0 : end + 1);
}

std::string Emulator::text() const {
  std::string out;
  for (std::size_t i = 0; i < cells_.size(); ++i) out += line(i) + '\n';
  return out;
}

// ---- The program on the terminal -----------------------------------------------------------------------------------
// ----------------------------------------------------------------------------------

Screen::Screen(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment,
               std::size_t columns, std::size_t rows) {
  std::vector<std::string> words = {test::program_path("dqctl")};
  words.insert(words.end(), arguments.begin(), arguments.end());
  DqctlOptions options;
  options.environment = environment;
  options.environment.emplace("TERM", "xterm");
  std::vector<std::string> settings = environment_of(options);
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(settings);
  master_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) broken_screen("terminal");
  slave_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave_ < 0 || ::tcgetattr(slave_, &before_) != 0) broken_screen("terminal");
  set_size(slave_, columns, rows);
  emulator_.resize(columns, rows);
  int pid_pipe[2];
  if (::pipe2(pid_pipe, O_CLOEXEC) != 0) broken_screen("pipe");
  shell_ = ::fork();
  if (shell_ < 0) broken_screen("fork");
  if (shell_ == 0) run_as_shell(slave_, pid_pipe[1], argv.data(), envp.data());
  ::close(pid_pipe[1]);
  const auto n = ::read(pid_pipe[0], &pid_, sizeof pid_);
  ::close(pid_pipe[0]);
  if (n != static_cast<ssize_t>(sizeof pid_)) broken_screen("shell");
}

Screen::~Screen() {
  if (shell_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(shell_, nullptr, 0);
  }
  ::close(master_);
  ::close(slave_);
}

void Screen::type(const std::string& keys) {
  if (::write(master_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) broken_screen("type");
}

void Screen::resize(std::size_t columns, std::size_t rows) {
  emulator_.resize(columns, rows);
  set_size(master_, columns, rows);  // sends SIGWINCH
}

void Screen::signal(int number) const { ::kill(pid_, number); }

bool Screen::stopped() const {
  std::ifstream in("/proc/" + std::to_string(pid_) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(in), {}};
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.at(name_end + 2) == 'T';
}

bool Screen::read_some(std::chrono::milliseconds limit) {
  pollfd fd{master_, POLLIN, 0};
  if (::poll(&fd, 1, static_cast<int>(limit.count())) <= 0) return false;
  std::array<char, 65536> buffer;
  const auto n = ::read(master_, buffer.data(), buffer.size());
  if (n <= 0) return false;
  const std::string bytes(buffer.data(), static_cast<std::size_t>(n));
  raw_ += bytes;
  emulator_.feed(bytes);
  return true;
}

bool Screen::wait(const std::function<bool(const Emulator&)>& condition) {
  const auto deadline = Clock::now() + std::chrono::seconds(15);
  while (!condition(emulator_)) {
    if (Clock::now() >= deadline) return false;
    read_some(std::chrono::milliseconds(50));
  }
  return true;
}

bool Screen::shows(const std::string& text) {
  return wait([&](const Emulator& seen) { return seen.text().find(text) != std::string::npos; });
}

bool Screen::shows_not(const std::string& text) {
  return wait([&](const Emulator& seen) { return seen.text().find(text) == std::string::npos; });
}

int Screen::code() {
  const auto deadline = Clock::now() + std::chrono::seconds(15);
  int status = 0;
  while (::waitpid(shell_, &status, WNOHANG) == 0) {
    if (Clock::now() >= deadline) return -1;
    read_some(std::chrono::milliseconds(10));
  }
  shell_ = -1;
  while (read_some(std::chrono::milliseconds(0))) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool Screen::restored() const {
  termios now{};
  ::tcgetattr(slave_, &now);
  const bool modes = now.c_iflag == before_.c_iflag && now.c_oflag == before_.c_oflag &&
                     now.c_cflag == before_.c_cflag && now.c_lflag == before_.c_lflag &&
                     std::memcmp(now.c_cc, before_.c_cc, sizeof now.c_cc) == 0;
  return modes && !emulator_.alternate() && emulator_.cursor_shown() && emulator_.wraps();
}

}  // namespace test
