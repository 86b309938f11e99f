#include "support/command_times.h"

#include "support/ledger.h"

namespace test {
namespace {

double number_after(const std::string& line, const std::string& name) {
  const auto at = line.find(name + '=');
  return at == std::string::npos ? 0 : std::stod(line.substr(at + name.size() + 1));
}

long long p999(Redis& client, const std::string& command) {
  const auto reply = client.cmd({"LATENCY", "HISTOGRAM", command});
  if (reply.array.size() < 2 || reply.array[1].array.size() < 4) return 0;
  const auto& buckets = reply.array[1].array[3].array;  // us, number of calls up to it, us, ...
  for (std::size_t i = 0; i + 1 < buckets.size(); i += 2) {
    if (buckets[i + 1].integer * 1000 >= buckets.back().integer * 999) return buckets[i].integer;
  }
  return 0;
}

}  // namespace

CommandTimes command_times(Redis& client, const std::string& command) {
  // calls=9,usec=99,usec_per_call=11.00,...
  const std::string line = info("commandstats", "cmdstat_" + command, client);
  return {static_cast<long long>(number_after(line, "calls")), number_after(line, "usec_per_call"),
          p999(client, command)};
}

std::ostream& operator<<(std::ostream& out, const CommandTimes& times) {
  return out << times.calls << " calls, mean " << times.mean_us << " us, p99.9 <= " << times.p999_us << " us";
}

}  // namespace test
