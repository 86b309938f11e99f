#include "inspector/queue_limits.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

namespace delayqueue {
namespace {

constexpr std::uint64_t kMostMessages = 1'000'000;  // a second, and in a burst
constexpr std::uint64_t kMostInQueue = 1'000'000'000;
constexpr milliseconds kLongestPeriod{86'400'000};
constexpr milliseconds kBurst{100};  // the time whose messages are the default burst

void check_range(const char* member, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  if (value >= least && value <= most) return;
  throw std::invalid_argument(std::string(member) + ": " + std::to_string(value) + "; expected " +
                              std::to_string(least) + " to " + std::to_string(most));
}

// Each partition has its share.
void check_divided(const char* member, std::uint64_t value, unsigned partitions) {
  check_range(member, value, 1, kMostInQueue);
  if (value >= partitions) return;
  const std::string parts = std::to_string(partitions);
  throw std::invalid_argument(std::string(member) + ": " + std::to_string(value) + ", but the queue has had " + parts +
                              " partitions, which divide the limit among them; expected at least " + parts);
}

store::RateLimit checked(const Rate& rate) {
  if (rate.per < milliseconds(1) || rate.per > kLongestPeriod) {
    throw std::invalid_argument("rate.per: " + std::to_string(rate.per.count()) + " ms; expected 1 ms to a day");
  }
  const auto ms = static_cast<std::uint64_t>(rate.per.count());
  check_range("rate.messages", rate.messages, 1, kMostMessages * ms / 1000);
  check_range("rate.burst", rate.burst, 0, kMostMessages);
  const std::uint64_t in_burst =
      std::clamp<std::uint64_t>(rate.messages * static_cast<std::uint64_t>(kBurst.count()) / ms, 1, kMostMessages);
  return {rate.messages, rate.per, rate.burst > 0 ? rate.burst : in_burst};
}

}  // namespace

store::Limits checked(const QueueLimits& limits, unsigned partitions) {
  store::Limits all;
  all.parts = partitions;
  check_range("generation", limits.generation, 0, std::uint64_t{1} << 53);
  all.generation = static_cast<std::int64_t>(limits.generation);
  if (limits.rate) all.rate = checked(*limits.rate);
  if (limits.running) check_divided("running", *limits.running, partitions);
  if (limits.length) check_divided("length", *limits.length, partitions);
  all.running = limits.running;
  all.length = limits.length;
  return all;
}

QueueLimits limits_of(const store::Limits& limits) {
  QueueLimits all;
  all.generation = static_cast<std::uint64_t>(limits.generation);
  if (limits.rate) {
    const auto per = std::chrono::ceil<milliseconds>(limits.rate->period);
    all.rate = Rate{limits.rate->messages, per, limits.rate->burst};
  }
  all.running = limits.running;
  all.length = limits.length;
  return all;
}

}  // namespace delayqueue
