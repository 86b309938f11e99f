// CPU time of Redis for messages with and without headers: their sends in batches and one at a time, and all that a
// consumer does with them.

#include "bench/jobs.h"
#include "bench/part.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kInCall = 10'000;  // messages in each call of send_batch

struct HeadersCase {
  const char* name;
  Headers headers;
};

std::vector<HeadersCase> cases() {
  const std::string trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  return {{"none", {}}, {"trace", {{"traceparent", trace}}}, {"1kib", {{"k", std::string(1020, 'x')}}}};
}

void measure_headers(Bench& bench, const HeadersCase& one) {
  const std::string name = "headers." + std::string(one.name);
  bench.progress.step(name);
  bench.server.flush();
  SendOptions options;
  options.delay = kLater;
  options.headers = one.headers;
  const auto add = [&](const std::string& figure, double before, std::size_t messages) {
    bench.figures.add(name + '.' + figure, (bench.server.cpu_us() - before) / static_cast<double>(messages));
  };
  Producer producer(bench.server.url(), kQueue);
  producer.send(payload(), options);  // opens the connection
  bench.server.flush();
  double before = bench.server.cpu_us();
  for (std::size_t i = 0; i < bench.scale.wakes; ++i) producer.send(payload(), options);
  add("send_one_redis_us", before, bench.scale.wakes);

  bench.server.flush();
  before = bench.server.cpu_us();
  for (std::size_t sent = 0; sent < bench.scale.compared;) {
    const std::vector<std::string> some(std::min(kInCall, bench.scale.compared - sent), payload());
    producer.send_batch(some, options);
    sent += some.size();
  }
  add("send_redis_us", before, bench.scale.compared);

  make_due(bench.server);
  before = bench.server.cpu_us();
  static_cast<void>(drain_backlog(bench, Target(bench.server), bench.scale.compared, 8));
  add("receive_redis_us", before, bench.scale.compared);
}

}  // namespace

void headers(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const HeadersCase& one : cases()) measure_headers(bench, one);
  }
  bench.server.flush();
}

}  // namespace bench
