// The cost of idle consumers, the commands that fifty of them send for one message, and how late a hundred are.

#include "bench/monitor.h"
#include "bench/part.h"
#include "bench/schedule.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr milliseconds kSettle{500};  // time to settle after a start
constexpr std::chrono::seconds kPatience{20};
constexpr milliseconds kStarts{500};  // the consumers start within this time, not at once
constexpr milliseconds kCrowdGap{10};

class Idlers {
 public:
  // `log`: records the lateness of the messages; null: nothing is recorded.
  Idlers(Bench& bench, std::size_t count, const ConsumerOptions& options = {}, LatenessLog* log = nullptr) {
    const auto handler = [this, log](const Message& message) {
      if (log != nullptr) static_cast<void>(log->record(message));
      ++handled_;
      return ack();
    };
    for (std::size_t i = 0; i < count; ++i) {
      consumers_.push_back(std::make_unique<Consumer>(bench.server.url(), "bench", handler, options));
      consumers_.back()->start();
      std::this_thread::sleep_for(kStarts / static_cast<int>(count));
    }
  }

  ~Idlers() {
    std::vector<std::thread> enders;
    for (auto& consumer : consumers_) enders.emplace_back([&consumer] { consumer.reset(); });
    for (std::thread& ender : enders) ender.join();
  }
  Idlers(const Idlers&) = delete;
  Idlers& operator=(const Idlers&) = delete;

  int handled() const { return handled_; }

 private:
  std::atomic<int> handled_{0};
  std::vector<std::unique_ptr<Consumer>> consumers_;
};

// The requests since the last call. Waits until `moment`, and until `handled` messages are handled.
double requests_until(Monitor& monitor, Clock::time_point moment, const Idlers& idlers, int handled) {
  std::this_thread::sleep_until(moment);
  while (idlers.handled() < handled) {
    if (Clock::now() > moment + kPatience) throw std::runtime_error("herd: a message was not handled");
    std::this_thread::sleep_for(milliseconds(1));
  }
  return static_cast<double>(monitor.requests(false));
}

// Many idle consumers of one queue, and then a message every 10 ms.
void measure_crowd(Bench& bench) {
  bench.server.flush();
  const std::size_t messages = bench.scale.crowd_messages;
  LatenessLog log(messages);
  Idlers many(bench, bench.scale.crowd, {}, &log);
  std::this_thread::sleep_for(bench.scale.crowd_calm);
  {
    Monitor monitor(bench.server);
    const auto start = Clock::now();
    std::this_thread::sleep_for(bench.scale.crowd_idle);
    bench.figures.add("crowd.requests_per_s", static_cast<double>(monitor.requests()) / since(start));
  }
  const DueTimes due = send_schedule(bench, {messages, 1, kCrowdGap});
  std::this_thread::sleep_until(due.last);
  for (const auto limit = Clock::now() + kPatience; log.recorded() < messages;) {
    if (Clock::now() > limit) throw std::runtime_error("crowd: not all messages were handled in time");
    std::this_thread::sleep_for(milliseconds(5));
  }
  bench.figures.add("crowd.lateness_ms.p50", percentile(log.late_ms(), 0.5));
  bench.figures.add("crowd.lateness_ms.p99", percentile(log.late_ms(), 0.99));
}

// Counts the requests that one message causes, including its send. The poll interval of the consumers is longer than
// the measurement, so every request is caused by the message.
void measure_herd(Bench& bench) {
  bench.server.flush();
  Producer producer(bench.server.url(), "bench");
  SendOptions options;
  options.delay = kLater;
  producer.send(payload(), options);  // opens the connection; the message is not due during the run
  Monitor monitor(bench.server);
  ConsumerOptions patient;
  patient.tuning.poll_interval = kPatience;
  const auto start = Clock::now();
  Idlers many(bench, bench.scale.herd_consumers, patient);
  const auto calm = start + bench.scale.herd_calm;
  const milliseconds half = bench.scale.herd_half;
  requests_until(monitor, calm, many, 0);

  options.delay = milliseconds(0);
  producer.send(payload(), options);
  const double immediate = requests_until(monitor, calm + half, many, 1);
  options.delay = half * 7 / 5;
  producer.send(payload(), options);
  const double delayed = requests_until(monitor, calm + 3 * half, many, 2);

  bench.figures.add("herd.requests", std::max(immediate, delayed));
  bench.figures.add("herd.immediate", immediate);
  bench.figures.add("herd.delayed", delayed);
}

}  // namespace

void idle(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    bench.server.flush();
    Idlers one(bench, 1);
    std::this_thread::sleep_for(kSettle);
    Monitor monitor(bench.server);
    monitor.requests();
    const double cpu = cpu_time();
    const auto start = Clock::now();
    std::this_thread::sleep_for(bench.scale.idle);
    const double took = since(start);
    bench.figures.add("idle.cpu_percent", 100 * (cpu_time() - cpu) / took);
    bench.figures.add("idle.requests_per_s", static_cast<double>(monitor.requests()) / took);
  }
}

void crowd(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) measure_crowd(bench);
}

void herd(Bench& bench) {
  for (int i = 0; i < bench.scale.herds; ++i) measure_herd(bench);
}

}  // namespace bench
