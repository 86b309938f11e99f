// TimeLimit: a time by which the network waits of one thread end, besides the timeouts of its connections.
#pragma once

#include "redis/socket.h"

#include <chrono>

namespace delayqueue::redis {

class TimeLimit {
 public:
  // Sets the limit of this thread until the end of the scope.
  class Scope {
   public:
    explicit Scope(Deadline limit) : before_(of_thread()) { of_thread() = limit; }
    ~Scope() { of_thread() = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // The server has shown that it works, or has taken many bytes: the waits that follow have more time.
    void extend(Deadline limit) { of_thread() = limit; }

   private:
    const Deadline before_;
  };

  // The timeout or deadline of a wait that begins now, cut to the limit. At least 50 ms are left of it: a call that has
  // waited long for its turn must not close a connection that works.
  static std::chrono::milliseconds cut(std::chrono::milliseconds timeout);
  static Deadline cut(Deadline deadline);

 private:
  static Deadline& of_thread();
};

}  // namespace delayqueue::redis
