// PrefetchSize: how many messages a lane holds for its handlers. Used by the consumer's thread only.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace delayqueue {

// It follows the speed of the handlers: fast ones never wait for the network, slow ones leave messages to other
// consumers.
class PrefetchSize {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  explicit PrefetchSize(std::size_t most) : most_(static_cast<double>(most)) {}

  // Not a whole number: many partitions, each of which handles a message now and then, add up to some.
  double get() const { return size_; }

  // So many handlers have returned since the last call. `take`: how long a take usually lasts.
  void handled(std::size_t returned, Seconds take) {
    handled_ += returned;
    const Clock::time_point now = Clock::now();
    const Seconds counted = now - counting_since_;
    const Seconds span = std::clamp<Seconds>(kRoundTripsToHandler * take, kSpan, kLongestSpan);
    if (counted < span / 2) return;
    const double in_span = static_cast<double>(handled_) * (span / counted);
    size_ = std::max(std::min(in_span, most_), size_ / 2);
    handled_ = 0;
    counting_since_ = now;
  }

 private:
  // It is the number of messages handled in a span: kSpan, or kRoundTripsToHandler takes if they last longer, at most
  // kLongestSpan.
  static constexpr std::chrono::milliseconds kSpan{10};
  static constexpr std::chrono::milliseconds kLongestSpan{100};
  static constexpr int kRoundTripsToHandler = 4;

  const double most_;
  double size_ = 0;
  std::size_t handled_ = 0;  // since counting_since_
  Clock::time_point counting_since_;
};

}  // namespace delayqueue
