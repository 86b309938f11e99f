// Sends and receives over a longer link: a relay delays every byte, as a network does. The rates without the relay show
// what the relay itself costs, since it shares the machine.

#include "bench/delay_relay.h"
#include "bench/jobs.h"
#include "bench/part.h"

namespace bench {

void links(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    measure_jobs(bench, Target(bench.server), "link.none", bench.scale.linked, payload());
    for (const int round_trip_ms : {0, 1, 4}) {
      const DelayRelay relay(bench.server.socket(), std::chrono::microseconds(500 * round_trip_ms));
      Target target(bench.server);
      target.url = relay.url();
      measure_jobs(bench, target, "link." + std::to_string(round_trip_ms), bench.scale.linked, payload());
    }
  }
  for (const std::string job : {"send", "receive"}) {
    for (const std::string ms : {"0", "1", "4"})
      bench.figures.ratio("ratio.link_" + ms + '_' + job, "link." + ms + '.' + job, "link.none." + job);
  }
}

}  // namespace bench
