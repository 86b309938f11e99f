// The lease of one delivery, as far as the consumer can trust it.
#pragma once

#include <atomic>
#include <chrono>

namespace delayqueue {

// Written by the consumer's thread, read by handlers.
class Lease {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Lease(Clock::time_point ends) { renew(ends); }

  // `ends`: by this machine's steady clock, and not after the end that Redis has confirmed.
  void renew(Clock::time_point ends) { ends_.store(ends.time_since_epoch().count(), std::memory_order_relaxed); }

  // Ends the lease for good: another consumer may have the message.
  void lose() { ends_.store(kLost, std::memory_order_relaxed); }

  bool lost() const { return Clock::now().time_since_epoch().count() >= ends_.load(std::memory_order_relaxed); }
  bool lost_for_good() const { return ends_.load(std::memory_order_relaxed) == kLost; }

 private:
  static constexpr Clock::rep kLost = 0;
  std::atomic<Clock::rep> ends_;
};

}  // namespace delayqueue
