#include "work/init_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "exit.h"

namespace dqctl {
namespace {

constexpr int kKilled = 128;  // plus the signal: how a shell reports it

// Reaps until this child ends, then exits with its code.
void reap_until_end_of(pid_t worker) {
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended == worker) ::_exit(WIFSIGNALED(status) ? kKilled + WTERMSIG(status) : WEXITSTATUS(status));
    if (ended <= 0) return;
  }
}

[[noreturn]] void run_as_process_1(pid_t worker, const sigset_t& all) {
  for (;;) {
    reap_until_end_of(worker);
    siginfo_t info{};
    const int number = ::sigwaitinfo(&all, &info);
    // The terminal sends Ctrl-C to the worker, too: SI_KERNEL.
    if (number > 0 && number != SIGCHLD && info.si_code != SI_KERNEL) ::kill(worker, number);
  }
}

}  // namespace

void leave_process_1() {
  if (::getpid() != 1) return;
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);  // a signal that comes before the loop waits for it
  const pid_t worker = ::fork();
  if (worker > 0) run_as_process_1(worker, all);
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (worker < 0) throw Failure(Exit::failed, "cannot start a process: " + std::generic_category().message(error));
}

}  // namespace dqctl
