// Counters of a consumer: see ConsumerStats. Its thread and its workers write them; any thread may read them.
#pragma once

#include <delayqueue/consumer.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace delayqueue {

struct Counters {
  std::atomic<std::uint64_t> delivered{0}, acked{0}, nacked{0}, dead_lettered{0}, snoozed{0}, stale{0}, expired{0},
      foreign{0}, unconfirmed{0}, connects{0}, errors{0};
  std::atomic<std::uint64_t> running{0}, prefetched{0};  // current values; those above only grow
  std::atomic<bool> connected{false};

  void failed(std::string text) {
    ++errors;
    connected = false;
    const std::lock_guard lock(mutex_);
    last_error_ = std::move(text);
  }

  ConsumerStats stats() const {
    const std::lock_guard lock(mutex_);
    // In the order of ConsumerStats.
    return {delivered,   acked,    nacked, dead_lettered, snoozed,    stale,     expired,    foreign,
            unconfirmed, connects, errors, running,       prefetched, connected, last_error_};
  }

 private:
  mutable std::mutex mutex_;  // guards last_error_
  std::string last_error_;
};

}  // namespace delayqueue
