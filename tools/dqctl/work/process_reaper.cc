#include "work/process_reaper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "exit.h"

namespace dqctl {
namespace {

// Small enough for one atomic write to a pipe.
struct GroupEvent {
  pid_t group;
  bool runs;
};

// Reads events until dqctl has ended, which closes the pipe. Then kills the groups that still run.
void kill_groups_at_end(int events) {
  std::vector<pid_t> groups;
  while (true) {
    GroupEvent event{};
    const auto n = ::read(events, &event, sizeof event);
    if (n < 0 && errno == EINTR) continue;
    if (n != static_cast<ssize_t>(sizeof event)) break;
    if (event.runs) groups.push_back(event.group);
    if (!event.runs) groups.erase(std::remove(groups.begin(), groups.end(), event.group), groups.end());
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
}

// The reaper process. It ignores the signals that end dqctl, and closes all inherited files: if it kept stdout open,
// the reader of stdout would never see the end of file.
void run_reaper(int events) {
  ::setsid();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(number, SIG_IGN);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  constexpr int kMostInherited = 1024;
  for (int fd = 3; fd < kMostInherited; ++fd) {
    if (fd != events) ::close(fd);
  }
  if (::chdir("/") == 0) kill_groups_at_end(events);
}

}  // namespace

Pipe::Pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Failure(Exit::failed, "cannot make a pipe: " + std::generic_category().message(errno));
  }
  read = Fd(ends[0]), write = Fd(ends[1]);
}

ProcessReaper::ProcessReaper() {
  pid_ = ::fork();
  if (pid_ < 0) throw Failure(Exit::failed, "cannot start a process: " + std::generic_category().message(errno));
  if (pid_ == 0) {
    run_reaper(pipe_.read.get());
    ::_exit(0);
  }
  pipe_.read.close();
}

ProcessReaper::~ProcessReaper() {
  pipe_.write.close();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ProcessReaper::send(pid_t group, bool runs) const noexcept {
  const GroupEvent event{group, runs};
  while (::write(pipe_.write.get(), &event, sizeof event) < 0 && errno == EINTR) {
  }
}

}  // namespace dqctl
