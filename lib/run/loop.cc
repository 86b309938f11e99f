#include "run/loop.h"

#include "os/resources.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

namespace delayqueue::run {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

void wait(pollfd* fds, nfds_t count, nanoseconds time) {
  const auto whole = std::chrono::duration_cast<seconds>(time);
#ifdef __linux__
  const timespec limit{whole.count(), (time - whole).count()};
  ::ppoll(fds, count, &limit, nullptr);  // poll() has a resolution of 1 ms only
#else
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(std::min<nanoseconds>(time, seconds(3600)));
  ::poll(fds, count, static_cast<int>(limit.count()));
#endif
}

}  // namespace

Loop::Loop(std::function<Pause()> step) : step_(std::move(step)) { std::tie(read_end_, write_end_) = make_pipe(); }

Loop::~Loop() { stop(); }

void Loop::start() {
  const std::lock_guard lock(join_mutex_);
  thread_ = start_thread("a loop", [this] { run(); });
}

void Loop::wake() {
  if (woken_.exchange(true)) return;
  [[maybe_unused]] const auto written = ::write(write_end_.get(), "", 1);
}

void Loop::stop() {
  stopped_ = true;
  woken_ = true;
  [[maybe_unused]] const auto written = ::write(write_end_.get(), "", 1);  // the pause may ignore wake()
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void Loop::run() {
  while (!stopped_) {
    const Pause next = step_();
    if (next.time > nanoseconds::zero()) pause(next);
  }
}

void Loop::pause(const Pause& pause) {
  if (pause.ignores_wakes && !ignores_wakes_ && woken_.exchange(true)) drain();
  ignores_wakes_ = pause.ignores_wakes;
  const bool cancelled = !pause.ignores_wakes && woken_;
  if (stopped_) return;  // after drain(): stop() writes only once
  std::vector<pollfd> fds{{read_end_.get(), POLLIN, 0}};
  for (const int fd : pause.fds) fds.push_back({fd, POLLIN, 0});
  if (!cancelled) wait(fds.data(), fds.size(), pause.time);
  if (!pause.ignores_wakes) woken_ = false;
  if (cancelled || fds[0].revents != 0) drain();
}

void Loop::drain() {
  char bytes[16];
  // Until the pipe is empty: it may also have the byte of a wake() whose flag was reset before.
  while (::read(read_end_.get(), bytes, sizeof bytes) > 0) {
  }
}

}  // namespace delayqueue::run
