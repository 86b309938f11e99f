#include "chaos/links.h"

namespace chaos {

using namespace std::chrono_literals;

std::vector<FaultKind> Links::faults(milliseconds lease) {
  return {{"link_delay", 300ms, 1500ms},
          {"link_black_hole", 300ms, 2 * lease},
          {"link_hold_replies", 300ms, 2 * lease},
          {"link_refuse", 300ms, 1500ms},
          {"link_cut", 0ms, 0ms},
          {"link_reset", 0ms, 0ms},
          {"link_drop_replies", 0ms, 0ms},
          {"link_drop_commands", 0ms, 0ms},
          {"link_truncate_replies", 0ms, 0ms}};
}

void Links::apply(const Step& step) {
  journal_.line("fault " + described(step));
  const std::size_t some = 1 + step.pick % 5;
  const auto switched = [&](auto&& set) {
    set(true);
    std::this_thread::sleep_for(step.lasts);
    set(false);
  };
  if (step.kind == "link_delay") {
    switched([&](bool on) { proxy_.delay(on ? milliseconds(10 + step.pick % 190) : 0ms); });
  } else if (step.kind == "link_black_hole") {
    switched([&](bool on) { proxy_.black_hole(on); });
  } else if (step.kind == "link_hold_replies") {
    switched([&](bool on) { proxy_.hold_replies(on); });
  } else if (step.kind == "link_refuse") {
    switched([&](bool on) {
      proxy_.refuse(on);
      if (on) proxy_.cut();
    });
  } else if (step.kind == "link_cut") {
    proxy_.cut();
  } else if (step.kind == "link_reset") {
    proxy_.reset();
  } else if (step.kind == "link_drop_replies") {
    proxy_.drop_replies(some);
  } else if (step.kind == "link_drop_commands") {
    proxy_.drop_commands(some);
  } else if (step.kind == "link_truncate_replies") {
    proxy_.truncate_replies(some);
  }
}

void Links::calm_down() {
  proxy_.drop_replies(0);
  proxy_.drop_commands(0);
  proxy_.truncate_replies(0);
}

}  // namespace chaos
