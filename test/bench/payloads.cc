// Sends and receives of small and large payloads, beside the bare commands that store the same bytes.
#include <delayqueue/producer.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/bare.h"
#include "bench/jobs.h"
#include "bench/part.h"
#include "store/record.h"
#include "store/scripts.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kSizes[] = {64, 1'024, 16'384, 1'048'576};
constexpr std::size_t kCallBytes = 256 * 1024;  // the most in one script call of the library, except for one large body
constexpr std::size_t kMiB = 1'048'576;

void measure_limit(Bench& bench, const std::string& name, std::size_t messages, const std::string& body) {
  bench.server.flush();
  const std::size_t batch = std::clamp<std::size_t>(kCallBytes / body.size(), 1, store::kBatch);
  const std::vector<std::string> ids = store::new_ids(messages);
  const std::vector<Batch> batches = bare_sends_of(store::make_keys("limit", {}), ids, body, batch);
  Wire wire(bench.server.socket());
  bench.figures.add(name + ".limit_send", static_cast<double>(messages) / run(wire, batches, 2));
}

void measure_payload(Bench& bench, std::size_t size) {
  const std::string name = "payload." + std::to_string(size);
  const std::string body(size, 'x');
  const std::size_t messages = std::min(bench.scale.payload_messages, bench.scale.payload_bytes / size);
  measure_jobs(bench, Target(bench.server), name, messages, body);
  measure_limit(bench, name, messages, body);
}

// How long Redis is held by one send of 1 MiB. Each message is cancelled, so that memory does not grow.
void measure_big_sends(Bench& bench) {
  bench.progress.step("stall_ms.send_1mib");
  bench.server.flush();
  Producer producer(bench.server.url(), kQueue);
  const std::string body(kMiB, 'x');
  SendOptions later;
  later.delay = kLater;
  static_cast<void>(producer.cancel(producer.send(body, later).id));  // loads the scripts
  std::vector<double> held;
  for (std::size_t i = 0; i < bench.scale.big_sends; ++i) {
    const std::string before = bench.server.command({"INFO", "commandstats"});
    const Sent sent = producer.send(body, later);
    const std::string after = bench.server.command({"INFO", "commandstats"});
    held.push_back(held_us(before, after) / 1000);
    static_cast<void>(producer.cancel(sent.id));
  }
  bench.figures.add("stall_ms.send_1mib", percentile(held, 0.99));
  bench.figures.add("stall_p50_ms.send_1mib", percentile(held, 0.5));
}

}  // namespace

void payloads(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const std::size_t size : kSizes) measure_payload(bench, size);
    measure_big_sends(bench);
  }
  bench.server.flush();
}

}  // namespace bench
