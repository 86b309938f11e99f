// Handlers that wait, as those do that call other services: how much of the ideal rate they reach.

#include "bench/drain.h"
#include "bench/jobs.h"
#include "bench/part.h"

namespace bench {
namespace {

constexpr milliseconds kHandler{10};
constexpr std::chrono::minutes kPatience{3};

void measure(Bench& bench, std::size_t workers) {
  const std::string name = "sleepers." + std::to_string(workers);
  bench.progress.step(name);
  bench.server.flush();
  const std::size_t messages = workers * static_cast<std::size_t>(bench.scale.sleepers / kHandler);
  send_backlog(Target(bench.server), messages, payload(), Due::at_once);
  Drain drain(bench.server.url(), {kQueue}, workers, {}, {}, kHandler);
  if (!drain.reaches(messages, Clock::now() + kPatience, bench.progress))
    throw std::runtime_error("sleepers: not all messages were delivered in time");
  drain.stop();
  bench.figures.add(name + ".share", seconds(bench.scale.sleepers) / drain.took());
}

}  // namespace

void sleepers(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const std::size_t workers : {64, 256}) measure(bench, workers);
  }
}

}  // namespace bench
