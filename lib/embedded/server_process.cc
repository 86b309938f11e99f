#include "embedded/server_process.h"

#include "os/environment.h"
#include "os/interrupt.h"
#include "os/resources.h"

#include <delayqueue/error.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <tuple>

extern char** environ;

namespace delayqueue {
namespace {

using Clock = std::chrono::steady_clock;

void send_report(int pipe, LaunchReport::Stage stage, int error) {
  const LaunchReport report{stage, error};
  [[maybe_unused]] const auto written = ::write(pipe, &report, sizeof report);
}

void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &action, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Marks all descriptors from 3 on as close-on-exec: otherwise the host program's files would stay open while the server
// lives.
void close_all_at_exec() {
#if defined(__linux__) && defined(SYS_close_range)
  constexpr unsigned kCloseAtExec = 4;  // CLOSE_RANGE_CLOEXEC, which old headers lack
  if (::syscall(SYS_close_range, 3U, ~0U, kCloseAtExec) == 0) return;
#endif
  for (int fd = 3; fd < 1024; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// Makes the system signal the server when its parent ends. Only Linux can: elsewhere the server outlives a parent that
// is killed, until the next owner of the folder ends it.
void set_parent_death_signal(pid_t parent, [[maybe_unused]] int signal) {
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, signal);
#endif
  if (::getppid() != parent) ::_exit(0);
}

[[noreturn]] void become_server(const Launch& launch, int report_pipe) {
  set_parent_death_signal(launch.parent, launch.death_signal);
  ::umask(077);  // no other user may read the data
  // A new session: Ctrl-C and a hang-up of the terminal must not reach the server, because the host program may still
  // use it while it shuts down itself.
  ::setsid();
  reset_signals();
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) ::dup2(null, fd);
  close_all_at_exec();
  // Opened in the child, so that only the server has it: the folder is locked exactly while the server lives.
  const Descriptor lock = open_own_file(launch.folder, "lock", O_RDWR | O_CREAT);
  if (lock.get() < 0 || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    send_report(report_pipe, LaunchReport::lock_failed, errno);
    ::_exit(127);
  }
  ::fcntl(lock.get(), F_SETFD, 0);
  const Descriptor log = open_own_file(launch.folder, "log", O_WRONLY | O_CREAT | O_APPEND);
  if (log.get() < 0 || ::ftruncate(log.get(), 0) != 0) {
    send_report(report_pipe, LaunchReport::log_failed, errno);
    ::_exit(127);
  }
  ::dup2(log.get(), 1);
  ::dup2(log.get(), 2);
  send_report(report_pipe, LaunchReport::locked, 0);
  ::execve(launch.argv[0], launch.argv.data(), launch.environment.data());
  send_report(report_pipe, LaunchReport::exec_failed, errno);
  ::_exit(127);
}

}  // namespace

bool is_transient(int error) {
  const auto transient = {EAGAIN, EINTR, EMFILE, ENFILE, ENOMEM, ENOBUFS, ENOSPC, EDQUOT, ETXTBSY};
  return std::find(transient.begin(), transient.end(), error) != transient.end();
}

void fail_with(const std::string& text, int error) {
  if (is_transient(error)) throw ConnectionError(text + ": " + reason(error));
  throw SetupError(text + ": " + reason(error));
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1'000'000));
}

Descriptor open_own_file(int folder, const char* name, int flags) {
  Descriptor file = above_standard(::openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return Descriptor();
  if (S_ISREG(status.st_mode) && status.st_uid == ::geteuid() && status.st_nlink == 1) return file;
  errno = EPERM;
  return Descriptor();
}

std::vector<char*> server_environment(std::vector<std::string>& variables) {
  std::vector<char*> all;
  for (char** inherited = environ; trusts_environment() && *inherited != nullptr; ++inherited) {
    const auto replaces = [&](const std::string_view own) {
      const std::string_view name = own.substr(0, own.find('=') + 1);
      return std::string_view(*inherited).substr(0, name.size()) == name;
    };
    if (std::none_of(variables.begin(), variables.end(), replaces)) all.push_back(*inherited);
  }
  for (std::string& own : variables) all.push_back(own.data());
  all.push_back(nullptr);
  return all;
}

Process::Process(const Launch& launch) try {
  std::tie(read_end_, write_end_) = make_pipe();
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the host program's signal handlers must not run in this thread
  try {
    thread_ = start_thread("the server process", [this, &launch] { run(launch); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return started_; });
  write_end_ = Descriptor();
} catch (const SetupError& e) {  // transient, as in fail_with()
  throw ConnectionError(std::string("private server: ") + e.what());
}

Process::~Process() {
  signal(SIGKILL);
  thread_.join();
}

void Process::run(const Launch& launch) {
  const pid_t pid = ::fork();
  if (pid == 0) become_server(launch, write_end_.get());
  {
    const std::lock_guard lock(mutex_);
    error_ = pid < 0 ? errno : 0;
    pid_ = pid;
    started_ = true;
    changed_.notify_all();
  }
  if (pid > 0) reap(pid);
}

void Process::reap(pid_t pid) {
  siginfo_t info;
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  const std::lock_guard lock(mutex_);  // so that signal() never uses a pid that another process has
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
  if (pid_ > 0 && ::kill(-pid_, number) != 0) ::kill(pid_, number);  // the child has not called setsid() yet
}

bool Process::wait_for_end(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return pid_ < 0; });
}

LaunchReport Process::read_report(Clock::time_point deadline) {
  LaunchReport report;
  int ready = 0;
  do {
    ready = Interrupt::poll_here(read_end_.get(), milliseconds_until(deadline));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) return report;
  if (::read(read_end_.get(), &report, sizeof report) != static_cast<ssize_t>(sizeof report)) return {};
  return report;
}

bool Process::exited() const {
  const std::lock_guard lock(mutex_);
  return error_ == 0 && pid_ < 0 && WIFEXITED(status_);
}

bool Process::succeeded() const { return exited() && WEXITSTATUS(status_) == 0; }

std::string Process::outcome() const {
  const std::lock_guard lock(mutex_);
  if (error_ != 0) return "could not be forked: " + reason(error_);
  if (pid_ > 0) return "did not answer in time";
  if (WIFSIGNALED(status_)) return "was killed by signal " + std::to_string(WTERMSIG(status_));
  return "ended with exit status " + std::to_string(WEXITSTATUS(status_));
}

}  // namespace delayqueue
