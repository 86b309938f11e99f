#include "server_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

extern char** environ;

namespace delayqueue {
namespace {

using Clock = std::chrono::steady_clock;

void tell(int pipe, LaunchReport::Stage stage, int error) {
  const LaunchReport report{stage, error};
  [[maybe_unused]] const auto written = ::write(pipe, &report, sizeof report);
}

void take_default_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &action, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// The host program's files must not stay open for as long as the server lives.
void close_all_at_exec() {
#if defined(__linux__) && defined(SYS_close_range)
  constexpr unsigned kCloseAtExec = 4;  // CLOSE_RANGE_CLOEXEC, which old headers lack
  if (::syscall(SYS_close_range, 3U, ~0U, kCloseAtExec) == 0) return;
#endif
  for (int fd = 3; fd < 1024; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// Elsewhere than on Linux the server outlives a process that is killed.
void die_with(pid_t parent) {
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (::getppid() != parent) ::_exit(0);
}

[[noreturn]] void become_server(const Launch& launch, int report) {
  die_with(launch.parent);
  ::setpgid(0, 0);  // Ctrl-C is for the program, which may still need its server to end well
  take_default_signals();
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) ::dup2(null, fd);
  close_all_at_exec();
  // Opened here and inherited by the server alone: the folder is locked exactly as long as the server lives.
  const int lock = ::open(launch.lock.c_str(), O_RDWR | O_CREAT, 0600);
  if (lock < 0 || ::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    tell(report, LaunchReport::no_lock, errno);
    ::_exit(127);
  }
  const int log = ::open(launch.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) {
    tell(report, LaunchReport::no_log, errno);
    ::_exit(127);
  }
  ::dup2(log, 1);
  ::dup2(log, 2);
  tell(report, LaunchReport::locked, 0);
  ::execve(launch.argv[0], launch.argv.data(), environ);
  tell(report, LaunchReport::no_exec, errno);
  ::_exit(127);
}

Descriptor above_standard(int fd) {  // a host that closed its standard streams has pipes numbered 0 to 2
  Descriptor low(fd);
  return Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

}  // namespace

std::string reason(int error) { return std::generic_category().message(error); }

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1'000'000));
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Process::Process(const Launch& launch) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("private server: pipe: " + reason(errno));
  reading_ = above_standard(ends[0]);
  writing_ = above_standard(ends[1]);
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the host's handlers do not expect to run in this thread
  try {
    thread_ = std::thread([this, &launch] { run(launch); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return started_; });
  writing_ = Descriptor();
}

Process::~Process() {
  signal(SIGKILL);
  thread_.join();
}

void Process::run(const Launch& launch) {
  const pid_t pid = ::fork();
  if (pid == 0) become_server(launch, writing_.get());
  if (pid > 0) ::setpgid(pid, pid);  // here too: a signal to the group may come before the child has made it
  {
    const std::lock_guard lock(mutex_);
    error_ = pid < 0 ? errno : 0;
    pid_ = pid;
    started_ = true;
    changed_.notify_all();  // before the lock is let go: this object may be gone after that
  }
  if (pid > 0) reap(pid);
}

void Process::reap(pid_t pid) {
  siginfo_t info;
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  const std::lock_guard lock(mutex_);  // nobody may signal a pid that is free for others
  ::waitpid(pid, &status_, WNOHANG);
  pid_ = -1;
  changed_.notify_all();
}

int Process::pid() const {
  const std::lock_guard lock(mutex_);
  return pid_;
}

void Process::signal(int number) {
  const std::lock_guard lock(mutex_);
  if (pid_ > 0) ::kill(-pid_, number);
}

bool Process::ended_by(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return pid_ < 0; });
}

LaunchReport Process::report(Clock::time_point deadline) {
  LaunchReport report;
  pollfd waiting{reading_.get(), POLLIN, 0};
  while (::poll(&waiting, 1, milliseconds_until(deadline)) < 0 && errno == EINTR) {
  }
  if ((waiting.revents & POLLIN) == 0) return report;
  if (::read(reading_.get(), &report, sizeof report) != static_cast<ssize_t>(sizeof report)) return {};
  return report;
}

std::string Process::fate() const {
  const std::lock_guard lock(mutex_);
  if (error_ != 0) return "could not be forked: " + reason(error_);
  if (pid_ > 0) return "did not answer in time";
  if (WIFSIGNALED(status_)) return "was killed by signal " + std::to_string(WTERMSIG(status_));
  return "ended with exit status " + std::to_string(WEXITSTATUS(status_));
}

}  // namespace delayqueue
