#include <delayqueue/consumer.h>

#include "os/resources.h"
#include "queue/option_checks.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>

namespace delayqueue {

Backoff Backoff::fixed(milliseconds wait) {
  check_at_least("Backoff::fixed: wait", wait, milliseconds(0));
  return [wait](int) { return wait; };
}

Backoff Backoff::exponential(milliseconds first, milliseconds most, double jitter) {
  check_at_least("Backoff::exponential: first", first, milliseconds(1));
  check_at_least("Backoff::exponential: most", most, first);
  if (!(jitter >= 0 && jitter <= 1)) {
    throw std::invalid_argument("Backoff::exponential: jitter: " + std::to_string(jitter) + "; expected 0 to 1");
  }
  return [first, most, jitter](int attempt) {
    thread_local std::minstd_rand random{random_seed()};
    const double steps = std::min(std::max(attempt - 1, 0), 62);
    const double full = std::min(std::ldexp(static_cast<double>(first.count()), static_cast<int>(steps)),
                                 static_cast<double>(most.count()));
    const double part = std::uniform_real_distribution<double>(0, jitter)(random);
    return milliseconds(std::llround(full * (1 - part)));
  };
}

}  // namespace delayqueue
