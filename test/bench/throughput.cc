// Sends and receives of the library, alternating with the bare commands that do the same, because the speed of the
// machine varies.

#include "bench/bare.h"
#include "bench/drain.h"
#include "bench/jobs.h"
#include "bench/part.h"
#include "store/record.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kSendBatch = 10'000;  // payloads in each call of send_batch
constexpr std::chrono::minutes kPatience{3};

double rate(std::size_t count, double took) { return static_cast<double>(count) / took; }

// The CPU time of Redis for each message, in us.
class RedisTime {
 public:
  explicit RedisTime(Bench& bench) : bench_(bench), start_(bench.server.cpu_us()) {}

  void add(const std::string& name, std::size_t messages) {
    bench_.figures.add("redis_us." + name, (bench_.server.cpu_us() - start_) / static_cast<double>(messages));
  }

 private:
  Bench& bench_;
  const double start_;
};

void run_bare(Bench& bench, Wire& wire, const std::string& name, const std::vector<Batch>& batches,
              std::size_t in_flight) {
  RedisTime redis(bench);
  bench.figures.add("limit." + name, rate(bench.scale.messages, run(wire, batches, in_flight)));
  redis.add("limit_" + name, bench.scale.messages);
}

// Bare commands with one batch, or two batches, in flight.
void bare(Bench& bench, std::size_t in_flight) {
  const std::string form = in_flight == 1 ? "" : "_two_in_flight";
  bench.progress.step("limit" + form);
  bench.server.flush();
  const store::Keys keys = store::make_keys(kBareQueue, {});
  const std::vector<std::string> ids = store::new_ids(bench.scale.messages);
  Wire wire(bench.server.socket());
  run_bare(bench, wire, "send" + form, bare_sends(keys, ids, Bodies::set), in_flight);
  run_bare(bench, wire, "receive" + form, bare_receives(keys, ids), in_flight);
}

// Variants: MSET for the bodies, as the library does, and receives while other messages are in flight.
void bare_variants(Bench& bench) {
  bench.progress.step("limit, other forms");
  bench.server.flush();
  const store::Keys keys = store::make_keys(kBareQueue, {});
  const std::vector<std::string> ids = store::new_ids(bench.scale.messages);
  Wire wire(bench.server.socket());
  run_bare(bench, wire, "send_mset", bare_sends(keys, ids, Bodies::mset), 1);
  run(wire, bare_residents(keys), 1);
  run_bare(bench, wire, "receive_others_in_flight", bare_receives(keys, ids), 1);
}

std::size_t send_all(Bench& bench) {
  const std::vector<std::string> payloads(std::min(kSendBatch, bench.scale.messages), payload());
  SendOptions later;
  later.delay = kLater;
  Producer producer(bench.server.url(), kQueue);
  producer.send(payload(), later);  // opens the connection
  RedisTime redis(bench);
  const auto start = Clock::now();
  std::size_t sent = 0;
  for (; sent < bench.scale.messages; sent += payloads.size()) producer.send_batch(payloads, later);
  bench.figures.add("send.batch", rate(sent, since(start)));
  redis.add("send", sent);
  return sent + 1;
}

void library(Bench& bench) {
  bench.progress.step("send.batch");
  bench.server.flush();
  const double empty = bench.server.used_memory();
  const std::size_t sent = send_all(bench);
  bench.figures.add("memory.bytes_per_message", (bench.server.used_memory() - empty) / static_cast<double>(sent));
  make_due(bench.server);
  bench.progress.step("receive.empty_handler");
  RedisTime redis(bench);
  Drain drain(bench.server.url(), {kQueue}, 8);
  if (!drain.reaches(sent, Clock::now() + kPatience, bench.progress))
    throw std::runtime_error("throughput: not all messages were delivered in time");
  redis.add("receive", sent);
  drain.stop();
  bench.figures.add("receive.empty_handler", rate(sent, drain.took()));
  bench.figures.add("client.cpu_us_per_message", drain.cpu_us() / static_cast<double>(sent));
}

void limits(Bench& bench) {
  bare(bench, 1);
  bare(bench, 2);
  bare_variants(bench);
}

}  // namespace

void throughput(Bench& bench) {
  for (int round = 0; round < bench.scale.rounds; ++round) {
    if (round % 2 == 0) limits(bench);
    library(bench);
    if (round % 2 == 1) limits(bench);
  }
  bench.server.flush();
  bench.figures.ratio("ratio.send", "send.batch", "limit.send");
  bench.figures.ratio("ratio.receive", "receive.empty_handler", "limit.receive");
  bench.figures.ratio("ratio.receive_others_in_flight", "receive.empty_handler", "limit.receive_others_in_flight");
}

}  // namespace bench
