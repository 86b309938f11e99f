#include "os/interrupt.h"

#include "os/resources.h"

#include <poll.h>
#include <unistd.h>

#include <tuple>

namespace delayqueue {

Interrupt::Interrupt() : process_(::getpid()) { std::tie(read_end_, write_end_) = make_pipe(); }

void Interrupt::raise() {
  if (raised_.exchange(true) || process_ != ::getpid()) return;
  [[maybe_unused]] const auto written = ::write(write_end_.get(), "", 1);  // never read: the pipe stays readable
}

int Interrupt::poll_here(int fd, int timeout_ms) {
  pollfd fds[] = {{fd, POLLIN, 0}, {scope_of_thread() == nullptr ? -1 : scope_of_thread()->fd(), POLLIN, 0}};
  const int ready = ::poll(fds, 2, timeout_ms);
  return ready > 0 && fds[0].revents == 0 ? 0 : ready;
}

const Interrupt*& Interrupt::scope_of_thread() {
  thread_local const Interrupt* interrupt = nullptr;
  return interrupt;
}

}  // namespace delayqueue
