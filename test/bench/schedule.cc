#include "bench/schedule.h"

#include "bench/jobs.h"

namespace bench {
namespace {

using namespace delayqueue;
using std::chrono::system_clock;

constexpr std::chrono::seconds kPatience{20};

// The least that sending is expected to reach: messages, and script calls, in a millisecond.
constexpr double kMessagesPerMs = 60;
constexpr double kCallsPerMs = 10;

long long us(system_clock::duration span) {
  return std::chrono::duration_cast<std::chrono::microseconds>(span).count();
}

}  // namespace

DueTimes send_schedule(Bench& bench, const Schedule& schedule) {
  const auto messages = static_cast<double>(schedule.messages);
  const auto duration =
      milliseconds(static_cast<long long>(messages / kMessagesPerMs + messages / schedule.group / kCallsPerMs));
  const auto first = std::chrono::ceil<milliseconds>(system_clock::now()) + bench.scale.ahead + duration;
  DueTimes due{first, first};
  std::vector<OutgoingMessage> all(schedule.messages);
  for (std::size_t i = 0; i < all.size(); ++i) {
    due.last = first + schedule.gap * static_cast<long long>(static_cast<double>(i) / schedule.group);
    all[i].payload = std::to_string(us(due.last.time_since_epoch()));
    all[i].payload.resize(payload().size(), ' ');
    all[i].options.at = due.last;
  }
  Producer(bench.server.url(), kQueue).send_batch(all);
  if (system_clock::now() > first)
    throw std::runtime_error("sending took longer than the time before the first message is due");
  return due;
}

void await_acks(const Consumer& consumer, std::size_t messages, system_clock::time_point last) {
  std::this_thread::sleep_until(last);
  while (consumer.metrics().stats.acked < messages) {
    if (system_clock::now() > last + kPatience) throw std::runtime_error("not all messages were delivered in time");
    std::this_thread::sleep_for(milliseconds(5));
  }
}

Verdict LatenessLog::record(const Message& message) {
  const long long now = us(system_clock::now().time_since_epoch());
  const long long due = std::strtoll(message.payload().c_str(), nullptr, 10);
  const std::size_t at = recorded_.fetch_add(1, std::memory_order_relaxed);
  if (at < late_ms_.size()) late_ms_[at] = static_cast<double>(now - due) / 1000;
  return ack();
}

}  // namespace bench
