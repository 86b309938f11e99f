#include "producer/sender.h"

#include "os/resources.h"

#include <delayqueue/error.h>

#include <cerrno>
#include <ctime>
#include <utility>

namespace delayqueue {

Sender::Sender() {
  if (::sem_init(&semaphore_, 0, 0) != 0) throw SetupError("cannot make a semaphore: " + reason(errno));
}

Sender::~Sender() { ::sem_destroy(&semaphore_); }

void Sender::wait() {
  while (::sem_wait(&semaphore_) != 0 && errno == EINTR) {
  }
}

bool Sender::wait(std::chrono::milliseconds limit) {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  const std::int64_t ns = until.tv_nsec + limit.count() % 1000 * 1'000'000;
  until.tv_sec += limit.count() / 1000 + ns / 1'000'000'000;
  until.tv_nsec = ns % 1'000'000'000;
  int result = 0;
  while ((result = ::sem_timedwait(&semaphore_, &until)) != 0 && errno == EINTR) {
  }
  return result == 0;
}

void Sender::wake() { ::sem_post(&semaphore_); }

void wake_all(Sender* first) {
  while (first != nullptr) {
    Sender* const sender = std::exchange(first, first->next_done);
    sender->wake();
  }
}

}  // namespace delayqueue
