#include "os/interrupt.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace delayqueue {

Interrupt::Interrupt() : process_(::getpid()) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  reading_ = above_standard(ends[0]);
  writing_ = above_standard(ends[1]);
  if (reading_.get() < 0 || writing_.get() < 0) throw std::system_error(errno, std::generic_category(), "pipe");
}

void Interrupt::raise() {
  if (raised_.exchange(true) || process_ != ::getpid()) return;
  [[maybe_unused]] const auto written = ::write(writing_.get(), "", 1);  // stays unread: readable from now on
}

int Interrupt::poll_here(int fd, int timeout_ms) {
  pollfd fds[] = {{fd, POLLIN, 0}, {here() == nullptr ? -1 : here()->fd(), POLLIN, 0}};
  const int ready = ::poll(fds, 2, timeout_ms);
  return ready > 0 && fds[0].revents == 0 ? 0 : ready;
}

const Interrupt*& Interrupt::here() {
  thread_local const Interrupt* interrupt = nullptr;
  return interrupt;
}

}  // namespace delayqueue
