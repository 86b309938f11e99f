// From which size on a body should be stored beside the script of its send: the CPU time of Redis for a message whose
// body passes through Lua, and for one whose body MSETNX stores, in a transaction with the script. Only --only runs it.

#include "bench/jobs.h"
#include "bench/part.h"
#include "redis/connection.h"
#include "redis/pipeline.h"
#include "store/moves.h"
#include "store/record.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kSizes[] = {16, 64, 256, 1'024, 4'096, 16'384, 65'536, 262'144, 1'048'576, 4'194'304};
constexpr std::size_t kCallBytes = 256 * 1024;  // the most in one script call of the library, except for one large body
constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// Sends batches of new messages, one after the other. Returns the CPU time of Redis for each message, in us.
double redis_us(Bench& bench, std::size_t staged_bytes, const std::string& body, std::size_t batch) {
  bench.server.flush();
  store::Moves::Options options;
  options.staged_bytes = staged_bytes;
  const store::Moves moves(store::make_keys(kQueue, {}), options);
  const auto connection = bench.server.connect();
  store::SendTerms terms;
  terms.due.delay = kLater;
  terms.new_ids = true;
  const auto send = [&] {
    const std::vector<std::string> ids = store::new_ids(batch);
    std::vector<store::NewMessage> messages;
    for (const std::string& id : ids) messages.push_back({id, body});
    redis::Pipeline pipeline(*connection);
    const auto answer = moves.send(pipeline, messages, terms);
    pipeline.run();
    static_cast<void>(answer.get());  // throws if the send failed
  };
  send();  // loads the script
  const std::size_t messages = std::min(bench.scale.border_messages, bench.scale.border_bytes / body.size());
  const std::size_t calls = std::max<std::size_t>(messages / batch, 2);
  const double before = bench.server.cpu_us();
  for (std::size_t i = 0; i < calls; ++i) send();
  return (bench.server.cpu_us() - before) / static_cast<double>(calls * batch);
}

void measure(Bench& bench, std::size_t size, std::size_t batch, const std::string& form) {
  const std::string name = "border." + std::to_string(size) + '.' + form;
  bench.progress.step(name);
  const std::string body(size, 'x');
  bench.figures.add(name + ".script_us", redis_us(bench, kNever, body, batch));
  bench.figures.add(name + ".beside_us", redis_us(bench, 0, body, batch));
}

}  // namespace

void border(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const std::size_t size : kSizes) {
      measure(bench, size, 1, "one");
      const std::size_t batch = std::min(kCallBytes / size, store::kBatch);
      if (batch > 1) measure(bench, size, batch, "batch");
    }
  }
  bench.server.flush();
}

}  // namespace bench
