#include "support/cpu_share.h"

#include <signal.h>
#include <time.h>

namespace test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kTick{500};
constexpr double kBurst = 0.001;  // seconds that a process may save up while it has nothing to do

}  // namespace

double cpu_seconds(int process) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) {
    throw std::runtime_error("cannot read the CPU time of process " + std::to_string(process));
  }
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

CpuShare::CpuShare(const std::vector<int>& processes, double share) : share_(share) {
  for (const int process : processes) held_.push_back({process, cpu_seconds(process), false});
  thread_ = std::thread([this] { run(); });
}

CpuShare::~CpuShare() {
  ending_ = true;
  thread_.join();
  for (const Held& held : held_) ::kill(held.process, SIGCONT);
}

void CpuShare::run() {
  for (auto before = Clock::now(); !ending_;) {
    std::this_thread::sleep_for(kTick);
    const auto now = Clock::now();
    const double more = share_ * std::chrono::duration<double>(now - before).count();
    before = now;
    for (Held& held : held_) adjust(held, more);
  }
}

// A process that used more than its share, because the thread was late, may use so much less the next time.
void CpuShare::adjust(Held& held, double more) {
  const double used = cpu_seconds(held.process);
  held.allowed = std::min(held.allowed + more, used + kBurst);
  const bool stops = used > held.allowed;
  if (stops == held.stopped) return;
  held.stopped = stops;
  ::kill(held.process, stops ? SIGSTOP : SIGCONT);
}

}  // namespace test
