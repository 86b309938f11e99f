#include "bench/jobs.h"

#include "bench/drain.h"
#include "store/keys.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kSendBatch = 10'000;  // payloads in each call of send_batch
constexpr std::chrono::minutes kPatience{3};
constexpr const char* kNoMessage = "00000000-0000-4000-8000-000000000000";

}  // namespace

void await(const std::function<bool()>& condition) {
  const auto end = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > end) throw std::runtime_error("not all messages were handled within three minutes");
    std::this_thread::sleep_for(milliseconds(1));
  }
}

double send_backlog(const Target& target, std::size_t messages, const std::string& body, Due due) {
  Producer producer({target.url, target.connection}, kQueue);
  static_cast<void>(producer.cancel(kNoMessage));  // opens the connection
  SendOptions when;
  if (due == Due::scheduled) when.delay = kLater;
  const auto start = Clock::now();
  for (std::size_t sent = 0; sent < messages;) {
    const std::vector<std::string_view> bodies(std::min(kSendBatch, messages - sent), body);
    producer.send_batch(bodies, when);
    sent += bodies.size();
  }
  return static_cast<double>(messages) / since(start);
}

void make_due(Server& server) {
  const std::string pending = store::make_keys(kQueue, {}).pending;
  server.command({"ZUNIONSTORE", pending, "1", pending, "WEIGHTS", "0.5"});
}

double drain_backlog(Bench& bench, const Target& target, std::size_t messages, std::size_t workers) {
  Drain drain(target.url, {kQueue}, workers, {}, target.connection);
  if (!drain.reaches(messages, Clock::now() + kPatience, bench.progress))
    throw std::runtime_error("not all messages were delivered within three minutes");
  drain.stop();
  return static_cast<double>(messages) / drain.took();
}

void measure_jobs(Bench& bench, const Target& target, const std::string& name, std::size_t messages,
                  const std::string& body) {
  bench.progress.step(name);
  target.server.flush();
  bench.figures.add(name + ".send", send_backlog(target, messages, body, Due::scheduled));
  make_due(target.server);
  bench.figures.add(name + ".receive", drain_backlog(bench, target, messages, 8));
}

}  // namespace bench
