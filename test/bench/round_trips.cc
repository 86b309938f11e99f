#include "bench/round_trips.h"

#include <stdexcept>
#include <string>

#include "bench/wire.h"

namespace bench {
namespace {

double rate_of(Bench& bench, std::size_t calls, const std::string& request, const std::string& answer) {
  Wire wire(bench.server.socket());
  const auto call = [&] {
    wire.write(request);
    if (wire.read(answer.size()) != answer) throw std::runtime_error("round trips: the server answered with an error");
  };
  call();  // the server accepts the connection
  const auto start = Clock::now();
  for (std::size_t i = 0; i < calls; ++i) call();
  return static_cast<double>(calls) / since(start);
}

}  // namespace

double ping_rate(Bench& bench, std::size_t calls) {
  std::string request;
  append(request, {"PING"});
  return rate_of(bench, calls, request, "+PONG\r\n");
}

double script_rate(Bench& bench, std::size_t calls) {
  const std::string sha = bench.server.command({"SCRIPT", "LOAD", "return 1"});
  std::string request;
  append(request, {"EVALSHA", sha, "0"});
  return rate_of(bench, calls, request, ":1\r\n");
}

}  // namespace bench
