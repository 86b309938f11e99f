// Busy waiting of a lone sender: it reads its socket again and again, for a short time, before it sleeps in poll(). A
// thread that sleeps runs again some tens of microseconds after its answer has arrived, which is most of what a lone
// send takes.
#pragma once

#include "os/cores.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace delayqueue {

// Decides by measurement which waits are busy, since a busy wait can also delay the answer, for example if other work
// needs all cores. The waits are counted in rounds of 1000. In each round the first 16 sleep and the next 16 are busy.
// The rest is busy if the median of the busy ones was at least a tenth shorter, and within the limit. If
// may_wait_busily() returns false after the first 16, all waits of the round sleep. For one thread at a time.
class BusyWait {
 public:
  // longest: limit of one busy wait; 0: none is busy.
  explicit BusyWait(std::chrono::microseconds longest, bool (*allows)(int socket) = may_wait_busily)
      : longest_(longest), allows_(allows) {}

  // Begins the wait for an answer on this socket. Returns how long it may be busy; 0: not at all.
  std::chrono::microseconds begin(int socket) {
    constexpr std::chrono::microseconds kNone{0};
    if (longest_ == kNone) return kNone;
    if (wait_ == kRound) restart();
    if (wait_ == kTrial) allowed_ = allows_(socket);
    const bool busy = wait_ >= kTrial && (wait_ < 2 * kTrial || faster_);
    return allowed_ && busy ? longest_ : kNone;
  }

  // Ends a wait: `took` is the time from begin() to the answer.
  void end(std::chrono::nanoseconds took) {
    if (longest_.count() == 0) return;
    if (wait_ < 2 * kTrial) (wait_ < kTrial ? asleep_ : busy_)[wait_ % kTrial] = took;
    if (++wait_ != 2 * kTrial) return;
    const auto busy = median(busy_);
    faster_ = busy <= longest_ && busy * 10 <= median(asleep_) * 9;
  }

  // Begins a new round. The caller does so when several threads send. So busy waits start again only after one thread
  // has sent alone for a while.
  void restart() { wait_ = 0; }

 private:
  static constexpr std::size_t kRound = 1000;
  static constexpr std::size_t kTrial = 16;
  using Times = std::array<std::chrono::nanoseconds, kTrial>;

  static std::chrono::nanoseconds median(Times times) {
    std::nth_element(times.begin(), times.begin() + kTrial / 2, times.end());
    return times[kTrial / 2];
  }

  const std::chrono::microseconds longest_;
  bool (*const allows_)(int socket);
  std::size_t wait_ = 0;  // waits of this round that have ended
  bool allowed_ = false;  // what allows_ returned in this round
  bool faster_ = false;   // see above; known after 2 * kTrial waits
  Times asleep_{};        // how long the first waits of the round took
  Times busy_{};          // the next ones
};

}  // namespace delayqueue
