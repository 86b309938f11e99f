#include "bench/scale.h"

namespace bench {

Scale quick() {
  Scale scale;
  scale.name = "quick";
  scale.rounds = 3;
  scale.messages = 50'000;
  scale.repetitions = 1;
  scale.sending = milliseconds(600);
  scale.lone_messages = 40'000;
  scale.end_to_end = 50'000;
  scale.late_messages = 2'000;
  scale.wakes = 250;
  scale.idle = milliseconds(3'000);
  scale.herds = 1;
  scale.millions = 1;
  scale.until = milliseconds(45'000);
  return scale;
}

Scale tiny() {
  Scale scale;
  scale.name = "tiny";
  scale.rounds = 1;
  scale.messages = 2'000;
  scale.repetitions = 1;
  scale.sending = milliseconds(50);
  scale.lone_messages = 500;
  scale.end_to_end = 1'000;
  scale.late_messages = 100;
  scale.wakes = 10;
  scale.idle = milliseconds(100);
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
