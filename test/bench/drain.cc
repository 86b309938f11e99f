#include "bench/drain.h"

namespace bench {
namespace {

delayqueue::ConsumerOptions options_with(std::size_t concurrency) {
  delayqueue::ConsumerOptions options;
  options.concurrency = concurrency;
  return options;
}

}  // namespace

Drain::Drain(const std::string& url, const std::vector<std::string>& queues, std::size_t concurrency,
             std::vector<std::size_t> marks, const delayqueue::ClientOptions& connection, milliseconds handler_time)
    : marks_(std::move(marks)),
      handler_time_(handler_time),
      times_(marks_.size()),
      consumer_({url, connection}, subscriptions(queues), options_with(concurrency)) {
  consumer_.start();
}

std::vector<delayqueue::Subscription> Drain::subscriptions(const std::vector<std::string>& queues) {
  std::vector<delayqueue::Subscription> all;
  for (const std::string& queue : queues) {
    all.push_back({queue, delayqueue::Handler([this](const delayqueue::Message&) { return handle(); })});
  }
  return all;
}

delayqueue::Verdict Drain::handle() {
  if (handler_time_ > milliseconds(0)) std::this_thread::sleep_for(handler_time_);
  const std::size_t number = handled_.fetch_add(1, std::memory_order_relaxed) + 1;
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    if (number == marks_[i]) times_[i] = since(start_);
  }
  return delayqueue::ack();
}

bool Drain::reaches(std::size_t settled, Clock::time_point deadline, Progress& progress) {
  std::size_t acked = 0;
  while (Clock::now() < deadline && acked < settled) {
    acked = consumer_.metrics().stats.acked;
    progress.step("handled", acked, settled);
    // Polls rarely while many messages are left, because polling takes CPU time from the consumer.
    std::this_thread::sleep_for(std::chrono::microseconds(acked + 2'000 < settled ? 2'000 : 100));
  }
  reached_ = Clock::now();
  cpu_us_ = 1e6 * (cpu_time() - cpu_start_);
  return acked >= settled;
}

double Drain::mark(std::size_t i) const { return times_[i]; }

void Drain::stop() { static_cast<void>(consumer_.stop()); }

}  // namespace bench
