#include "signals.h"

#include <signal.h>
#include <time.h>

#include <algorithm>

namespace dqctl {
namespace {

using Clock = std::chrono::steady_clock;

volatile sig_atomic_t received = 0;

void on_signal(int) { received = 1; }

}  // namespace

void watch_signals() {
  handle_signals(on_signal, static_cast<int>(SA_RESETHAND));
  ::signal(SIGPIPE, SIG_IGN);
}

void handle_signals(void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU}) {
    struct sigaction before {};
    const bool is_known = ::sigaction(number, nullptr, &before) == 0;
    if (number == SIGHUP && is_known && before.sa_handler == SIG_IGN) continue;  // nohup
    ::sigaction(number, &action, nullptr);
  }
}

bool interrupted() { return received != 0; }

bool sleep_for(std::chrono::milliseconds span) {
  // A signal may arrive just before nanosleep, which then does not notice it.
  constexpr std::chrono::milliseconds kLongestSleep{50};
  const auto end = Clock::now() + span;
  while (!interrupted()) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(end - Clock::now());
    if (left.count() <= 0) return true;
    const timespec slice{0, static_cast<long>(std::min<std::chrono::nanoseconds>(left, kLongestSleep).count())};
    ::nanosleep(&slice, nullptr);
  }
  return false;
}

}  // namespace dqctl
