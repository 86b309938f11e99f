#include "work/keeper.h"

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

// Small enough for a pipe to pass it whole.
struct Note {
  pid_t group;
  bool runs;
};

// Until its dqctl has ended: then nobody writes any more.
void watch(int notes) {
  std::vector<pid_t> groups;
  while (true) {
    Note note{};
    const auto n = ::read(notes, &note, sizeof note);
    if (n < 0 && errno == EINTR) continue;
    if (n != static_cast<ssize_t>(sizeof note)) break;
    if (note.runs) groups.push_back(note.group);
    if (!note.runs) groups.erase(std::remove(groups.begin(), groups.end(), note.group), groups.end());
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
}

// Nothing of dqctl stays open in it, above all no output that somebody waits to see the end of; what ends dqctl does
// not end it.
void keep(int notes) {
  ::setsid();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(number, SIG_IGN);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  constexpr int kMostInherited = 1024;
  for (int fd = 3; fd < kMostInherited; ++fd) {
    if (fd != notes) ::close(fd);
  }
  if (::chdir("/") == 0) watch(notes);
}

}  // namespace

Pipe::Pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Failure(Exit::failed, "cannot make a pipe: " + std::generic_category().message(errno));
  }
  read = Fd(ends[0]), write = Fd(ends[1]);
}

Keeper::Keeper() {
  pid_ = ::fork();
  if (pid_ < 0) throw Failure(Exit::failed, "cannot start a process: " + std::generic_category().message(errno));
  if (pid_ == 0) {
    keep(pipe_.read.get());
    ::_exit(0);
  }
  pipe_.read.close();
}

Keeper::~Keeper() {
  pipe_.write.close();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Keeper::tell(pid_t group, bool runs) const noexcept {
  const Note note{group, runs};
  while (::write(pipe_.write.get(), &note, sizeof note) < 0 && errno == EINTR) {
  }
}

}  // namespace dqctl
