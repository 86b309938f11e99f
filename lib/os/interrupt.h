// Ends what one thread waits for in the network, from another thread.
#pragma once

#include <sys/types.h>

#include <atomic>

#include "os/descriptor.h"

namespace delayqueue {

// Once raised it stays so: every wait of a thread within a Scope ends, and none begins.
class Interrupt {
 public:
  Interrupt();  // throws std::system_error when there is no pipe to be had
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Any thread, any time. In a fork it leaves the pipe alone, which the parent polls.
  void raise();
  bool is_raised() const { return raised_; }

  int fd() const { return reading_.get(); }  // to poll beside what is waited for

  // Of the Scope that this thread is in; null: none.
  static const Interrupt* current() { return here(); }

  // Whether that of this thread was raised.
  static bool is_raised_here() { return here() != nullptr && here()->is_raised(); }

  // poll() for input, which ends when that of this thread is raised, too. Then it returns 0.
  static int poll_here(int fd, int timeout_ms);

  // While it lives, this thread waits in the network only until `interrupt` is raised.
  class Scope {
   public:
    explicit Scope(const Interrupt& interrupt) : before_(here()) { here() = &interrupt; }
    ~Scope() { here() = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const Interrupt* const before_;
  };

 private:
  static const Interrupt*& here();

  const pid_t process_;
  Descriptor reading_, writing_;
  std::atomic<bool> raised_{false};
};

}  // namespace delayqueue
