#include "os/caught_signals.h"

#include <delayqueue/detail/owned.h>

#include <semaphore.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>

namespace delayqueue {
namespace {

// What the signal handler uses. It lives as long as the process, because a handler may still run in another thread
// after the actions are restored.
struct CaughtState {
  CaughtState() { sem_init(&changed, 0, 0); }

  std::atomic<long> owner{0};  // the process that catches; 0: none
  std::atomic<bool> seen{false};
  std::atomic<int> first{0};    // the number of the first signal, once its handler has changed all actions
  std::atomic<int> running{0};  // handlers
  std::array<std::atomic<bool>, NSIG> caught{};
  sem_t changed{};
};

CaughtState& caught_state() {
  static CaughtState* const state = new CaughtState;
  return *state;
}

std::atomic<CaughtState*> signal_state{nullptr};  // for the handler, which must not initialize a static object

void set_default(int number) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

// Calls async-signal-safe functions only.
void on_signal(int number) {
  const int error = errno;
  CaughtState& state = *signal_state.load();
  ++state.running;
  set_default(number);
  for (std::size_t i = 1; i < state.caught.size(); ++i) {
    if (state.caught[i]) set_default(static_cast<int>(i));
  }
  if (state.owner == getpid() && !state.seen.exchange(true)) {
    state.first = number;
    sem_post(&state.changed);
  } else {
    raise(number);  // blocked until this returns
  }
  --state.running;
  errno = error;
}

}  // namespace

CaughtSignals::CaughtSignals(const std::vector<int>& numbers) {
  if (numbers.empty()) throw std::invalid_argument("signals: none; expected at least one");
  before_.reserve(numbers.size());
  CaughtState& state = caught_state();
  const long process = internal::this_process();
  long owner = state.owner;
  if (owner == process || !state.owner.compare_exchange_strong(owner, process)) {
    throw std::logic_error("run: another consumer of this process waits for signals; expected one at a time");
  }
  signal_state = &state;
  state.seen = false;
  state.first = 0;
  while (sem_trywait(&state.changed) == 0) {
  }
  sigset_t unblocked;
  sigemptyset(&unblocked);
  for (const int number : numbers) {
    struct sigaction action {
    }, former{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    if (number <= 0 || number >= NSIG || sigaction(number, &action, &former) != 0) {
      restore();
      throw std::invalid_argument("signals: " + std::to_string(number) + "; expected signals that can be caught");
    }
    state.caught[static_cast<std::size_t>(number)] = true;
    before_.emplace_back(number, former);
    sigaddset(&unblocked, number);
  }
  pthread_sigmask(SIG_UNBLOCK, &unblocked, &mask_before_);
}

CaughtSignals::~CaughtSignals() {
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  restore();
}

// A handler that still runs in another thread may replace the actions.
void CaughtSignals::restore() {
  CaughtState& state = caught_state();
  set_actions_before();
  while (state.running != 0) std::this_thread::yield();
  set_actions_before();
  for (const auto& one : before_) state.caught[static_cast<std::size_t>(one.first)] = false;
  state.owner = 0;
}

// Backwards: a number that was given twice gets the action that it had first.
void CaughtSignals::set_actions_before() const {
  for (auto one = before_.rbegin(); one != before_.rend(); ++one) sigaction(one->first, &one->second, nullptr);
}

void CaughtSignals::wait() {
  while (sem_wait(&caught_state().changed) != 0 && errno == EINTR) {
  }
}

void CaughtSignals::wake() { sem_post(&caught_state().changed); }

int CaughtSignals::number() const { return caught_state().first; }

}  // namespace delayqueue
