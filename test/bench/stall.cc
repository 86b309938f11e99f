#include "bench/stall.h"

namespace bench {
namespace {

constexpr double kTableBytes = 512 * 1024;

}  // namespace

// Reads Redis' own count of the time in scripts after each call, in the same round trip.
Stall::Totals Stall::call(const AddCall& add_call, std::size_t number) {
  delayqueue::redis::Pipeline pipeline(*connection_);
  const CheckAnswer check_answer = add_call(pipeline, number);
  const std::size_t measured = pipeline.size();
  pipeline.command("INFO").arg("commandstats").command("INFO").arg("memory").run();
  for (std::size_t i = 0; i < measured; ++i) pipeline.reply(i);  // throws if the answer is an error
  if (check_answer) check_answer();
  const double memory = std::strtod(field_of(pipeline.reply(measured + 1).text(), "used_memory").data(), nullptr);
  return {std::string(pipeline.reply(measured).text()), memory};
}

void Stall::measure(const std::string& name, const AddCall& add_call) {
  const std::size_t calls = bench_.scale.calls;
  std::vector<double> usual;
  double growth = 0;
  Totals before = call(add_call, 0);  // the first call loads the script
  for (std::size_t i = 1; i <= calls; ++i) {
    Totals after = call(add_call, i);
    const double ms = longest_us(before.stats, after.stats) / 1000;
    const bool table = std::abs(after.memory - before.memory) > kTableBytes;
    table ? void(growth = std::max(growth, ms)) : usual.push_back(ms);
    before = std::move(after);
    bench_.progress.step(name, i, calls);
  }
  bench_.figures.add("stall_ms." + name, percentile(usual, 0.999));
  bench_.figures.add("stall_p50_ms." + name, percentile(usual, 0.5));
  bench_.figures.add("stall_growth_ms." + name, growth);
}

}  // namespace bench
