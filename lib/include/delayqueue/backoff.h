// Backoff: how long a message waits between a delivery that failed and the next one.
#pragma once

#include <delayqueue/export.h>
#include <delayqueue/types.h>

#include <functional>
#include <type_traits>
#include <utility>

namespace delayqueue {

class DELAYQUEUE_EXPORT Backoff {
 public:
  // The same wait after every delivery.
  static Backoff fixed(milliseconds wait);

  // The waits first, 2 x first, 4 x first ..., at most `most`. Each is shortened by a random part of up to `jitter` (0
  // to 1) of it.
  static Backoff exponential(milliseconds first, milliseconds most, double jitter = 0.2);

  // Any function of the number of the delivery that failed, from 1. If it throws, the wait is 1 s and the logger gets a
  // warning.
  template <class Function, class = std::enable_if_t<std::is_invocable_r_v<milliseconds, Function&, int> &&
                                                     !std::is_same_v<std::decay_t<Function>, Backoff>>>
  Backoff(Function wait) : wait_(std::move(wait)) {}  // NOLINT(google-explicit-constructor)

  milliseconds operator()(int attempt) const { return wait_(attempt); }

 private:
  std::function<milliseconds(int attempt)> wait_;
};

}  // namespace delayqueue
