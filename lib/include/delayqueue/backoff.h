// Backoff: how long a message waits between a delivery that failed and the next one.
#pragma once

#include <delayqueue/export.h>
#include <delayqueue/types.h>

#include <functional>
#include <type_traits>
#include <utility>

namespace delayqueue {

// The wait as a function of the number of the delivery that failed, which is 1 for the first delivery. The consumer
// calls it in its own thread, which also renews the leases, so it must return soon. A wait below 0 counts as 0, and one
// above a hundred years as a hundred years: see nack().
class DELAYQUEUE_EXPORT Backoff {
 public:
  // The same wait after every delivery: 0 to a hundred years. Throws std::invalid_argument.
  static Backoff fixed(milliseconds wait);

  // The waits `first`, 2 x `first`, 4 x `first` ..., at most `most`. Each is shortened at random, by at most the share
  // `jitter` (0.2: by up to 20%). `first` is at least 1 ms, `most` at least `first`, `jitter` 0 to 1. Throws
  // std::invalid_argument.
  static Backoff exponential(milliseconds first, milliseconds most, double jitter = 0.2);

  // Any function of that number. If it throws, the wait is 1 s and the logger gets a warning.
  template <class Function, class = std::enable_if_t<std::is_invocable_r_v<milliseconds, Function&, int> &&
                                                     !std::is_same_v<std::decay_t<Function>, Backoff>>>
  Backoff(Function wait) : wait_(std::move(wait)) {}  // NOLINT(google-explicit-constructor)

  milliseconds operator()(int attempt) const { return wait_(attempt); }

 private:
  std::function<milliseconds(int attempt)> wait_;
};

}  // namespace delayqueue
