#include "chaos/schedule.h"

namespace chaos {
namespace {

// Written here because std::shuffle gives different results in different standard libraries.
void shuffle(Random& random, std::vector<FaultKind>& kinds) {
  for (std::size_t i = kinds.size(); i > 1; --i) std::swap(kinds[i - 1], kinds[random() % i]);
}

milliseconds draw_time(Random& random, milliseconds least, milliseconds most) {
  return milliseconds(between(random, least.count(), most.count()));
}

}  // namespace

std::string described(const Step& step) { return step.kind + ' ' + std::to_string(step.lasts.count()); }

std::vector<Step> draw_lane(Random& random, const std::vector<FaultKind>& kinds, milliseconds least, milliseconds most,
                            milliseconds end) {
  std::vector<Step> steps;
  std::vector<FaultKind> deck;
  milliseconds now{500};
  for (;;) {
    if (deck.empty()) {
      deck = kinds;
      if (deck.empty()) return steps;
      shuffle(random, deck);
    }
    const milliseconds rest = draw_time(random, least, most);
    now += rest;
    Step step{now, deck.back().name, draw_time(random, deck.back().least, deck.back().most), rest, random()};
    deck.pop_back();
    now += step.lasts;
    if (now > end) return steps;
    steps.push_back(std::move(step));
  }
}

std::vector<FaultKind> process_faults(milliseconds lease) {
  const milliseconds soon{100};
  const milliseconds later{700};  // delay before a killed process is restarted
  return {
      {"kill_worker", soon, later},
      {"freeze_worker", soon, lease},
      {"freeze_worker_beyond_lease", 3 * lease / 2, 3 * lease},
      {"deploy_worker", soon, soon},
      {"kill_producer", soon, later},
      {"freeze_producer", soon, 3 * lease / 2},
  };
}

}  // namespace chaos
