#include "bench/stall.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace bench {
namespace {

constexpr double kTableBytes = 512 * 1024;

double busy_us(std::string_view stats) {
  const std::string_view line = field_of(stats, "cmdstat_evalsha");
  const std::size_t at = line.find("usec=");
  if (at == std::string_view::npos) throw std::runtime_error("INFO commandstats of this server has no evalsha");
  return std::strtod(line.data() + at + 5, nullptr);
}

}  // namespace

// Reads Redis' own count of the time in scripts after each call, in the same round trip.
Stall::Totals Stall::call(const AddCall& add_call, std::size_t number) {
  delayqueue::redis::Pipeline pipeline(*connection_);
  const CheckAnswer check_answer = add_call(pipeline, number);
  pipeline.command("INFO").arg("commandstats").command("INFO").arg("memory").run();
  pipeline.reply(0);  // throws if the answer is an error
  if (check_answer) check_answer();
  const double memory = std::strtod(field_of(pipeline.reply(2).text(), "used_memory").data(), nullptr);
  return {busy_us(pipeline.reply(1).text()), memory};
}

void Stall::measure(const std::string& name, const AddCall& add_call) {
  const std::size_t calls = bench_.scale.calls;
  std::vector<double> usual;
  double growth = 0;
  Totals before = call(add_call, 0);  // the first call loads the script
  for (std::size_t i = 1; i <= calls; ++i) {
    const Totals after = call(add_call, i);
    const double ms = (after.busy_us - before.busy_us) / 1000;
    const bool table = std::abs(after.memory - before.memory) > kTableBytes;
    table ? void(growth = std::max(growth, ms)) : usual.push_back(ms);
    before = after;
    bench_.progress.step(name, i, calls);
  }
  bench_.figures.add("stall_ms." + name, percentile(usual, 0.999));
  bench_.figures.add("stall_p50_ms." + name, percentile(usual, 0.5));
  bench_.figures.add("stall_growth_ms." + name, growth);
}

}  // namespace bench
