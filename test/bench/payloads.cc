// Sends and receives of small and large payloads, beside the bare commands that store the same bytes.

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

void measure_limit(Bench& bench, const std::string& name, std::size_t messages, const std::string& body) {
  bench.server.flush();
  const std::size_t batch = std::clamp<std::size_t>(kCallBytes / body.size(), 1, store::kBatch);
  const std::vector<std::string> ids = store::new_ids(messages);
  const std::vector<Batch> batches = bare_sends_of(store::make_keys(kBareQueue, {}), ids, body, batch);
  Wire wire(bench.server.socket());
  bench.figures.add(name + ".limit_send", static_cast<double>(messages) / run(wire, batches, 2));
}

void measure_payload(Bench& bench, std::size_t size) {
  const std::string name = "payload." + std::to_string(size);
  const std::string body(size, 'x');
  const std::size_t messages = std::min(bench.scale.payload_messages, bench.scale.payload_bytes / size);
  // Before and after: memory that Redis has used and freed is faster than new memory.
  measure_limit(bench, name, messages, body);
  measure_jobs(bench, Target(bench.server), name, messages, body);
  measure_limit(bench, name, messages, body);
}

}  // namespace

void payloads(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const std::size_t size : kSizes) measure_payload(bench, size);
  }
  bench.server.flush();
}

}  // namespace bench
