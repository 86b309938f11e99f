// A thread in GroupCommit::send(), and how it sleeps until its requests are done, or it becomes the leader.
#pragma once

#include <semaphore.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace delayqueue {

// The semaphore is thread-safe; the mutex of the GroupCommit guards the other members.
struct Sender {
  Sender();
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  void wait();
  // Returns false if it was not woken in time.
  bool wait(std::chrono::milliseconds limit);
  // *this may be destroyed as soon as its thread is woken.
  void wake();

  bool is_leader = false;
  bool sends_one = false;  // one message in all
  Sender* next_done = nullptr;
  std::size_t left = 0;      // requests that are not done
  std::size_t unloaded = 0;  // requests with messages that are in no batch yet
  // The batch and the script call in it that got the last step. Later steps go there or into a later one, to keep the
  // order.
  std::uint64_t last_batch = 0;
  std::size_t last_call = 0;

 private:
  sem_t semaphore_;  // not a condition variable: a woken thread should not have to lock a mutex
};

// Wakes `first` and those after it, by next_done.
void wake_all(Sender* first);

}  // namespace delayqueue
