// The memory of the client and of the server during a long steady load. Only --only runs it.
#include <unistd.h>

#include "bench/jobs.h"
#include "bench/part.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kBatch = 100;  // messages; one batch every 10 ms
constexpr milliseconds kPause{10};
constexpr milliseconds kMostDelay{1'000};
constexpr int kSamples = 100;

void add(Bench& bench, const std::string& name, const std::vector<double>& mib) {
  bench.figures.add("rss_mib." + name + ".start", mib.front());
  bench.figures.add("rss_mib." + name + ".end", mib.back());
  bench.figures.add("rss_mib." + name + ".most", *std::max_element(mib.begin(), mib.end()));
}

}  // namespace

double resident_mib(int process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::strtod(line.c_str() + 6, nullptr) / 1024;
  }
  throw std::runtime_error("cannot read the memory of process " + std::to_string(process) + " in /proc");
}

void rss(Bench& bench) {
  bench.server.flush();
  bench.figures.environment("rss", std::to_string(bench.scale.rss.count() / 1000) + " s");
  ConsumerOptions eight;
  eight.concurrency = 8;
  Consumer consumer(
      bench.server.url(), kQueue, [](const Message&) { return ack(); }, eight);
  consumer.start();
  Producer producer(bench.server.url(), kQueue);
  const std::vector<std::string> payloads(kBatch, payload());
  std::vector<double> client, server;
  const auto start = Clock::now();
  const auto span = bench.scale.rss;
  auto next_sample = start + span / 20;  // after the warm-up
  SendOptions options;
  for (auto next = start; next < start + span; next += kPause) {
    std::this_thread::sleep_until(next);
    options.delay = options.delay < kMostDelay ? options.delay + kPause : milliseconds(0);
    producer.send_batch(payloads, options);
    if (Clock::now() < next_sample) continue;
    next_sample += span / kSamples;
    client.push_back(resident_mib(::getpid()));
    server.push_back(resident_mib(bench.server.pid()));
    bench.progress.step("samples", client.size(), kSamples);
  }
  static_cast<void>(consumer.stop());
  if (client.empty()) throw std::runtime_error("rss: the run is too short");
  add(bench, "client", client);
  add(bench, "server", server);
}

}  // namespace bench
