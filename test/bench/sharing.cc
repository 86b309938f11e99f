// Threads that send through one Producer each, one queue each: with shared connections, and with a client name for each
// Producer, so that none is shared.

#include "bench/jobs.h"
#include "bench/part.h"

namespace bench {
namespace {

using namespace delayqueue;

// The times of the sends of one thread, in us.
std::vector<double> time_sends(Producer& producer, std::size_t sends) {
  std::vector<double> took;
  took.reserve(sends);
  SendOptions later;
  later.delay = kLater;
  for (std::size_t i = 0; i < sends; ++i) {
    const auto begin = Clock::now();
    producer.send(payload(), later);
    took.push_back(1e6 * since(begin));
  }
  return took;
}

void measure(Bench& bench, std::size_t threads, bool shared) {
  const std::string name = "sharing." + std::to_string(threads) + (shared ? ".shared" : ".own");
  bench.progress.step(name);
  bench.server.flush();
  std::vector<Producer> producers;
  for (std::size_t i = 0; i < threads; ++i) {
    ClientOptions options;
    options.client_name = shared ? "bench" : "bench-" + std::to_string(i);
    producers.emplace_back(Client(bench.server.url(), options), kQueue + std::to_string(i));
    producers.back().send(payload());  // connects, and loads the scripts
  }
  std::vector<std::vector<double>> took(threads);
  std::vector<std::thread> senders;
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < threads; ++i) {
    senders.emplace_back([&, i] { took[i] = time_sends(producers[i], bench.scale.round_trips); });
  }
  for (std::thread& sender : senders) sender.join();
  bench.figures.add(name + ".send", static_cast<double>(threads * bench.scale.round_trips) / since(begin));
  std::vector<double> all;
  for (const std::vector<double>& one : took) all.insert(all.end(), one.begin(), one.end());
  bench.figures.add(name + ".p99_us", percentile(std::move(all), 0.99));
}

}  // namespace

void sharing(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const std::size_t threads : {1U, 2U, 8U}) {
      for (const bool shared : {false, true}) measure(bench, threads, shared);
    }
  }
  for (const std::string threads : {"1", "2", "8"}) {
    const std::string name = "sharing." + threads;
    bench.figures.ratio("ratio.sharing_" + threads, name + ".shared.send", name + ".own.send");
  }
}

}  // namespace bench
