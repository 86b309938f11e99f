// Measures single sends, a consumer with concurrency 1, and sending and handling at the same time.
#include <delayqueue/producer.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/drain.h"
#include "bench/part.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kSendBatch = 1'000;  // payloads in each call of send_batch
constexpr std::chrono::minutes kPatience{3};

// The rate of messages sent by threads that share a Producer.
double send_for(Bench& bench, int threads) {
  bench.server.flush();
  Producer producer(bench.server.url(), "bench");
  SendOptions later;
  later.delay = kLater;
  const std::string body = payload();
  producer.send(body, later);  // opens the connection
  std::atomic<std::size_t> sent{0};
  const auto start = Clock::now();
  const auto end = start + bench.scale.sending;
  std::vector<std::thread> senders;
  for (int i = 0; i < threads; ++i) {
    senders.emplace_back([&] {
      std::size_t mine = 0;
      for (; Clock::now() < end; ++mine) producer.send(body, later);
      sent += mine;
    });
  }
  for (std::thread& sender : senders) sender.join();
  return static_cast<double>(sent) / since(start);
}

void await(Bench& bench, Drain& drain, std::size_t messages) {
  if (!drain.reaches(messages, Clock::now() + kPatience, bench.progress))
    throw std::runtime_error("steady: not all messages were delivered in time");
}

}  // namespace

void sends(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    bench.progress.step("one thread");
    bench.figures.add("send.one_thread", send_for(bench, 1));
    bench.progress.step("eight threads");
    bench.figures.add("send.eight_threads", send_for(bench, 8));
  }
}

void worker(Bench& bench) {
  const std::size_t messages = bench.scale.lone_messages;
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    bench.server.flush();
    Producer(bench.server.url(), "bench").send_batch(std::vector<std::string>(messages, payload()));
    Drain drain(bench.server.url(), "bench", 1);
    await(bench, drain, messages);
    drain.stop();
    bench.figures.add("receive.one_worker", static_cast<double>(messages) / drain.took());
  }
}

void end_to_end(Bench& bench) {
  const std::size_t messages = bench.scale.end_to_end;
  const std::vector<std::string> payloads(kSendBatch, payload());
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    bench.server.flush();
    Producer producer(bench.server.url(), "bench");
    Drain drain(bench.server.url(), "bench", 8);
    const auto start = Clock::now();
    for (std::size_t sent = 0; sent < messages; sent += payloads.size()) producer.send_batch(payloads);
    await(bench, drain, messages);
    bench.figures.add("end_to_end", static_cast<double>(messages) / since(start));
    drain.stop();
  }
}

}  // namespace bench
