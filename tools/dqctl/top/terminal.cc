#include "top/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "exit.h"

namespace dqctl {
namespace {

constexpr milliseconds kLongestWait{3'600'000};
constexpr milliseconds kEscapeWait{40};  // the other bytes of a key arrive sooner

constexpr char kEnter[] = "\033[?1049h\033[?25l\033[?7l\033[H\033[2J";
constexpr char kLeave[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

// State of the signal handlers. Written while they are not installed, or by the handlers.
termios original{};
volatile sig_atomic_t entered = 0;
volatile sig_atomic_t end_requested = 0;
volatile sig_atomic_t stop_requested = 0;
int wake_fd = -1;

constexpr std::array<int, 3> kEndSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr std::array<int, 6> kFatalSignals = {SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
std::array<struct sigaction, kEndSignals.size() + kFatalSignals.size() + 2> previous_actions;

void wake_loop() {
  const int error = errno;
  [[maybe_unused]] const auto n = ::write(wake_fd, "", 1);
  errno = error;
}

// Restores the terminal. Async-signal-safe.
void restore() {
  if (entered == 0) return;
  entered = 0;
  [[maybe_unused]] const auto n = ::write(STDOUT_FILENO, kLeave, sizeof kLeave - 1);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &original);
}

void die(int number) {
  restore();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void on_end(int number) {
  if (end_requested != 0) die(number);
  end_requested = 1;
  wake_loop();
}

void on_stop(int) {
  stop_requested = 1;
  wake_loop();
}

void on_resize(int) { wake_loop(); }

template <class Each>
void for_each_signal(Each each) {
  std::size_t i = 0;
  for (const int number : kEndSignals) each(number, on_end, previous_actions[i++]);
  for (const int number : kFatalSignals) each(number, die, previous_actions[i++]);
  each(SIGTSTP, on_stop, previous_actions[i++]);
  each(SIGWINCH, on_resize, previous_actions[i++]);
}

void install_signal_handlers() {
  for_each_signal([](int number, void (*handler)(int), struct sigaction& before) {
    struct sigaction action {};
    action.sa_handler = handler;
    ::sigaction(number, &action, &before);
  });
}

void restore_signal_handlers() {
  for_each_signal([](int number, void (*)(int), struct sigaction& before) { ::sigaction(number, &before, nullptr); });
}

void make_raw() {
  termios raw = original;
  ::cfmakeraw(&raw);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

}  // namespace

bool Terminal::is_there() {
  const char* kind = std::getenv("TERM");
  const bool dumb = kind != nullptr && std::string_view(kind) == "dumb";
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && !dumb;
}

Terminal::Terminal() {
  if (!is_there() || ::tcgetattr(STDIN_FILENO, &original) != 0) throw Usage("stdin and stdout are no terminal");
  for (const Fd* end : {&wake_pipe_.read, &wake_pipe_.write}) ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  wake_fd = wake_pipe_.write.get();
  end_requested = stop_requested = 0;
  install_signal_handlers();
  enter();
}

Terminal::~Terminal() {
  leave();
  restore_signal_handlers();
  wake_fd = -1;
}

void Terminal::enter() {
  if (entered != 0) return;
  entered = 1;
  make_raw();
  write(std::string(kEnter, sizeof kEnter - 1));
  shown_.clear();
}

void Terminal::leave() { restore(); }

Size Terminal::size() const {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

void Terminal::write(const std::string& bytes) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const auto n = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (n > 0) rest.remove_prefix(static_cast<std::size_t>(n));
    if (n > 0 || errno == EINTR) continue;
    if (errno != EAGAIN) {
      hung_up_ = true;
      return;
    }
    pollfd out{STDOUT_FILENO, POLLOUT, 0};
    ::poll(&out, 1, 100);
    if (end_requested != 0) return;
  }
}

void Terminal::draw(const Canvas& canvas, bool styles) {
  std::vector<std::string> rows = canvas.rows(styles);
  write(difference(shown_, rows));
  shown_ = std::move(rows);
}

std::vector<Key> Terminal::wait(milliseconds limit) {
  std::array<pollfd, 2> fds = {{{STDIN_FILENO, POLLIN, 0}, {wake_pipe_.read.get(), POLLIN, 0}}};
  const milliseconds most = std::min<milliseconds>(limit, bytes_.empty() ? kLongestWait : kEscapeWait);
  const int found = ::poll(fds.data(), fds.size(), static_cast<int>(most.count()));
  if (stop_requested != 0) stop();
  if (found > 0 && fds[1].revents != 0) {
    std::array<char, 256> drained;
    while (::read(wake_pipe_.read.get(), drained.data(), drained.size()) > 0) {
    }
  }
  const std::size_t before = bytes_.size();
  if (found > 0 && fds[0].revents != 0) {
    std::array<char, 1024> buffer;
    const auto n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n > 0) bytes_.append(buffer.data(), static_cast<std::size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) hung_up_ = true;
  }
  std::vector<Key> keys = take_keys(bytes_, bytes_.size() == before);
  for (auto key = keys.begin(); key != keys.end(); ++key) {
    if (key->kind != Key::Kind::control || key->text != "z") continue;
    keys.erase(key);
    stop();
    break;
  }
  return keys;
}

// Stops the process as the default action of SIGTSTP does. After `fg` the process continues here.
void Terminal::stop() {
  stop_requested = 0;
  leave();
  ::signal(SIGTSTP, SIG_DFL);
  ::raise(SIGTSTP);
  struct sigaction action {};
  action.sa_handler = on_stop;
  ::sigaction(SIGTSTP, &action, nullptr);
  enter();
}

void Terminal::wake() const { [[maybe_unused]] const auto n = ::write(wake_pipe_.write.get(), "", 1); }

bool Terminal::ended() const { return end_requested != 0 || hung_up_; }

}  // namespace dqctl
