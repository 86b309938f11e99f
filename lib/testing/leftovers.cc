#include "testing/leftovers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include <cerrno>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {
namespace {

// The server may write until it receives its signal.
constexpr char kScript[] =
    "read -r never; for i in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- \"$1\"; [ -e \"$1\" ] || exit; sleep 0.2; done";

// The files of the program must not stay open here.
void close_others() {
#if defined(__linux__) && defined(SYS_close_range)
  if (::syscall(SYS_close_range, 3U, ~0U, 0U) == 0) return;
#endif
  for (int fd = 3; fd < 1024; ++fd) ::close(fd);
}

// Only async-signal-safe calls: other threads may have held locks when the process was forked.
[[noreturn]] void become_remover(int input, const char* folder) {
  ::setsid();  // Ctrl-C ends the test, and must not end this
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(input, STDIN_FILENO);
  const int null = ::open("/dev/null", O_WRONLY);
  ::dup2(null, STDOUT_FILENO);
  ::dup2(null, STDERR_FILENO);
  close_others();
  if (::chdir("/") != 0) ::_exit(127);  // it must not keep the folder of the program in use
  ::execl("/bin/sh", "sh", "-c", kScript, "sh", folder, static_cast<char*>(nullptr));
  ::_exit(127);
}

}  // namespace

LeftoverRemover::LeftoverRemover(const std::string& folder) : owner_(::getpid()) {
  int ends[2];
  if (::pipe(ends) != 0) return;
  const Descriptor input = above_standard(ends[0]);
  pipe_ = above_standard(ends[1]);
  child_ = ::fork();
  if (child_ == 0) become_remover(input.get(), folder.c_str());
}

LeftoverRemover::~LeftoverRemover() {
  if (child_ < 0 || owner_ != ::getpid()) return;
  ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
