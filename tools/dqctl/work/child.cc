#include "work/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "exit.h"
#include "work/line_splitter.h"

namespace dqctl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr milliseconds kSlice{50};

// Data for the code between fork and exec, which must not allocate.
struct Launch {
  std::vector<const char*> arguments{}, environment{};
  int in = -1, out = -1, err = -1;
  const ProcessReaper* reaper = nullptr;
  pid_t parent = 0;
};

[[noreturn]] void exec_shell(const Launch& launch) {
  ::setpgid(0, 0);
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // in case the reaper is killed as well
#endif
  if (::getppid() != launch.parent) ::_exit(127);
  launch.reaper->add(::getpid());
  ::dup2(launch.in, STDIN_FILENO);
  ::dup2(launch.out, STDOUT_FILENO);
  ::dup2(launch.err, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve("/bin/sh", const_cast<char* const*>(launch.arguments.data()),
           const_cast<char* const*>(launch.environment.data()));
  ::_exit(127);
}

std::vector<const char*> pointers(const std::vector<std::string>& words) {
  std::vector<const char*> out;
  out.reserve(words.size() + 1);
  for (const std::string& word : words) out.push_back(word.c_str());
  out.push_back(nullptr);
  return out;
}

void unblock(const Fd& fd) { ::fcntl(fd.get(), F_SETFL, O_NONBLOCK); }

class RunningCommand {
 public:
  RunningCommand(const Task& task, const ProcessReaper& reaper)
      : task_(task), reaper_(reaper), input_(task.input), out_(task.out), err_(task.err) {
    start();
  }

  ~RunningCommand() {  // wait() threw an exception
    if (pid_ > 0) reap();
  }
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  CommandResult wait();

 private:
  void start();
  bool exchange(milliseconds limit);
  void write_input();
  void read(Fd& from, LineSplitter& into);
  void terminate_if_due();
  bool has_ended() const;
  int reap();

  const Task& task_;
  const ProcessReaper& reaper_;
  const Clock::time_point begin_ = Clock::now();
  pid_t pid_ = -1;
  Fd in_, out_fd_, err_fd_;
  std::string_view input_;
  LineSplitter out_, err_;
  TerminationCause cause_ = TerminationCause::none;
  std::optional<Clock::time_point> kill_at_{};
};

void RunningCommand::start() {
  Pipe in, out, err;
  Launch launch;
  launch.arguments = {"sh", "-c", task_.command.c_str(), nullptr};
  launch.environment = pointers(task_.environment);
  launch.in = in.read.get(), launch.out = out.write.get(), launch.err = err.write.get();
  launch.reaper = &reaper_;
  launch.parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw Failure(Exit::failed, "cannot start a process: " + std::generic_category().message(errno));
  if (pid_ == 0) exec_shell(launch);
  ::setpgid(pid_, pid_);  // parent and child both set it: either may run first
  in_ = std::move(in.write), out_fd_ = std::move(out.read), err_fd_ = std::move(err.read);
  for (const Fd* fd : {&in_, &out_fd_, &err_fd_}) unblock(*fd);
  if (input_.empty()) in_.close();
}

CommandResult RunningCommand::wait() {
  milliseconds slice{1};
  while (!has_ended()) {
    const bool has_output = out_fd_.open() || err_fd_.open();
    exchange(has_output ? kSlice : slice);
    if (!has_output) slice = std::min(2 * slice, kSlice);  // most commands end right after they close both
    terminate_if_due();
  }
  const int status = reap();
  constexpr int kMostReads = 16;  // a process that left the group may hold the pipes and write without end
  for (int i = 0; i < kMostReads && exchange(milliseconds(0)); ++i) {
  }
  out_.end();
  err_.end();
  CommandResult result;
  if (WIFEXITED(status)) result.exit = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.cause = cause_;
  result.duration = std::chrono::duration_cast<milliseconds>(Clock::now() - begin_);
  result.last_error = err_.last();
  return result;
}

// Reads and writes what is ready. False: nothing was ready within `limit`.
bool RunningCommand::exchange(milliseconds limit) {
  std::array<pollfd, 3> fds = {{{in_.get(), POLLOUT, 0}, {out_fd_.get(), POLLIN, 0}, {err_fd_.get(), POLLIN, 0}}};
  if (::poll(fds.data(), fds.size(), static_cast<int>(limit.count())) <= 0) return false;
  if (fds[0].revents != 0) write_input();
  if (fds[1].revents != 0) read(out_fd_, out_);
  if (fds[2].revents != 0) read(err_fd_, err_);
  return true;
}

void RunningCommand::write_input() {
  const auto n = ::write(in_.get(), input_.data(), input_.size());
  if (n > 0) input_.remove_prefix(static_cast<std::size_t>(n));
  const bool refused = n < 0 && errno != EAGAIN && errno != EINTR;  // EPIPE: the command closed its stdin
  if (refused || input_.empty()) in_.close();
}

// Reads what is available, but at most one buffer: other pipes may be ready, too.
void RunningCommand::read(Fd& from, LineSplitter& into) {
  std::array<char, 65536> buffer;
  const auto n = ::read(from.get(), buffer.data(), buffer.size());
  if (n > 0) into.add({buffer.data(), static_cast<std::size_t>(n)});
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) from.close();
}

void RunningCommand::terminate_if_due() {
  const auto now = Clock::now();
  if (kill_at_) {
    if (now >= *kill_at_) ::kill(-pid_, SIGKILL);
    return;
  }
  cause_ = task_.check ? task_.check() : TerminationCause::none;
  if (cause_ == TerminationCause::none && task_.timeout.count() > 0 && now - begin_ >= task_.timeout)
    cause_ = TerminationCause::timeout;
  if (cause_ == TerminationCause::none) return;
  ::kill(-pid_, SIGTERM);
  ::kill(-pid_, SIGCONT);
  kill_at_ = now + kGrace;
}

// Whether the shell has ended. After a SIGTERM its children get the same grace period, as long as one of them holds an
// output open.
bool RunningCommand::has_ended() const {
  siginfo_t found{};
  const bool ended =
      ::waitid(P_PID, static_cast<id_t>(pid_), &found, WEXITED | WNOHANG | WNOWAIT) == 0 && found.si_pid == pid_;
  return ended && (!kill_at_ || Clock::now() >= *kill_at_ || !(out_fd_.open() || err_fd_.open()));
}

// Kills the process group before it reaps the shell: until then no other process can get the same id.
int RunningCommand::reap() {
  ::kill(-pid_, SIGKILL);
  reaper_.remove(pid_);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

}  // namespace

CommandResult run_command(const Task& task, const ProcessReaper& reaper) { return RunningCommand(task, reaper).wait(); }

}  // namespace dqctl
