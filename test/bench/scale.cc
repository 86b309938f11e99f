#include "bench/scale.h"

namespace bench {

Scale quick() {
  Scale scale;
  scale.name = "quick";
  scale.rounds = 2;
  scale.messages = 30'000;
  scale.repetitions = 1;
  scale.compared = 15'000;
  scale.late_messages = 2'000;
  scale.idle = milliseconds(2'000);
  scale.round_trips = 4'000;
  scale.wakes = 200;
  scale.ahead = milliseconds(400);
  scale.payload_bytes = 48 * 1024 * 1024;
  scale.payload_messages = 20'000;
  scale.big_sends = 100;
  scale.batch_groups = 50;
  scale.linked = 20'000;
  scale.load_backlog = 30'000;
  scale.load = milliseconds(300);
  scale.herds = 1;
  scale.millions = 1;
  scale.until = milliseconds(46'000);
  return scale;
}

Scale tiny() {
  Scale scale;
  scale.name = "tiny";
  scale.rounds = 1;
  scale.messages = 2'000;
  scale.repetitions = 1;
  scale.compared = 500;
  scale.late_messages = 100;
  scale.idle = milliseconds(100);
  scale.round_trips = 100;
  scale.wakes = 10;
  scale.payload_bytes = 4 * 1024 * 1024;
  scale.payload_messages = 500;
  scale.big_sends = 3;
  scale.border_bytes = 8 * 1024 * 1024;
  scale.border_messages = 20;
  scale.batch_groups = 5;
  scale.linked = 500;
  scale.load_backlog = 1'000;
  scale.load = milliseconds(50);
  scale.crowd = 5;
  scale.crowd_calm = milliseconds(500);
  scale.many_queues_calm = milliseconds(500);
  scale.crowd_idle = milliseconds(100);
  scale.crowd_messages = 10;
  scale.burst = 1'000;
  scale.sleepers = milliseconds(50);
  scale.variant = 500;
  scale.partitioned = 200;
  scale.rss = milliseconds(500);
  scale.herds = 1;
  scale.herd_consumers = 5;
  scale.herd_half = milliseconds(150);
  scale.herd_calm = milliseconds(600);
  scale.millions = 1;
  scale.million = 10'000;
  scale.calls = 10;
  scale.until = milliseconds(30'000);
  return scale;
}

}  // namespace bench
