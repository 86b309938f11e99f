// Sends and receives over a longer link: a relay delays every byte, as a network does.
#include <string>

#include "bench/delay_relay.h"
#include "bench/jobs.h"
#include "bench/part.h"

namespace bench {

void links(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const int round_trip_ms : {0, 1, 4}) {
      const DelayRelay relay(bench.server.socket(), std::chrono::microseconds(500 * round_trip_ms));
      Target target(bench.server);
      target.url = relay.url();
      measure_jobs(bench, target, "link." + std::to_string(round_trip_ms), bench.scale.linked, payload());
    }
  }
  for (const std::string job : {"send", "receive"}) {
    bench.figures.ratio("ratio.link_1_" + job, "link.1." + job, "link.0." + job);
    bench.figures.ratio("ratio.link_4_" + job, "link.4." + job, "link.0." + job);
  }
}

}  // namespace bench
